import Cryptography
import KeyManagement
import ProtectfsIO
import StoreFormat

/// A name in a backing directory, or the text of a link there.
func fuzzNames(_ bytes: [UInt8]) {
  switch NameEncoding.parse(bytes) {
  case .direct(let sealed):
    precondition(Base64URL.encode(sealed) == bytes, "sealed bytes have one name")
    precondition((17...191).contains(sealed.count) && (23...255).contains(bytes.count))
    let backing = NameEncoding.backingName(encrypted: sealed) { _ in preconditionFailure("short names have no digest") }
    precondition(backing == .direct(bytes))
  case .hashed(let sidecar):
    precondition(bytes.count == 44 && bytes[0] == UInt8(ascii: "~"))
    precondition(sidecar == bytes + Array(".name".utf8) && NameEncoding.parse(sidecar) == .sidecar)
  case .sidecar:
    let file = Array(bytes.dropLast(NameEncoding.sidecarSuffix.count))
    precondition(NameEncoding.parse(file) == .hashed(sidecar: bytes))
  case .undecodable: break
  }
  precondition(NameEncoding.parse(Array(NameEncoding.storeDirectory.utf8)) == .undecodable)

  // The bytes are no more than the content of a sidecar: it belongs to one name.
  if let digest = try? sha256(bytes) {
    let name = [UInt8(ascii: "~")] + Base64URL.encode(digest)
    let isSidecar = must("a digest") { try NameEncoding.isSidecar(bytes, of: name, digest: sha256) }
    precondition(isSidecar == (192...271).contains(bytes.count))
  }
  checkLink(bytes)
}

private func checkLink(_ text: [UInt8]) {
  if let sealed = NameEncoding.decode(text) {
    precondition(NameEncoding.encode(sealed) == text, "a sealed target has one text")
    precondition(NameEncoding.targetCount(textCount: text.count) == sealed.count - NameEncoding.overhead)
    precondition((17...3071).contains(sealed.count) && text.count <= NameEncoding.longestTarget)
  }
  if let target = LongTarget(text: text) {
    precondition(target.text == text, "a long target has one text")
    precondition(NameEncoding.targetCount(textCount: text.count) == nil, "a text is of one kind")
    precondition((3056...4095).contains(target.count) && target.fileSize == target.count + 16)
    precondition(LongTarget.token(ofFile: target.fileName) == target.token)
  }
  if let token = LongTarget.token(ofFile: text) {
    precondition(LongTarget(token: token, count: NameEncoding.longestTarget).fileName == text)
  }
}

/// The first byte says whether the rest is a plain name, or what should be a sealed one.
func fuzzSealedNames(_ bytes: [UInt8]) {
  guard let kind = bytes.first else { return }
  let rest = Array(bytes.dropFirst())
  let directoryID = [UInt8](repeating: kind, count: DirectoryRecord.identifierSize)
  if kind & 1 == 0 {
    // Chance makes no authentic name.
    precondition(volume.entryName(rest, in: directoryID) == nil)
    return
  }
  must("sealing") { () throws(CryptographyError) in
    let sealed = try volume.names.encrypt(rest, associatedData: directoryID)
    precondition(sealed.count == rest.count + NameEncoding.overhead)
    let isEntryName =
      !rest.isEmpty && rest != [0x2E] && rest != [0x2E, 0x2E] && !rest.contains(0) && !rest.contains(0x2F)
    precondition(volume.entryName(sealed, in: directoryID) == (isEntryName ? PathName(bytes: rest) : nil))
    precondition(volume.entryName(sealed, in: directoryID.map { $0 ^ 1 }) == nil, "a name is of one directory")
    if (1...NameEncoding.longestName).contains(rest.count) { try checkBackingName(sealed) }
    if (1...NameEncoding.longestDirectTarget).contains(rest.count) {
      let link = try volume.symbolicLinks.encrypt(rest, associatedData: nil)
      precondition(NameEncoding.decode(NameEncoding.encode(link)) == link)
      let opened = try volume.symbolicLinks.decrypt(link, associatedData: nil)
      precondition(opened == rest)
    }
  }
}

private func checkBackingName(_ sealed: [UInt8]) throws(CryptographyError) {
  let backing = try NameEncoding.backingName(encrypted: sealed, digest: sha256)
  precondition(backing.bytes.count <= 255 && !backing.bytes.contains(UInt8(ascii: "/")))
  switch backing {
  case .direct(let name): precondition(NameEncoding.parse(name) == .direct(encrypted: sealed))
  case .hashed(let name, let sidecar):
    precondition(NameEncoding.parse(name) == .hashed(sidecar: sidecar) && sidecar.count <= 255)
    let other = sealed.dropLast() + [sealed[sealed.count - 1] ^ 1]
    let isSidecar = try NameEncoding.isSidecar(sealed, of: name, digest: sha256)
    let isOther = try NameEncoding.isSidecar(Array(other), of: name, digest: sha256)
    precondition(isSidecar && !isOther)
  }
}

/// The keys of names of a store.
let volume = must("deriving keys") { () throws(CryptographyError) in
  guard let storeID = StoreID(bytes: [UInt8](repeating: 6, count: 16)) else { preconditionFailure("16 bytes") }
  return try VolumeKeys(VolumeDeviceKey(SecretBytes([UInt8](repeating: 7, count: 32))), storeID: storeID)
}
