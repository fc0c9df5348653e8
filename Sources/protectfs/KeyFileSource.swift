import Cryptography
import KeyManagement
import ProtectfsIO
import SystemPackage

/// Where a key file comes from.
enum KeyFileSource {
  case file(String)
  /// A credential of the service (systemd.exec(5), `LoadCredential=`).
  case credential(String)

  /// Reads it. One that others could have read is refused, unless that is wanted.
  func read(_ files: SecretFileOptions) throws(CommandFailure) -> SecretBytes {
    switch self {
    case .file(let path): return try Self.read(path, files)
    case .credential(let name):
      guard let directory = Process.environment("CREDENTIALS_DIRECTORY") else {
        throw CommandFailure(
          .failure, "there is no $CREDENTIALS_DIRECTORY; systemd sets it for services with LoadCredential=")
      }
      guard !name.contains("/") else { throw CommandFailure(.failure, "'\(name)' is not the name of a credential") }
      // Who may read it there is for systemd to see to.
      return try Self.read("\(directory)/\(name)", nil)
    }
  }

  private static func read(_ path: String, _ files: SecretFileOptions?) throws(CommandFailure) -> SecretBytes {
    var content = SecretBytes(count: KeyFile.lengths.upperBound + 1)
    let count: Int
    do throws(Errno) {
      let file = try Descriptor.open(PathName(path), [.readOnly, .nonBlocking])
      let status = try file.status()
      guard status.type == .regular else { throw Errno.invalidArgument }
      try files?.require(file, path)
      count = try unsafe content.withMutableBytes { (buffer) throws(Errno) in
        try unsafe file.read(into: buffer, at: 0)
      }
    } catch {
      throw files?.failure(path, error) ?? CommandFailure(path, error)
    }
    guard KeyFile.lengths.contains(count) else {
      throw CommandFailure(KeyManagementError.keyFileMalformed)!
    }
    return content.prefix(count)
  }

  /// Makes a key file with random content. It must not exist.
  static func create(_ path: String) throws -> SecretBytes {
    let content = try SecretBytes(randomCount: KeyFile.lengths.lowerBound)
    let file = try NewSecretFile(path: path)
    try file.write(content)
    return content
  }
}
