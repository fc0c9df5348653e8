import CLibcrypto
import ProtectfsIO

/// AES-256-GCM over the pages of one file (NIST SP 800-38D). A page that was changed, or moved to another place in the
/// file or to another file, does not open.
///
/// A page has 4096 bytes: 4064 of ciphertext, a nonce of 12, an epoch of 4, and a tag of 16. Nonces are random. Each
/// cipher has an epoch of its own, a random number, for which a key is derived (NIST SP 800-108): there is nothing that
/// a crash, or a store that was put back, could make a writer repeat. Calls may come from any thread.
package final class PageCipher: Sendable {
  /// The length of a page, in bytes.
  package static let pageSize = 4096
  /// The bytes of plaintext in a page.
  package static let payloadSize = 4064
  /// The length of the key that those of epochs are derived from, in bytes.
  package static let keySize = 32
  private static let epochSize = 4

  /// What a page holds. It is authenticated: one does not stand for the other.
  package enum Kind: UInt8, Sendable {
    case data = 1
    /// The last 32 bytes of the pages of a group.
    case ends = 2
  }

  private let state: RankedMutex<State>
  /// Contexts that are not in use, those used last at the end; `nil` once the key was wiped.
  private let idle = RankedMutex<[EpochContext]?>(.cipherContexts, [])
  private static let mostIdle = 8

  /// A cipher with a key of ``keySize`` bytes.
  package init(key: consuming SecretBytes) throws(CryptographyError) {
    guard key.count == Self.keySize else { throw .invalidLength("a key of pages") }
    state = RankedMutex(.cipherKey, State(key: key))
  }

  /// Wipes the key, even while others hold the cipher. A call in progress in another thread completes, and then wipes
  /// what it used. Every later call fails.
  package func wipe() {
    state.withLock { $0.key.wipe() }
    idle.withLock { $0 = nil }
  }

  /// Encrypts pages in place. The first ``payloadSize`` bytes of each are plaintext; what is behind them is
  /// overwritten.
  ///
  /// - Parameters:
  ///   - first: the number of the first page in the file.
  ///   - kind: of the page with a number.
  package func encrypt(
    _ pages: UnsafeMutableRawBufferPointer, first: UInt64, kind: (UInt64) -> Kind
  ) throws(CryptographyError) {
    try unsafe forEachPage(of: pages, first, kind) { (page, run) throws(CryptographyError) in
      let epoch = try state.withLock { (state) throws(CryptographyError) in
        try unsafe state.takeNonce(into: .init(rebasing: page[Self.payloadSize...]))
      }
      unsafe page.storeBytes(
        of: epoch.littleEndian, toByteOffset: Self.payloadSize + GCMContext.nonceSize, as: UInt32.self)
      try unsafe context(of: epoch, &run).encrypt(page, run.associatedData)
    }
  }

  /// Decrypts pages in place, and overwrites what is behind the plaintext of each with zeros. A page of zeros is a
  /// hole, and stays one.
  ///
  /// - Throws: `notAuthentic` for a page that was not encrypted under this key, with its number and as its kind, or
  ///   that is not whole. All pages are then wiped.
  package func decrypt(
    _ pages: UnsafeMutableRawBufferPointer, first: UInt64, kind: (UInt64) -> Kind
  ) throws(CryptographyError) {
    do throws(CryptographyError) {
      guard pages.count % Self.pageSize == 0 else { throw .notAuthentic }
      try unsafe forEachPage(of: pages, first, kind) { (page, run) throws(CryptographyError) in
        if unsafe Memory.isZero(UnsafeRawBufferPointer(page)) { return }
        let epoch = unsafe page.loadUnaligned(fromByteOffset: Self.payloadSize + GCMContext.nonceSize, as: UInt32.self)
        try unsafe context(of: UInt32(littleEndian: epoch), &run).decrypt(page, run.associatedData)
        unsafe UnsafeMutableRawBufferPointer(rebasing: page[Self.payloadSize...])
          .initializeMemory(as: UInt8.self, repeating: 0)
      }
    } catch {
      unsafe Memory.wipe(pages)
      throw error
    }
  }

  /// What successive pages share.
  private struct Run {
    /// With the key of the last page's epoch.
    var context: EpochContext?
    /// What is authenticated beside a page: where it is, and what it holds.
    var associatedData: [UInt8]
  }

  @inline(__always)
  private func forEachPage(
    of pages: UnsafeMutableRawBufferPointer, _ first: UInt64, _ kind: (UInt64) -> Kind,
    _ body: (UnsafeMutableRawBufferPointer, inout Run) throws(CryptographyError) -> Void
  ) throws(CryptographyError) {
    precondition(pages.count % Self.pageSize == 0, "pages are whole")
    let label = Array("protectfs page\0".utf8)
    var run = Run(associatedData: label + [UInt8](repeating: 0, count: 9))
    for index in 0..<pages.count / Self.pageSize {
      let number = first + UInt64(index)
      for byte in 0..<8 { run.associatedData[label.count + byte] = UInt8(truncatingIfNeeded: number >> (8 * byte)) }
      run.associatedData[label.count + 8] = kind(number).rawValue
      try unsafe body(.init(rebasing: pages[index * Self.pageSize..<(index + 1) * Self.pageSize]), &run)
    }
    keep(run.context)
  }

  /// A context for a page. One in which a call has failed is freed.
  private func context(of epoch: UInt32, _ run: inout Run) throws(CryptographyError) -> EpochContext {
    if let last = run.context, last.epoch == epoch { return last }
    keep(run.context.take())
    let found = idle.withLock { idle -> EpochContext? in
      guard let index = idle?.lastIndex(where: { $0.epoch == epoch }) else { return nil }
      return idle!.remove(at: index)
    }
    let context: EpochContext
    if let found {
      context = found
    } else {
      let key = try state.withLock { (state) throws(CryptographyError) in
        try unsafe state.key.withBytes { unsafe SecretBytes(copying: $0) }
      }
      let bytes = (0..<4).map { UInt8(truncatingIfNeeded: epoch >> (8 * $0)) }
      context = try EpochContext(
        epoch, KeyDerivation.counterMode(key: key, label: "protectfs epoch", context: bytes, count: 32))
    }
    run.context = context
    return context
  }

  private func keep(_ context: EpochContext?) {
    guard let context else { return }
    idle.withLock { idle in
      idle?.append(context)
      if let count = idle?.count, count > Self.mostIdle { idle!.removeFirst() }
    }
  }
}

extension PageCipher {
  /// The key, and what the next page is encrypted with.
  private struct State: ~Copyable {
    /// Long before random nonces of 96 bits might repeat under one key: NIST SP 800-38D, section 8.3, permits 2³²
    /// messages.
    static let mostPages: UInt32 = 1 << 31

    var key: WipeableKey
    private var epoch: UInt32 = 0
    /// How many more pages the epoch's key may encrypt.
    private var pagesLeft: UInt32 = 0
    /// Random bytes for the next nonces: to get them for each would take nearly as long as to encrypt a page.
    private var nonces: [UInt8] = []

    init(key: consuming SecretBytes) { self.key = WipeableKey(key) }

    /// Writes a nonce, and returns the epoch that it is for.
    mutating func takeNonce(into target: UnsafeMutableRawBufferPointer) throws(CryptographyError) -> UInt32 {
      if pagesLeft == 0 {
        epoch = try unsafe randomBytes(epochSize).withBytes { unsafe $0.loadUnaligned(as: UInt32.self) }
        pagesLeft = Self.mostPages
      }
      pagesLeft -= 1
      if nonces.isEmpty { nonces = try randomBytes(32 * GCMContext.nonceSize) }
      unsafe target.copyBytes(from: nonces.suffix(GCMContext.nonceSize))
      nonces.removeLast(GCMContext.nonceSize)
      return epoch
    }
  }

  /// A context with the key of an epoch.
  private final class EpochContext: Sendable {
    let epoch: UInt32
    private let context: GCMContext

    init(_ epoch: UInt32, _ key: borrowing SecretBytes) throws(CryptographyError) {
      self.epoch = epoch
      context = try GCMContext(key: key)
    }

    func encrypt(_ page: UnsafeMutableRawBufferPointer, _ associatedData: [UInt8]) throws(CryptographyError) {
      let start = page.baseAddress!
      try unsafe context.encrypt(
        .init(rebasing: page[..<payloadSize]), nonce: start + payloadSize, associatedData: associatedData,
        tag: start + pageSize - GCMContext.tagSize)
    }

    func decrypt(_ page: UnsafeMutableRawBufferPointer, _ associatedData: [UInt8]) throws(CryptographyError) {
      let start = page.baseAddress!
      try unsafe context.decrypt(
        .init(rebasing: page[..<payloadSize]), nonce: start + payloadSize, associatedData: associatedData,
        tag: start + pageSize - GCMContext.tagSize)
    }
  }
}
