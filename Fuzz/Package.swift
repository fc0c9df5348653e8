// swift-tools-version: 6.2

import PackageDescription

let settings: [SwiftSetting] = [.strictMemorySafety(), .enableUpcomingFeature("ExistentialAny")]
let system: Target.Dependency = .product(name: "SystemPackage", package: "swift-system")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let base: [Target.Dependency] = ["Cryptography", "StoreFormat", "ProtectfsIO", "ProtectfsPolicy", system]

func module(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, swiftSettings: settings)
}

// The modules are protectfs's own, by symbolic links: what is fuzzed is not public, and is to stay so.
// scripts/fuzz.sh builds with the flags that libFuzzer needs.
let package = Package(
  name: "Fuzz",
  dependencies: [
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
  ],
  targets: [
    .target(name: "CProtectfsIO"),
    module("ProtectfsLibc", []),
    module("ProtectfsIO", ["CProtectfsIO", "ProtectfsLibc", system]),
    module("ProtectfsPolicy", []),
    module("ProtectfsClient", ["ProtectfsPolicy", "ProtectfsIO", system]),
    .systemLibrary(name: "CLibcrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CTSS2", pkgConfig: "tss2-esys", providers: [.apt(["libtss2-dev"])]),
    module("Cryptography", ["CLibcrypto", "ProtectfsIO"]),
    module("TPM", ["CTSS2", "Cryptography"]),
    module("StoreFormat", ["ProtectfsPolicy"]),
    module("KeyManagement", ["TPM"] + base),
    module("Contents", ["Cryptography", "StoreFormat", "ProtectfsIO", system]),
    module("FileProtection", ["Contents", "KeyManagement"] + base),
    module("BackingTree", ["FileProtection", "Contents", "KeyManagement", logging] + base),
    .systemLibrary(name: "CFUSE", pkgConfig: "fuse3", providers: [.apt(["libfuse3-dev"])]),
    module("FUSE", ["CFUSE", "ProtectfsIO", system]),
    module("FileSystem", ["FUSE", "BackingTree", "FileProtection", "Contents", "KeyManagement", logging] + base),
    module(
      "MountDaemon",
      ["FileSystem", "FUSE", "BackingTree", "FileProtection", "KeyManagement", "ProtectfsClient", logging] + base),
    .target(name: "CLibFuzzer"),
    module("FuzzTargets", ["MountDaemon", "Contents", "KeyManagement", "TPM", "ProtectfsClient"] + base),
    .executableTarget(name: "Fuzz", dependencies: ["FuzzTargets", "CLibFuzzer"], swiftSettings: settings),
  ],
  swiftLanguageModes: [.v6]
)
