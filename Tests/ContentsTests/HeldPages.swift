import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage
import Testing

@testable import Contents

/// Contents in pages, and their cipher.
struct HeldPages {
  let contents: any FileContents
  let cipher: ContentsCipher

  /// Those of a file, opened anew.
  ///
  /// - Parameter key: of the file, 32 bytes.
  init(_ file: borrowing Descriptor, key: [UInt8]) throws {
    contents = try ContentsLayout.pages(BackingMedium(of: file)).contents(
      of: Descriptor.open(PathName(descriptor: file), [.readWrite]), backingLength: file.status().size, writers: .sole)
    cipher = ContentsCipher(try FileKey(SecretBytes(key)).pageCipher())
  }

  init(_ contents: any FileContents, _ cipher: ContentsCipher) { (self.contents, self.cipher) = (contents, cipher) }

  func read(_ range: Range<Int>) throws -> [UInt8] {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: range.count + 3 * 4096, alignment: 4096)
    defer { unsafe buffer.deallocate() }
    return try unsafe Array(
      contents.read(
        at: UInt64(range.lowerBound), count: range.count, into: buffer, cipher: cipher, movesAccessTime: false,
        overlay: nil))
  }

  func write(_ bytes: [UInt8], at offset: Int, keepingPart: Bool = false) throws {
    var buffer = bytes + [UInt8](repeating: 0, count: 32)
    try unsafe buffer.withMutableBytes { (buffer) throws(Errno) in
      try unsafe contents.write(
        .init(rebasing: buffer[..<bytes.count]), at: UInt64(offset), cipher: cipher, keepingPart: keepingPart,
        whenFull: { false })
    }
  }

  /// In steps of two pages and more.
  func rekey(from old: [UInt8], to new: [UInt8]) throws {
    let old = try FileKey(SecretBytes(old))
    let new = try FileKey(SecretBytes(new))
    var record = FileRecord(
      fileClass: .none, isExplicit: false, classKeyID: ClassKeyID(rawValue: 1)!,
      wrappedKey: [UInt8](repeating: 0, count: 40))
    record.pending = PendingRekey(wrappedOldKey: try new.wrap(old: old))
    var cipher = try ContentsLayout.pages(.unknown).cipher(new, record)
    while let pending = record.pending {
      let step = try contents.rekeyStep(of: pending, cipher: cipher, room: 1 << 20, mostChunks: 200)
      try contents.write(step)
      cipher = cipher.moved(to: step.boundary)
      record.pending = step.boundary.map { boundary in
        var next = pending
        next.boundary = boundary
        return next
      }
    }
  }

  /// Data that is found is all there is, apart from zeros.
  func requireSeeksToMatch(_ model: [UInt8]) throws {
    var position: UInt64 = 0
    while position < UInt64(model.count) {
      let data = try found(.data, from: position) ?? UInt64(model.count)
      #expect(data >= position && model[Int(position)..<Int(data)].allSatisfy { $0 == 0 })
      position = try data == UInt64(model.count) ? data : #require(try found(.hole, from: data))
    }
    #expect(try found(.hole, from: UInt64(model.count)) == nil)
  }

  private func found(_ origin: SeekOrigin, from position: UInt64) throws -> UInt64? {
    do throws(Errno) {
      return try contents.seek(to: position, origin)
    } catch {
      guard error == .noSuchAddressOrDevice else { throw error }
      return nil
    }
  }

  /// Bytes behind the pages, where there is to be a hole, that are not zeros.
  func holes() throws -> [UInt8] {
    let start = contents.ciphertextEnd
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = try unsafe bytes.withMutableBytes { (bytes) throws(Errno) in
      try unsafe contents.backing.descriptor.read(into: bytes, at: start)
    }
    return bytes[..<count].filter { $0 != 0 }
  }
}
