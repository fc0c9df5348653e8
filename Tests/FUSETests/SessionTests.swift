import CFUSE
import Glibc
import InProcessKernel
import ProtectfsIO
import SystemPackage
import Testing

@testable import FUSE

/// Requests that go through libfuse, workers and replies as they do on a mount; the device is a socket.
@Suite struct SessionTests {
  private func with(workers: Int, _ body: (ServedSession) throws -> Void) throws {
    let served = try ServedSession(workers: workers)
    defer { served.end() }
    try body(served)
  }

  /// What libfuse 3.14 does not know is asked for, and what would break the cache is not.
  @Test func negotiatesWhatItNeeds() throws {
    for hasOtherWriters in [false, true] {
      let served = try ServedSession(workers: 1, hasOtherWriters: hasOtherWriters)
      defer { served.end() }
      let accepted = Int32(bitPattern: served.kernel.accepted)
      let always =
        FUSE_HANDLE_KILLPRIV_V2 | FUSE_ATOMIC_O_TRUNC | FUSE_DONT_MASK | FUSE_POSIX_ACL | FUSE_DO_READDIRPLUS
      #expect(accepted & always == always)
      #expect(accepted & (FUSE_ASYNC_DIO | FUSE_HANDLE_KILLPRIV | FUSE_EXPORT_SUPPORT) == 0)
      #expect((accepted & FUSE_WRITEBACK_CACHE != 0) == !hasOtherWriters)
      #expect((accepted & FUSE_AUTO_INVAL_DATA != 0) == hasOtherWriters)
    }
  }

  /// Each request is answered, with its own answer, from several threads.
  @Test func answersManyAtOnce() throws {
    try with(workers: 4) { served in
      let file = try served.kernel.open("any", O_RDWR)
      let wrong = Monitor(.test, 0)
      let threads = (0..<4).map { number in
        Thread(name: "caller") {
          for offset in 0..<200 {
            let place = number * 1000 + offset
            let bytes = try? file.read(at: Int64(place), count: 100)
            let expected = (0..<100).map { UInt8(truncatingIfNeeded: place + $0) }
            if bytes != expected { wrong.update { $0 += 1 } }
          }
        }
      }
      for thread in threads { thread.join() }
      #expect(wrong.read { $0 } == 0)
      #expect(served.counts.byName["read"] == 800)
    }
  }

  /// A write's data arrives whole, in as many requests as it takes.
  @Test func writesLongData() throws {
    try with(workers: 2) { served in
      let file = try served.kernel.open("any", O_RDWR)
      #expect(throws: Errno.notSupported) { try file.write([UInt8](repeating: 1, count: 300_000), at: 0) }
      let writes = served.fileSystem.state.read { $0.done.filter { $0.hasPrefix("write") } }
      #expect(writes == ["write of 131072 77", "write of 131072 77", "write of 37856 77"])
    }
  }

  /// A server behind the backing directory that is gone is not taken for this daemon.
  @Test func theBackingFileSystemIsGone() throws {
    try with(workers: 1) { served in
      let file = try served.kernel.open("any", O_RDWR)
      for error in [Errno.socketNotConnected, .connectionAbort, .canceled] {
        served.fileSystem.state.update { $0.failure = error }
        #expect(throws: Errno.ioError) { try file.write([1], at: 0) }
      }
    }
  }

  /// A request that takes long holds up nobody while a worker is free.
  @Test func someoneElseHelpsOut() throws {
    try with(workers: 3) { served in
      served.fileSystem.hold([10, 11])
      let held = try [served.beginStatus(of: 10), served.beginStatus(of: 11)]
      served.fileSystem.waitUntilHeld(2)
      for _ in 0..<20 { try served.status(of: 5) }
      #expect(!held.contains { served.device.hasAnswer(to: $0) })
      served.fileSystem.hold([])
      for request in held { #expect(served.answer(to: request) == nil) }
    }
  }

  /// Where all workers are held up, the reserve refuses what a lock refuses, and puts the rest off until one is free.
  @Test func theReserveAnswersWhatItCan() throws {
    try with(workers: 2) { served in
      served.fileSystem.hold([10, 11])
      served.fileSystem.state.update {
        $0.refused = [20]
        $0.withDescriptor = [31]
      }
      let held = try [served.beginStatus(of: 10), served.beginStatus(of: 11)]
      served.fileSystem.waitUntilHeld(2)

      let refused = try served.beginRead(of: 20)
      #expect(served.answer(to: refused) == .permissionDenied)
      let putOff = try served.beginRead(of: 21)
      let alsoPutOff = try served.beginStatus(of: 22)
      // To close a descriptor may take as long as anything else that the store is asked for.
      served.device.tell(FUSE_FORGET, of: 31, Message(fuse_forget_in(nlookup: 2)))
      var batch = Message(fuse_batch_forget_in(count: 2, dummy: 0))
      for node: UInt64 in [32, 31] { batch.append(fuse_forget_one(nodeid: node, nlookup: 1)) }
      served.device.tell(FUSE_BATCH_FORGET, of: 0, batch)
      served.device.tell(FUSE_FORGET, of: 30, Message(fuse_forget_in(nlookup: 4)))
      served.fileSystem.state.wait { (state, _) -> Void? in state.done.contains("forget 30 × 4") ? () : nil }
      #expect(!served.device.hasAnswer(to: putOff) && !served.device.hasAnswer(to: alsoPutOff))
      #expect(served.session.unanswered.map(\.header.node.rawValue).sorted() == [10, 11, 21, 22])

      served.fileSystem.hold([10])
      #expect(served.answer(to: putOff) == nil)
      #expect(served.answer(to: alsoPutOff) == nil)
      served.fileSystem.hold([])
      for request in held { #expect(served.answer(to: request) == nil) }
      served.fileSystem.state.wait { (state, _) -> Void? in state.done.contains("forget 31 × 1") ? () : nil }
      let done = served.fileSystem.state.read { $0.done }
      #expect(done.first == "forget 30 × 4" && done.contains("forget 31 × 2") && done.contains("forget 32 × 1"))
      #expect(done.firstIndex(of: "read 21")! < done.firstIndex(of: "getattr 22")!, "they are served in their order")
    }
  }

  /// What is being served, or was put off, can be refused in the worker's place, once; its own answer is passed over.
  @Test func stuckRequestsAreAnsweredInTheirPlace() throws {
    try with(workers: 2) { served in
      served.fileSystem.hold([10, 11])
      let read = try served.beginRead(of: 10)
      let write = try served.beginWrite(of: 11)
      served.fileSystem.waitUntilHeld(2)
      let putOffWrite = try served.beginWrite(of: 12)
      let putOffRead = try served.beginRead(of: 13)
      while served.session.unanswered.count < 4 { Thread.sleep(microseconds: 500) }

      let unanswered = served.session.unanswered
      for request in unanswered {
        #expect(served.session.refuse(request))
        #expect(!served.session.refuse(request), "it has its answer")
      }
      #expect(served.session.unanswered.isEmpty)
      // What may have been made, or was told its writer as done, is no refusal.
      #expect(served.answer(to: read) == .permissionDenied)
      #expect(served.answer(to: write) == .ioError)
      #expect(served.answer(to: putOffWrite) == .ioError)
      #expect(served.answer(to: putOffRead) == .permissionDenied)

      served.fileSystem.hold([])
      try served.status(of: 5)
      for request in [read, write, putOffWrite, putOffRead] { #expect(!served.device.hasAnswer(to: request)) }
      #expect(!served.fileSystem.state.read { $0.done }.contains("read 13"), "what was refused is not served")
    }
  }

  /// An open whose answer came from elsewhere is closed again: the kernel knows of no handle.
  @Test func nobodyKeepsAnOpenThatWasRefused() throws {
    try with(workers: 2) { served in
      served.fileSystem.hold([10])
      let open = try served.device.begin(FUSE_OPEN, of: 10, Message(fuse_open_in()), by: .current)
      served.fileSystem.waitUntilHeld(1)
      let request = try #require(served.session.unanswered.first)
      #expect(served.session.refuse(request))
      #expect(served.answer(to: open) == .permissionDenied)
      served.fileSystem.hold([])
      served.fileSystem.state.wait { (state, _) -> Void? in state.done.contains("release 10") ? () : nil }
    }
  }

  /// A seek waits until the kernel has been told to write the file's pages back, and holds up no worker.
  @Test func seeksWaitForDirtyPages() throws {
    try with(workers: 1) { served in
      served.fileSystem.state.update { $0.dirty = [77] }
      let file = try served.kernel.open("any", O_RDWR)
      #expect(try file.seek(to: 100, .data) == 101)
      #expect(served.device.notices == [.init(code: Int32(FUSE_NOTIFY_INVAL_INODE.rawValue), inode: 77)])
      served.fileSystem.state.update { $0.dirty = [] }
      #expect(try file.seek(to: 200, .hole) == 201)
      #expect(served.device.notices.count == 1)
      #expect(throws: Errno.noSuchAddressOrDevice) { try file.seek(to: -1, .data) }
    }
  }

  /// Where a directory changes while another request tells its attributes, the kernel is told not to believe them.
  @Test func changesOutdateWhatIsOnItsWay() throws {
    try with(workers: 2) { served in
      try served.makeDirectory("a")
      #expect(served.device.notices.isEmpty)
      served.fileSystem.hold([1])
      let telling = try served.beginStatus(of: 1)
      served.fileSystem.waitUntilHeld(1)
      try served.makeDirectory("b")
      #expect(served.device.waitForNotices { $0.map(\.inode) == [1] })
      served.fileSystem.hold([])
      #expect(served.answer(to: telling) == nil)
    }
  }

  /// All threads end with the connection, wherever they wait.
  @Test func endsWithTheConnection() throws {
    for workers in [1, 2, 8] {
      let served = try ServedSession(workers: workers)
      for _ in 0..<3 { try served.status(of: 5) }
      served.end()
      #expect(throws: Errno.socketNotConnected) { try served.status(of: 5) }
    }
  }
}
