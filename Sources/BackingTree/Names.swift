import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage

/// A name as stored in the backing directory and, for a long name, the content of its sidecar.
package struct BackingName {
  package let name: PathName
  let sidecar: (name: PathName, encrypted: [UInt8])?
}

// Conversion between plain names and backing names: AES-256-SIV with the directory's ID as associated data.
extension BackingTree {
  /// The backing name of a plain name in a directory.
  ///
  /// - Throws: `ENAMETOOLONG` above 255 bytes.
  package func backingName(_ name: PathName, in directory: Node.Directory) throws(Errno) -> BackingName {
    guard name.bytes.count <= NameEncoding.longestName else { throw .fileNameTooLong }
    do throws(CryptographyError) {
      let encrypted = try volume.names.encrypt(Array(name.bytes), associatedData: directory.identifier)
      switch try NameEncoding.backingName(encrypted: encrypted, digest: sha256) {
      case .direct(let bytes):
        return BackingName(name: PathName(bytes: bytes), sidecar: nil)
      case .hashed(let bytes, let sidecar):
        return BackingName(name: PathName(bytes: bytes), sidecar: (PathName(bytes: sidecar), encrypted))
      }
    } catch {
      throw errno(error)
    }
  }

  /// The plain name of a backing name in a node's directory; `nil` for a name that does not belong to this store.
  func plainName(of name: PathName, in node: Node) throws(Errno) -> PathName? {
    let (handle, record) = try directory(node)
    return try plainName(of: name, NameEncoding.parse(name.bytes), in: handle, record)
  }

  private func plainName(
    of name: PathName, _ kind: NameEncoding.Kind, in handle: SharedDescriptor, _ record: Node.Directory
  ) throws(Errno) -> PathName? {
    let encrypted: [UInt8]
    switch kind {
    case .direct(let bytes):
      encrypted = bytes
    case .hashed(let sidecar):
      do throws(Errno) {
        let file = try handle.descriptor.open(PathName(bytes: sidecar), [.readOnly, .noFollow, .nonBlocking])
        encrypted = try file.readAll(limit: NameEncoding.longestName + NameCipher.overhead + 1)
      } catch {
        guard Self.isNoFile.contains(error) else { throw error }
        return nil
      }
      guard try isSidecar(encrypted, of: name) else { return nil }
    case .sidecar, .undecodable:
      return nil
    }
    return volume.entryName(encrypted, in: record.identifier)
  }

  /// The errors of reading a name that is not there any more, or is no regular file.
  private static let isNoFile: [Errno] = [
    .noSuchFileOrDirectory, .staleNFSFileHandle, .isDirectory, .tooManySymbolicLinkLevels, .noSuchAddressOrDevice,
  ]

  private func isSidecar(_ encrypted: [UInt8], of name: PathName) throws(Errno) -> Bool {
    do throws(CryptographyError) {
      return try NameEncoding.isSidecar(encrypted, of: name.bytes, digest: sha256)
    } catch {
      throw errno(error)
    }
  }

  /// Writes the sidecar of a long name, before the name itself is created. A correct sidecar that exists already is
  /// left alone, because its name may be in use.
  ///
  /// The sidecar is made durable here. A journal keeps the order of names, but not contents: a file whose sidecar is
  /// empty after a power cut has no name, even if the file had been on disk for long and was only renamed.
  ///
  /// A caller that does not create the name removes it again.
  package func writeSidecar(of name: BackingName, in handle: SharedDescriptor) throws(Errno) {
    guard let sidecar = name.sidecar else { return }
    let file: Descriptor
    do throws(Errno) {
      file = try handle.descriptor.open(sidecar.name, [.writeOnly, .create, .exclusive, .noFollow], mode: 0o600)
    } catch .fileExists {
      return try repairSidecar(sidecar.name, sidecar.encrypted, in: handle)
    }
    do throws(Errno) {
      try file.write(sidecar.encrypted)
      try file.synchronizeData()
    } catch {
      removeSidecar(of: name, in: handle)
      throw error
    }
  }

  private func repairSidecar(
    _ name: PathName, _ encrypted: [UInt8], in handle: SharedDescriptor
  ) throws(Errno) {
    let file = try handle.descriptor.open(name, [.readWrite, .noFollow, .nonBlocking])
    if try file.readAll(limit: encrypted.count + 1) != encrypted {
      try file.write(encrypted)
      try file.truncate(to: UInt64(encrypted.count))
    }
    // The writer may have been killed before the sidecar was durable.
    try file.synchronizeData()
  }

  /// Removes the sidecar of a long name that a call has failed to create. Where the call may have been carried out, as
  /// on a network file system that got no answer, it stays: without it the name would not be listed.
  package func removeSidecar(of name: BackingName, in handle: SharedDescriptor, after error: Errno) {
    if !error.mayBeDone { removeSidecar(of: name, in: handle) }
  }

  /// Removes the sidecar of a long name, unless the name is there. If this fails, the sidecar is a leftover, not an
  /// error.
  package func removeSidecar(of name: BackingName, in handle: SharedDescriptor) {
    guard let sidecar = name.sidecar else { return }
    do throws(Errno) {
      if try handle.descriptor.exists(name.name) { return }
      try handle.descriptor.unlink(sidecar.name)
    } catch {
      log.warning("a sidecar was left behind", metadata: ["name": "\(sidecar.name)", "error": "\(error)"])
    }
  }

  /// Whether a backing entry is the store's own: its directory, or a sidecar.
  package func isOwn(_ name: PathName, in node: Node) -> Bool { isOwn(name, NameEncoding.parse(name.bytes), in: node) }

  private func isOwn(_ name: PathName, _ kind: NameEncoding.Kind, in node: Node) -> Bool {
    kind == .sidecar || (node === nodes.root && name == Self.storeDirectory)
  }

  /// The plain name of a backing entry. `nil` for entries that callers do not see: the store's own files, sidecars, and
  /// names that do not belong to this store. Each of them, and each that cannot be read, is logged once.
  ///
  /// - Throws: the error of reading a sidecar.
  package func visibleName(
    of name: PathName, in node: Node, _ record: Node.Directory, _ directory: SharedDescriptor
  ) throws(Errno) -> PathName? {
    let kind = NameEncoding.parse(name.bytes)
    if isOwn(name, kind, in: node) { return nil }
    do throws(Errno) {
      if let plain = try plainName(of: name, kind, in: directory, record) { return plain }
    } catch {
      if isNewlyUndecodable(name) {
        log.error(
          "a name in the backing directory cannot be read",
          metadata: ["backing": "\(backingPath(of: node))/\(name)", "error": "\(error)"])
      }
      throw error
    }
    if isNewlyUndecodable(name) {
      log.warning(
        "a name in the backing directory does not belong to this store and is left out",
        metadata: ["backing": "\(backingPath(of: node))/\(name)"])
    }
    return nil
  }

  /// Refuses what is mounted in the backing directory. A store is on one file system: a flush of it would not make
  /// durable what is on another, which gets no new keys either while it is not mounted.
  ///
  /// - Throws: `EXDEV`.
  package func requireNoMount(_ status: Status, at location: Node.Location) throws(Errno) {
    guard status.is_mount_root != 0 else { return }
    if isNewlyUndecodable(location.name) {
      log.error(
        "something is mounted in the backing directory, and is refused: a store is on one file system",
        metadata: ["backing": "\(backingPath(of: location.parent))/\(location.name)"])
    }
    throw .improperLink
  }

  private func isNewlyUndecodable(_ name: PathName) -> Bool {
    undecodable.withLock { $0.count < 100_000 && $0.insert(name).inserted }
  }
}

extension Errno {
  /// Whether a call that fails with this may have been carried out: a network file system that gets no answer does not
  /// know.
  package var mayBeDone: Bool { [.ioError, .timedOut, .interrupted].contains(self) }
}
