// swift-tools-version: 6.2

import PackageDescription

let settings: [SwiftSetting] = [.strictMemorySafety(), .enableUpcomingFeature("ExistentialAny")]
let system: Target.Dependency = .product(name: "SystemPackage", package: "swift-system")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")

// The modules are protectfs's own, by symbolic links: what is fuzzed is not public, and is to stay so.
// scripts/fuzz.sh builds with the flags that libFuzzer needs.
let package = Package(
  name: "Fuzz",
  dependencies: [
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
  ],
  targets: [
    .systemLibrary(name: "CFUSE", pkgConfig: "fuse3", providers: [.apt(["libfuse3-dev"])]),
    .systemLibrary(name: "CLibcrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CTSS2", pkgConfig: "tss2-esys", providers: [.apt(["libtss2-dev"])]),
    .target(name: "CLinux"),
    .target(name: "CLibFuzzer"),
    .target(name: "DataProtectionCore", dependencies: [system], swiftSettings: settings),
    .target(name: "LinuxIO", dependencies: ["CLinux", system], swiftSettings: settings),
    .target(name: "Cryptography", dependencies: ["CLibcrypto"], swiftSettings: settings),
    .target(name: "TPM", dependencies: ["CTSS2", "Cryptography"], swiftSettings: settings),
    .target(name: "StoreFormat", dependencies: ["DataProtectionCore"], swiftSettings: settings),
    .target(
      name: "KeyManagement",
      dependencies: ["TPM", "Cryptography", "LinuxIO", "StoreFormat", "DataProtectionCore", system],
      swiftSettings: settings),
    .target(
      name: "FileProtection",
      dependencies: ["KeyManagement", "Cryptography", "LinuxIO", "StoreFormat", "DataProtectionCore", system],
      swiftSettings: settings),
    .target(name: "FUSE", dependencies: ["CFUSE", "LinuxIO", system], swiftSettings: settings),
    .target(
      name: "FileSystem",
      dependencies: [
        "FUSE", "FileProtection", "KeyManagement", "Cryptography", "LinuxIO", "StoreFormat", "DataProtectionCore",
        system, logging,
      ],
      swiftSettings: settings),
    .target(
      name: "MountDaemon",
      dependencies: [
        "FileSystem", "FUSE", "FileProtection", "KeyManagement", "Cryptography", "LinuxIO", "StoreFormat",
        "DataProtectionCore", system, logging,
      ],
      swiftSettings: settings),
    .target(
      name: "FuzzTargets",
      dependencies: [
        "MountDaemon", "KeyManagement", "TPM", "Cryptography", "LinuxIO", "StoreFormat", "DataProtectionCore",
      ],
      swiftSettings: settings),
    .executableTarget(name: "Fuzz", dependencies: ["FuzzTargets", "CLibFuzzer"], swiftSettings: settings),
  ],
  swiftLanguageModes: [.v6]
)
