// swift-tools-version: 6.2

import PackageDescription

let settings: [SwiftSetting] = [.strictMemorySafety(), .enableUpcomingFeature("ExistentialAny")]
let system: Target.Dependency = .product(name: "SystemPackage", package: "swift-system")
let base: [Target.Dependency] = ["Cryptography", "StoreFormat", "ProtectfsIO", "ProtectfsPolicy", system]

func module(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, swiftSettings: settings)
}

// The modules are protectfs's own, by symbolic links: what is measured is not public, and is to stay so.
let package = Package(
  name: "Benchmarks",
  dependencies: [.package(url: "https://github.com/apple/swift-system", from: "1.8.1")],
  targets: [
    .target(name: "CProtectfsIO"),
    module("ProtectfsLibc", []),
    module("ProtectfsIO", ["CProtectfsIO", "ProtectfsLibc", system]),
    module("ProtectfsPolicy", []),
    .systemLibrary(name: "CLibcrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CTSS2", pkgConfig: "tss2-esys", providers: [.apt(["libtss2-dev"])]),
    module("Cryptography", ["CLibcrypto", "ProtectfsIO"]),
    module("TPM", ["CTSS2", "Cryptography"]),
    module("StoreFormat", ["ProtectfsPolicy"]),
    module("KeyManagement", ["TPM"] + base),
    module("Contents", ["Cryptography", "StoreFormat", "ProtectfsIO", system]),
    module("FileProtection", ["Contents", "KeyManagement"] + base),
    .target(name: "CCounting"),
    .executableTarget(
      name: "Benchmarks", dependencies: ["CCounting", "FileProtection", "KeyManagement"] + base,
      swiftSettings: settings),
  ],
  swiftLanguageModes: [.v6]
)
