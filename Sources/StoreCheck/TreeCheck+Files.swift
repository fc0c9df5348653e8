import Contents
import Cryptography
import KeyManagement
import ProtectfsIO
import StoreFormat
import SystemPackage

// Regular files, symbolic links and sidecars.
extension TreeCheck {
  /// Checks a file's record, key, length and extended attributes. A file whose contents are inaccessible is moved,
  /// once, for the first reason found.
  func checkFile(_ file: borrowing Descriptor, _ status: Status, _ entry: Entry) throws(Errno) {
    let bytes: [UInt8]
    do throws(Errno) {
      bytes = try recordBytes(of: file)
    } catch .noData {
      if status.size > 0 {
        findings.report(.fileWithoutRecord, at: entry.place, mend: entry.move)
      } else {
        findings.report(.emptyFileWithoutRecord, at: entry.place)
        checkAttributes(of: file, .fileWithoutKey, at: entry.place)
      }
      return
    }
    let record: FileRecord
    do throws(FormatError) {
      record = try FileRecord(parsing: bytes, length: layout.markedLength(of: bytes) { status.size })
    } catch {
      if error.isFromNewerVersion {
        findings.report(.recordVersionUnknown, at: entry.place, "\(error)")
      } else {
        findings.report(.fileRecordMalformed, at: entry.place, "\(error)", mend: entry.move)
      }
      return
    }
    guard (try? keys.volume.isAuthentic(record)) == true else {
      // A mount may have changed it since.
      if record.clean != nil {
        let (last, lastBytes) = (try file.status(), try recordBytes(of: file))
        if last.size != status.size || lastBytes != bytes { return try checkFile(file, last, entry) }
        // A closure cannot capture a borrowed descriptor.
        let same = SharedDescriptor(try Descriptor.open(PathName(descriptor: file), [.path]))
        findings.report(.lengthAltered, at: entry.place) { (_) throws(Errno) in
          try acceptLength(of: same.descriptor, record)
        }
        if try recordBytes(of: file) != bytes { try checkFile(file, status, entry) }
        return
      }
      findings.report(.fileRecordAltered, at: entry.place, mend: entry.move)
      return
    }
    guard keys.keybag.hasKey(of: record) else {
      reportMissingKey(of: record, entry)
      return
    }
    guard layout.length(ofBacking: status.size) != nil else {
      findings.report(.impossibleLength, at: entry.place, "\(status.size) bytes", mend: entry.move)
      return
    }
    checkKey(of: record, file, status, entry)
  }

  /// Makes a file one that is not clean, if that is wanted and its key is at hand. The tag, which does not fit, is all
  /// that covers the record; that the key unwraps says that it is one of this store. In class B it says nothing:
  /// anybody can wrap a key for a public one.
  private func acceptLength(of file: borrowing Descriptor, _ record: FileRecord) throws(Errno) -> Finding.Outcome {
    guard options.contains(.acceptsLengths), !record.fileClass.hasKeyPair, case .unwrapped = keys.fileKey(of: record)
    else { return .left }
    var record = record
    record.clean = nil
    do throws(CryptographyError) { record = try keys.volume.tagged(record) } catch { throw Errno(error) }
    let bytes = record.bytes
    try file.readable(adding: 0o600) { (path) throws(Errno) in
      try path.setAttribute(PathName(FileRecord.attributeName), to: bytes)
      try Descriptor.open(path, [.readOnly]).synchronize()
    }
    return .fixed
  }

  private func recordBytes(of file: borrowing Descriptor) throws(Errno) -> [UInt8] {
    try file.readable { (path) throws(Errno) in try path.attribute(PathName(FileRecord.attributeName)) }
  }

  /// Reports a file whose class key the keybag does not have. The file stays unchanged, since another keybag may open
  /// it.
  private func reportMissingKey(of record: FileRecord, _ entry: Entry) {
    var key = "class \(record.fileClass.letter), key \(record.classKeyID)"
    if keys.otherHasKey(of: record) { key += "; keybag.previous has it, and 'protectfs keybag restore' puts that back" }
    let isRetired = keys.keybag.isRetired(record.classKeyID)
    findings.report(isRetired ? .keyRevoked : .classKeyUnknown, at: entry.place, key)
  }

  private func checkKey(of record: FileRecord, _ file: borrowing Descriptor, _ status: Status, _ entry: Entry) {
    switch keys.fileKey(of: record) {
    case .damaged:
      // The record is authentic, so the file stays, whatever is wrong with its wrapped key.
      findings.report(
        .fileKeyDamaged, at: entry.place, "class \(record.fileClass.letter), key \(record.classKeyID)")
    case .notAtHand:
      if record.pending != nil { findings.report(.rekeyPending, at: entry.place) }
      checkAttributes(of: file, .fileWithoutKey, at: entry.place)
    case .unwrapped(let key):
      guard let ciphers = try? AttributeCiphers(key, record) else {
        findings.report(.fileKeyDamaged, at: entry.place, "class \(record.fileClass.letter); the key before it")
        return
      }
      checkAttributes(of: file, .file(ciphers), at: entry.place)
      if record.pending != nil { findings.report(.rekeyPending, at: entry.place) }
      if let contents { read(file, status, record, key, by: contents, at: entry.place) }
    }
  }

  /// Has the contents of a file read. While a rekey is pending, they are what the journal makes of them.
  private func read(
    _ file: borrowing Descriptor, _ status: Status, _ record: FileRecord, _ key: borrowing FileKey,
    by check: ContentsCheck, at place: Place
  ) {
    do throws(Errno) {
      let opened = try file.readable { (path) throws(Errno) in
        do throws(Errno) {
          return try Descriptor.open(path, [.readOnly, .keepAccessTime])
        } catch .notPermitted {
          // Another user's.
          return try Descriptor.open(path, [.readOnly])
        }
      }
      let contents = try layout.contents(of: opened, backingLength: status.size, writers: .reading)
      contents.expect(record.clean)
      let cipher: ContentsCipher
      do throws(CryptographyError) { cipher = try layout.cipher(key, record) } catch { throw Errno(error) }
      var chunks: [RekeyBatch.Chunk] = []
      if let pending = record.pending {
        guard let batches else { return }
        chunks = batches.chunks(after: pending)
      }
      check.add(.init(place: place, contents: contents, cipher: cipher, chunks: chunks))
    } catch {
      findings.report(.unreadable, at: place, "contents: \(error)")
    }
  }

  /// Checks a symbolic link. A damaged link is moved, together with its long symlink file.
  func checkSymbolicLink(_ link: borrowing Descriptor, _ entry: Entry) throws(Errno) {
    let text = try link.target(ofSymbolicLink: "")
    let long = LongTarget(text: text)
    let encrypted = try long.map(targets.encryptedTarget) ?? NameEncoding.decode(text)
    if let encrypted, let target = try? keys.volume.symbolicLinks.decrypt(encrypted, associatedData: nil),
      !target.contains(0)
    {
      return
    }
    findings.report(.symbolicLinkDamaged, at: entry.place) { (repair) throws(Errno) in
      if let long { try targets.move(long, repair) }
      return try entry.move(repair)
    }
  }

  /// Checks a sidecar. One without a file is removed, unless it is longer than a sidecar can be: then it is a user's
  /// file.
  func checkSidecar(_ entry: Entry, _ status: Status, hasFile: Bool) {
    guard status.type == .regular, status.size <= UInt64(EntryName.longestSidecar) else {
      // If there is a file, its check reports the wrong sidecar.
      if !hasFile { findings.report(.foreignEntry, at: entry.place, mend: entry.move) }
      return
    }
    if !hasFile { findings.report(.orphanSidecar, at: entry.place) { (_) throws(Errno) in try entry.remove() } }
  }
}
