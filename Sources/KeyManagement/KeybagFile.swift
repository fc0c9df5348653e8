import LinuxIO
import StoreFormat
import SystemPackage

/// Where a store's keybag is: `.protectfs/keybag` in the backing directory, the one before it in `keybag.previous`.
package struct KeybagFile: ~Copyable, Sendable {
  private static let name: PathName = "keybag"
  private static let previousName: PathName = "keybag.previous"

  private let directory: Descriptor

  /// The keybag of the store in a backing directory.
  ///
  /// - Throws: `keybagMissing` when the directory has no store.
  package init(backing: borrowing Descriptor) throws(KeyManagementError) {
    do throws(Errno) {
      directory = try backing.open(PathName(NameEncoding.storeDirectory), [.readOnly, .directory, .noFollow])
    } catch {
      throw error == .noSuchFileOrDirectory ? .keybagMissing : .keybagUnreadable(error)
    }
  }

  /// Makes the store's own directory, for a new store. One without a keybag may be there already.
  package static func makeDirectory(in backing: borrowing Descriptor) throws(KeyManagementError) {
    do throws(Errno) {
      try backing.makeDirectory(PathName(NameEncoding.storeDirectory), mode: 0o700)
    } catch {
      guard error == .fileExists else { throw .keybagUnwritable(error) }
    }
  }

  /// The bytes of the keybag.
  package func read() throws(KeyManagementError) -> [UInt8] { try read(Self.name) }

  /// The bytes of the keybag before the last change.
  package func readPrevious() throws(KeyManagementError) -> [UInt8] { try read(Self.previousName) }

  /// Replaces the keybag, and keeps the one before.
  ///
  /// - Throws: `keybagNotDurable` when it was replaced, but may not be after a power cut; `keybagUnwritable` when it was
  ///   not; `keybagChangedMeanwhile` unless the keybag there is the one that the new one was made of: same store, one
  ///   generation less, or none where the new one is the first.
  package func replace(with keybag: Keybag) throws(KeyManagementError) {
    var file = try writing { () throws(Errno) in try AtomicFile(replacing: Self.name, in: directory) }
    guard try isSuccessor(keybag) else { throw .keybagChangedMeanwhile }
    do throws(Errno) {
      try unsafe keybag.bytes.withBytes { (bytes) throws(Errno) in
        try unsafe file.commit(bytes, keepingPreviousAs: Self.previousName)
      }
    } catch {
      throw file.isCommitted ? .keybagNotDurable(error) : .keybagUnwritable(error)
    }
  }

  /// Makes the second copy the same as the keybag: after a change of passcode, so that the old one opens neither. At no
  /// point is there less than one whole keybag.
  ///
  /// - Throws: `previousKeybagKept`.
  package func replacePrevious(with keybag: Keybag) throws(KeyManagementError) {
    do throws(Errno) {
      var file = try AtomicFile(replacing: Self.previousName, in: directory)
      try unsafe keybag.bytes.withBytes { (bytes) throws(Errno) in try unsafe file.commit(bytes) }
    } catch {
      throw .previousKeybagKept(error)
    }
  }

  private func isSuccessor(_ keybag: Keybag) throws(KeyManagementError) -> Bool {
    let bytes: [UInt8]
    do throws(KeyManagementError) {
      bytes = try read()
    } catch .keybagMissing {
      return keybag.generation == 1
    }
    do throws(FormatError) {
      let current = try KeybagRecord(parsing: bytes)
      return current.storeID == keybag.storeID && current.generation + 1 == keybag.generation
    } catch {
      throw KeyManagementError(error)
    }
  }

  private func writing<Result: ~Copyable>(
    _ body: () throws(Errno) -> Result
  ) throws(KeyManagementError) -> Result {
    do throws(Errno) { return try body() } catch { throw .keybagUnwritable(error) }
  }

  private func read(_ name: PathName) throws(KeyManagementError) -> [UInt8] {
    do throws(Errno) {
      let file = try directory.open(name, [.readOnly, .noFollow, .nonBlocking])
      guard try file.status().type == .regular else { throw Errno.invalidArgument }
      return try file.readAll(limit: KeybagRecord.longest + 1)
    } catch {
      throw error == .noSuchFileOrDirectory ? .keybagMissing : .keybagUnreadable(error)
    }
  }
}
