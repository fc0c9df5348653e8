// swift-tools-version: 6.2

import PackageDescription

let settings: [SwiftSetting] = [.strictMemorySafety(), .enableUpcomingFeature("ExistentialAny")]
let system: Target.Dependency = .product(name: "SystemPackage", package: "swift-system")

// The modules are protectfs's own, by symbolic links: what is measured is not public, and is to stay so.
let package = Package(
  name: "Benchmarks",
  dependencies: [.package(url: "https://github.com/apple/swift-system", from: "1.8.1")],
  targets: [
    .systemLibrary(name: "CLibcrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CTSS2", pkgConfig: "tss2-esys", providers: [.apt(["libtss2-dev"])]),
    .target(name: "CLinux"),
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
    .target(name: "CCounting"),
    .executableTarget(
      name: "Benchmarks",
      dependencies: [
        "CCounting", "FileProtection", "KeyManagement", "Cryptography", "LinuxIO", "StoreFormat", "DataProtectionCore",
        system,
      ],
      swiftSettings: settings),
  ],
  swiftLanguageModes: [.v6]
)
