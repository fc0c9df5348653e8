// swift-tools-version: 6.2

import PackageDescription

// scripts/app-package.sh says where the package is, and which modules the app has.
let url = Context.environment["PROTECTFS_URL"] ?? "https://localhost/protectfs"
let names = (Context.environment["NAMES"] ?? "").split(separator: " ").map(String.init)

let package = Package(
  name: "app",
  dependencies: [.package(url: url, from: "1.0.0")],
  targets: [
    .executableTarget(
      name: "app",
      dependencies: [.product(name: "DataProtection", package: "protectfs")] + names.map { .target(name: $0) }),
    .executableTarget(
      name: "essentials", dependencies: [.product(name: "DataProtectionEssentials", package: "protectfs")]),
    .executableTarget(name: "foundation"),
  ] + names.map { .target(name: $0) }
)
