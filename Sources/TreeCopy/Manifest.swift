import FoundationEssentials
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// What is protected in a tree, and how: the document that `protectfs manifest --json` prints.
package struct Manifest: Codable {
  /// The version of the document.
  package static let version = 1

  package var version = Self.version
  /// The directory that the items' paths start from.
  package var directory: String
  package var items: [Item]

  /// A file or directory.
  package struct Item: Codable {
    package enum Kind: String, Codable {
      case file, directory
    }

    /// The path from the manifest's directory; `.` for that itself.
    package var path: String
    package var kind: Kind
    package var protectionClass: ProtectionClass
    /// Whether the class was chosen for it, and not inherited.
    package var isExplicit: Bool
    /// Whether it has content that is encrypted: every regular file's is.
    package var isEncrypted: Bool
    /// Its extended attributes, but for the class.
    package var fields: [Field]

    private enum CodingKeys: String, CodingKey {
      case path, kind, isExplicit, isEncrypted, fields
      case protectionClass = "class"
    }
  }

  /// An extended attribute. Its name is in the manifest, its value is not.
  package struct Field: Codable {
    package var name: String
    package var isEncrypted: Bool
  }
}

extension Manifest.Item {
  /// Looks at a file or directory. Needs no key.
  package init(_ path: String, at item: PathName, isDirectory: Bool) throws(Errno) {
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

/// Why a file is no manifest that can be used.
package enum ManifestError: Error {
  case unreadable(Errno)
  case malformed(String)
  case unsupportedVersion(Int)
  /// Two items have the same path, of which only one can be right.
  case repeatedPath(String)
}

extension Manifest {
  /// The largest manifest that is read, in bytes: some five million files.
  private static let longest = 1 << 30

  /// Reads a manifest.
  package init(file path: String) throws(ManifestError) {
    let bytes: [UInt8]
    do throws(Errno) {
      bytes = try Descriptor.open(PathName(path), [.readOnly]).readAll(limit: Self.longest)
    } catch {
      throw .unreadable(error)
    }
    do {
      self = try JSONDecoder().decode(Manifest.self, from: Data(bytes))
    } catch {
      throw .malformed(Self.reason(error))
    }
    guard version == Self.version else { throw .unsupportedVersion(version) }
    var paths: Set<[UInt8]> = []
    for item in items where !paths.insert(Array(item.path.utf8)).inserted { throw .repeatedPath(item.path) }
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
