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

// What most modules are on: how the store looks, and what asks the operating system.
let base: [Target.Dependency] = ["Cryptography", "StoreFormat", "ProtectfsIO", "ProtectfsPolicy", system]

func module(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, swiftSettings: settings)
}

/// What several test targets use.
func support(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, path: "Tests/\(name)", swiftSettings: settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
  .testTarget(name: name, dependencies: dependencies, exclude: exclude, swiftSettings: settings)
}

let package = Package(
  name: "protectfs",
  // SwiftPM makes a product of each executable target here, and none for a package that depends on this one. So the
  // command is no product of its own: all that a product reaches, whoever uses it, an app would fetch and be warned of,
  // and no other package of the app could have modules of these names.
  products: [
    .library(name: "DataProtection", targets: ["DataProtection"]),
    .library(name: "DataProtectionEssentials", targets: ["DataProtectionEssentials"]),
    .library(name: "DataProtectionTesting", targets: ["DataProtectionTesting"]),
    .plugin(name: "ProtectfsLintPlugin", targets: ["ProtectfsLintPlugin"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
  ],
  targets: [
    // What apps link. SwiftPM admits a name once among all modules of an app, so these carry the package's.
    .target(name: "CProtectfsIO"),
    module("ProtectfsLibc", []),
    module("ProtectfsIO", ["CProtectfsIO", "ProtectfsLibc", system]),
    module("ProtectfsPolicy", []),
    module("ProtectfsClient", ["ProtectfsPolicy", "ProtectfsIO", system]),
    module("DataProtectionEssentials", ["ProtectfsClient", "ProtectfsPolicy", "ProtectfsIO", system]),
    module(
      "DataProtection", ["DataProtectionEssentials", "ProtectfsClient", "ProtectfsPolicy", "ProtectfsIO", system]),
    // What tests of apps link.
    .target(name: "CProtectfsTesting"),
    module(
      "DataProtectionTesting",
      [
        "CProtectfsTesting", "ProtectfsLint", "DataProtectionEssentials", "ProtectfsClient", "ProtectfsPolicy",
        "ProtectfsIO", system,
      ]),

    // `swift package protection-lint`, and the same in tests: compiled in the packages that run it, it depends on
    // nothing.
    .target(name: "CProtectfsIndexStore"),
    module("ProtectfsLint", ["CProtectfsIndexStore"]),
    .executableTarget(name: "ProtectfsLintTool", dependencies: ["ProtectfsLint"], swiftSettings: settings),
    .plugin(
      name: "ProtectfsLintPlugin",
      capability: .command(
        intent: .custom(
          verb: "protection-lint", description: "Find calls of Foundation that drop a file's protection class")),
      dependencies: ["ProtectfsLintTool"]),
    tests("ProtectfsLintTests", ["ProtectfsLint"], exclude: ["Fixture"]),

    // The store and its keys.
    .systemLibrary(name: "CLibcrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CTSS2", pkgConfig: "tss2-esys", providers: [.apt(["libtss2-dev"])]),
    module("Cryptography", ["CLibcrypto", "ProtectfsIO"]),
    module("TPM", ["CTSS2", "Cryptography"]),
    module("StoreFormat", ["ProtectfsPolicy"]),
    module("KeyManagement", ["TPM"] + base),
    module("Contents", ["Cryptography", "StoreFormat", "ProtectfsIO", system]),
    module("FileProtection", ["Contents", "KeyManagement"] + base),
    module("BackingTree", ["FileProtection", "Contents", "KeyManagement", logging] + base),
    module("StoreCheck", ["Contents", "KeyManagement"] + base),

    // The mounted file system, and the daemon.
    .systemLibrary(name: "CFUSE", pkgConfig: "fuse3", providers: [.apt(["libfuse3-dev"])]),
    module("FUSE", ["CFUSE", "ProtectfsIO", system]),
    module("FileSystem", ["FUSE", "BackingTree", "FileProtection", "Contents", "KeyManagement", logging] + base),
    module(
      "MountDaemon",
      [
        "FileSystem", "FUSE", "BackingTree", "FileProtection", "Contents", "KeyManagement", "ProtectfsClient", logging,
      ] + base),
    module("TreeCopy", ["FileSystem", "FUSE", "BackingTree", "Contents", "KeyManagement", logging] + base),
    // Headers alone: libsystemd is loaded when it is used.
    .target(name: "CSystemd"),
    module("SystemBus", ["CSystemd", "ProtectfsIO", system]),
    module("Hooks", ["ProtectfsClient", "ProtectfsPolicy", "ProtectfsIO", system, logging]),
    .executableTarget(
      name: "protectfs",
      dependencies: [
        "Hooks", "SystemBus", "TreeCopy", "MountDaemon", "FileSystem", "FUSE", "StoreCheck", "KeyManagement",
        "ProtectfsClient", "ProtectfsFaultInjection", logging, arguments,
      ] + base,
      swiftSettings: settings,
      // All symbols are bound at the start, and the tables of their addresses then made read-only.
      linkerSettings: [
        .unsafeFlags(
          ["-use-ld=lld"] + ["now", "relro"].flatMap { ["-Xlinker", "-z", "-Xlinker", $0] },
          .when(configuration: .release))
      ]),

    // Unlocks at logins; in C, since every program in which users log in loads it. A client of the daemon that shares no
    // code with it. scripts/install.sh links it: as a product of SwiftPM it would need Swift's libraries.
    .target(name: "pam_protectfs", linkerSettings: [.linkedLibrary("pam")]),

    support("TestVectors", ["Cryptography"]),
    tests("ProtectfsIOTests", ["ProtectfsIO", system]),
    tests("ProtectfsClientTests", ["ProtectfsClient", "ProtectfsPolicy", "ProtectfsIO", system]),
    tests(
      "DataProtectionTests",
      ["DataProtection", "DataProtectionEssentials", "ProtectfsClient", "ProtectfsPolicy", "ProtectfsIO", system]),
    tests("CryptographyTests", ["Cryptography", "CLibcrypto", "TestVectors"], exclude: ["Vectors"]),
    tests("TPMTests", ["TPM", "CTSS2", "CSystemCalls", "Cryptography", "TestVectors"]),
    tests("StoreFormatTests", ["StoreFormat", "ProtectfsPolicy", "TestVectors"], exclude: ["Vectors"]),
    support("SimulatedDisk", ["CProtectfsIO", "CSystemCalls", "ProtectfsIO", "TestVectors", system]),
    tests("SimulatedDiskTests", ["SimulatedDisk", "ProtectfsIO", system], exclude: ["sequences.txt"]),
    tests("KeyManagementTests", ["KeyManagement", "SimulatedDisk", "TestVectors"] + base),
    tests("StoreCheckTests", ["StoreCheck", "KeyManagement", "TestVectors"] + base, exclude: ["Stores"]),
    tests("TreeCopyTests", ["TreeCopy", "ProtectfsIO", system]),
    tests(
      "ContentsTests",
      ["Contents", "Cryptography", "StoreFormat", "SimulatedDisk", "ProtectfsIO", "TestVectors", system]),
    tests("FileProtectionTests", ["FileProtection", "Contents", "KeyManagement", "TestVectors"] + base),
    tests("MountDaemonTests", ["MountDaemon", "FUSE", "KeyManagement", "ProtectfsClient", "TestVectors"] + base),
    // Its directory Targets is Fuzz/Sources/FuzzTargets: no module of its own, as it needs what only tests can import.
    tests(
      "FuzzTests", ["MountDaemon", "Contents", "KeyManagement", "TPM", "ProtectfsClient", "TestVectors"] + base),
    .target(name: "CSystemCalls", path: "Tests/SystemCalls"),
    support("InProcessKernel", ["CFUSE", "ProtectfsIO", system]),
    tests("FUSETests", ["InProcessKernel", "FUSE", "CFUSE", "ProtectfsIO", system]),
    support("Contract", ["ProtectfsPolicy", "ProtectfsIO", system]),
    tests(
      "FileSystemTests",
      [
        "InProcessKernel", "Contract", "SimulatedDisk", "CFUSE", "MountDaemon", "BackingTree", "Contents", "FUSE",
        "KeyManagement", "StoreCheck", "ProtectfsClient", logging,
      ] + base),
    // Empty in release builds.
    .target(
      name: "ProtectfsFaultInjection", dependencies: ["CProtectfsIO"], path: "Tests/FaultInjection",
      cSettings: [.headerSearchPath("../SystemCalls/include")]),
    .executableTarget(name: "NetworkFileSystem", dependencies: ["CFUSE"], path: "Tests/NetworkFileSystem"),
    .executableTarget(
      name: "TestingProbe", dependencies: ["DataProtectionTesting", "DataProtection", "ProtectfsIO", system],
      path: "Tests/TestingProbe", swiftSettings: settings),
    .executableTarget(
      name: "FoundationProbe", dependencies: ["DataProtection"], path: "Tests/FoundationProbe", swiftSettings: settings),
    .executableTarget(
      name: "SandboxProbe", dependencies: ["CSystemCalls", "ProtectfsClient", "ProtectfsIO", system],
      path: "Tests/SandboxProbe", swiftSettings: settings),
    .executableTarget(name: "PAMProbe", dependencies: ["pam_protectfs"], path: "Tests/PAMProbe"),
    tests("CommandTests", ["protectfs", "MountDaemon", "KeyManagement", "ProtectfsClient"] + base),
    tests(
      "MountTests",
      [
        "protectfs", "CSystemCalls", "DataProtection", "ProtectfsClient", "MountDaemon", "KeyManagement", "TPM",
        "StoreCheck", "TestVectors", "Contract",
      ] + base, exclude: ["Stores"]),
  ]
)
