// swift-tools-version: 6.2

import PackageDescription

/// As in protectfs itself: continuous integration turns every warning into an error.
let strict = Context.environment["PROTECTFS_STRICT"] == "1"

/// What is written for iOS is compiled as iOS's projects compile it.
let plain: [SwiftSetting] = strict ? [.treatAllWarnings(as: .error)] : []
let settings: [SwiftSetting] = [.strictMemorySafety(), .enableUpcomingFeature("ExistentialAny")] + plain

let protection: Target.Dependency = .product(name: "DataProtection", package: "protectfs")
let grdb: Target.Dependency = .product(name: "GRDB", package: "GRDB.swift")

let package = Package(
  name: "Examples",
  products: [.library(name: "ProtectedDatabase", targets: ["ProtectedDatabase"])],
  dependencies: [
    // Its directory may have any name but "examples", which SwiftPM would take for this package.
    .package(name: "protectfs", path: ".."),
    .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    .package(url: "https://github.com/swhitty/FlyingFox", from: "0.27.1"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
  ],
  targets: [
    .target(name: "ProtectedDatabase", dependencies: [protection, grdb], swiftSettings: settings),
    .target(name: "BackgroundLogger", dependencies: [protection], swiftSettings: settings),
    .executableTarget(name: "LoggerTool", dependencies: ["BackgroundLogger"], swiftSettings: settings),
    .executableTarget(name: "PortedApp", dependencies: [protection], swiftSettings: plain),
    .target(name: "LetterBox", dependencies: [protection], swiftSettings: plain),
    .target(name: "Snippets", dependencies: [protection], swiftSettings: plain),
    .executableTarget(
      name: "NotesServer",
      dependencies: [
        "ProtectedDatabase", protection, grdb, .product(name: "FlyingFox", package: "FlyingFox"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        .product(name: "Logging", package: "swift-log"),
      ], swiftSettings: settings),

    // What tests run beside themselves.
    .target(name: "CPausingStorage", path: "Tests/CPausingStorage", linkerSettings: [.linkedLibrary("sqlite3")]),
    .executableTarget(
      name: "DatabaseWriter", dependencies: ["ProtectedDatabase", "CPausingStorage", grdb],
      path: "Tests/DatabaseWriter", swiftSettings: settings),
    .target(name: "Mounting", dependencies: [protection], path: "Tests/Mounting", swiftSettings: settings),
    .testTarget(
      name: "ProtectedDatabaseTests",
      dependencies: ["ProtectedDatabase", "DatabaseWriter", "Mounting", protection, grdb],
      swiftSettings: settings),
    .testTarget(
      name: "BackgroundLoggerTests", dependencies: ["BackgroundLogger", "LoggerTool", "Mounting", protection],
      swiftSettings: settings),
    .testTarget(
      name: "NotesServerTests", dependencies: ["NotesServer", "Mounting", protection], swiftSettings: settings),
    .testTarget(name: "ClientTests", dependencies: ["Mounting", protection], swiftSettings: settings),
    .testTarget(
      name: "PortedAppTests", dependencies: ["PortedApp", "Mounting", protection], swiftSettings: settings),
    .testTarget(
      name: "LetterBoxTests", dependencies: ["LetterBox", "Mounting", protection], swiftSettings: settings),
    .testTarget(
      name: "SnippetTests",
      dependencies: [
        "Snippets", "Mounting", protection, .product(name: "DataProtectionTesting", package: "protectfs"),
      ],
      swiftSettings: settings),
  ]
)
