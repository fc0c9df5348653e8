import FoundationEssentials
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// What is protected in a tree, and how: the document that `protectfs manifest --json` prints.
struct Manifest: Codable {
  /// The version of the document.
  static let version = 1

  var version = Self.version
  /// The directory that the items' paths start from.
  var directory: String
  var items: [Item]

  /// A file or directory.
  struct Item: Codable {
    enum Kind: String, Codable {
      case file, directory
    }

    /// The path from the manifest's directory; `.` for that itself.
    var path: String
    var kind: Kind
    var protectionClass: ProtectionClass
    /// Whether the class was chosen for it, and not inherited.
    var isExplicit: Bool
    /// Whether it has content that is encrypted: every regular file's is.
    var isEncrypted: Bool
    /// Its extended attributes, but for the class.
    var fields: [Field]

    private enum CodingKeys: String, CodingKey {
      case path, kind, isExplicit, isEncrypted, fields
      case protectionClass = "class"
    }
  }

  /// An extended attribute. Its name is in the manifest, its value is not.
  struct Field: Codable {
    var name: String
    var isEncrypted: Bool
  }
}

extension Manifest.Item {
  /// Looks at a file or directory. Needs no key.
  init(_ path: String, at item: PathName, isDirectory: Bool) throws(Errno) {
    let names = try item.attributeNames()
    let value = try item.attribute(PathName(ProtectionClass.attributeName))
    guard let protectionClass = ProtectionClass(name: String(decoding: value, as: UTF8.self)) else { throw .ioError }
    self.path = path
    self.protectionClass = protectionClass
    kind = isDirectory ? .directory : .file
    isExplicit = names.contains(PathName(ProtectionClass.attributeName))
    isEncrypted = !isDirectory
    fields = names.map(\.description).filter { $0 != ProtectionClass.attributeName }.sorted().map {
      // The mount encrypts users' attributes; the kernel's and root's are the backing file's own.
      Manifest.Field(name: $0, isEncrypted: $0.hasPrefix("user."))
    }
  }
}

extension Manifest {
  /// The largest manifest that is read, in bytes: some five million files.
  private static let longest = 1 << 30

  /// Reads a manifest.
  init(file path: String) throws {
    let bytes: [UInt8]
    do throws(Errno) {
      bytes = try Descriptor.open(PathName(path), [.readOnly]).readAll(limit: Self.longest)
    } catch {
      throw CommandFailure(path.printable, error)
    }
    do {
      self = try JSONDecoder().decode(Manifest.self, from: Data(bytes))
    } catch {
      throw CommandFailure(
        .failure, "\(path.printable) is no manifest: 'protectfs manifest --json' makes one (\(Self.reason(error)))")
    }
    guard version == Self.version else {
      throw CommandFailure(.failure, "\(path.printable) is a manifest of version \(version); this reads version 1")
    }
    try requireUniquePaths(path)
  }

  /// - Throws: where two items have the same path, of which only one can be right.
  private func requireUniquePaths(_ file: String) throws(CommandFailure) {
    var paths: Set<[UInt8]> = []
    for item in items where !paths.insert(Array(item.path.utf8)).inserted {
      throw CommandFailure(.failure, "\(file.printable) has \(item.path.printable) twice; nothing was changed")
    }
  }

  private static func reason(_ error: any Error) -> String {
    switch error as? DecodingError {
    case .dataCorrupted(let context), .keyNotFound(_, let context), .typeMismatch(_, let context),
      .valueNotFound(_, let context):
      context.debugDescription
    default: "\(error)"
    }
  }
}
