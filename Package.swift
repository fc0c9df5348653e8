// swift-tools-version: 6.2

import PackageDescription

/// Continuous integration turns every warning into an error; a newer compiler must not break a user's build.
let strict = Context.environment["PROTECTFS_STRICT"] == "1"

let settings: [SwiftSetting] =
  [.strictMemorySafety(), .enableUpcomingFeature("ExistentialAny")]
  + (strict ? [.treatAllWarnings(as: .error)] : [])

let system: Target.Dependency = .product(name: "SystemPackage", package: "swift-system")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let arguments: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")

let package = Package(
  name: "protectfs",
  products: [
    .library(name: "DataProtection", targets: ["DataProtection"]),
    .executable(name: "protectfs", targets: ["protectfs"]),
    // Loaded into the daemon by tests, and installed nowhere: only a dynamic library can stand before libc.
    .library(name: "FaultInjection", type: .dynamic, targets: ["FaultInjection"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
  ],
  targets: [
    .systemLibrary(name: "CFUSE", pkgConfig: "fuse3", providers: [.apt(["libfuse3-dev"])]),
    .systemLibrary(name: "CLibcrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CTSS2", pkgConfig: "tss2-esys", providers: [.apt(["libtss2-dev"])]),
    .target(name: "CLinux"),
    .target(name: "DataProtectionCore", dependencies: [system], swiftSettings: settings),
    .target(
      name: "DataProtection", dependencies: ["DataProtectionCore", "LinuxIO", system], swiftSettings: settings),
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
    .target(
      name: "StoreCheck",
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
    .executableTarget(
      name: "protectfs",
      dependencies: [
        "MountDaemon", "FileSystem", "FUSE", "StoreCheck", "KeyManagement", "Cryptography", "LinuxIO", "StoreFormat",
        "DataProtectionCore", system, logging, arguments,
      ],
      swiftSettings: settings),

    .target(name: "TestVectors", dependencies: ["Cryptography"], path: "Tests/TestVectors", swiftSettings: settings),
    .testTarget(name: "DataProtectionCoreTests", dependencies: ["DataProtectionCore"], swiftSettings: settings),
    .testTarget(
      name: "CryptographyTests", dependencies: ["Cryptography", "CLibcrypto", "TestVectors"], exclude: ["Vectors"],
      swiftSettings: settings),
    .testTarget(
      name: "TPMTests", dependencies: ["TPM", "CTSS2", "CSystemCalls", "Cryptography", "TestVectors"],
      swiftSettings: settings),
    .testTarget(
      name: "StoreFormatTests", dependencies: ["StoreFormat", "DataProtectionCore", "TestVectors"],
      exclude: ["Vectors"],
      swiftSettings: settings),
    .testTarget(
      name: "KeyManagementTests",
      dependencies: [
        "KeyManagement", "Cryptography", "LinuxIO", "StoreFormat", "DataProtectionCore", "TestVectors", system,
      ],
      swiftSettings: settings),
    .testTarget(
      name: "StoreCheckTests",
      dependencies: [
        "StoreCheck", "KeyManagement", "Cryptography", "LinuxIO", "StoreFormat", "DataProtectionCore", "TestVectors",
        system,
      ],
      exclude: ["Stores"],
      swiftSettings: settings),
    .testTarget(
      name: "FileProtectionTests",
      dependencies: [
        "FileProtection", "KeyManagement", "Cryptography", "LinuxIO", "StoreFormat", "DataProtectionCore",
        "TestVectors",
        system,
      ],
      swiftSettings: settings),
    .testTarget(
      name: "MountDaemonTests",
      dependencies: [
        "MountDaemon", "FUSE", "KeyManagement", "Cryptography", "DataProtectionCore", "LinuxIO", "StoreFormat",
        "TestVectors", system,
      ],
      swiftSettings: settings),
    // Its directory Targets is Fuzz/Sources/FuzzTargets: no module of its own, as it needs what only tests can import.
    .testTarget(
      name: "FuzzTests",
      dependencies: [
        "MountDaemon", "KeyManagement", "TPM", "Cryptography", "DataProtectionCore", "LinuxIO", "StoreFormat",
        "TestVectors",
      ],
      swiftSettings: settings),
    .target(name: "CSystemCalls", path: "Tests/SystemCalls"),
    .target(
      name: "FaultInjection", path: "Tests/FaultInjection",
      cSettings: [.headerSearchPath("../SystemCalls/include")]),
    .executableTarget(name: "NetworkFileSystem", dependencies: ["CFUSE"], path: "Tests/NetworkFileSystem"),
    .executableTarget(
      name: "FoundationProbe", dependencies: ["DataProtection"], path: "Tests/FoundationProbe", swiftSettings: settings),
    .executableTarget(
      name: "SandboxProbe", dependencies: ["CSystemCalls", "DataProtectionCore", "LinuxIO", system],
      path: "Tests/SandboxProbe", swiftSettings: settings),
    .testTarget(
      name: "CommandTests",
      dependencies: ["protectfs", "MountDaemon", "LinuxIO", system], swiftSettings: settings),
    .testTarget(
      name: "MountTests",
      dependencies: [
        "protectfs", "CSystemCalls", "DataProtection", "DataProtectionCore", "MountDaemon", "KeyManagement", "TPM",
        "Cryptography", "StoreCheck", "StoreFormat", "LinuxIO", "TestVectors", system,
      ],
      exclude: ["Stores"],
      swiftSettings: settings),
  ]
)
