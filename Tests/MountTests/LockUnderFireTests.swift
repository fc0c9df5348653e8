import Glibc
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage
import Testing

extension MountTests {
  /// Programs that keep working on files while the mount is locked and unlocked.
  @Suite struct LockUnderFireTests {
    @Test func losesNothingAcknowledged() throws {
      try Volume.with { volume in
        let jobs = try [ProtectionClass.complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication]
          .flatMap { try Self.jobs(of: $0, on: volume) }
        let isOver = Flag()
        let threads = jobs.map { job in
          Thread(name: "fire") { while !isOver.isSet { job.log.note(job.worker.step()) } }
        }
        do {
          defer {
            isOver.set()
            threads.forEach { $0.join() }
          }
          for _ in 0..<50 {
            usleep(20_000)
            try volume.lock()
            #expect(try volume.status().state == .locked)
            usleep(20_000)
            try volume.unlock()
          }
        }
        for job in jobs {
          #expect(job.log.errors.isSubset(of: job.allowed), "\(job.name): \(job.log.errors)")
          #expect(job.log.successes > 50, "\(job.name) hardly got to work")
          try job.worker.check()
        }
        // Again with empty caches: nothing was only in the kernel.
        try dropCaches()
        for job in jobs { try job.worker.check() }
      }
    }

    /// What write(2) accepted while the lock came is there after the next unlock, even without an fsync, and even if
    /// writers wait for each other.
    @Test func keepsWhatWasAcceptedWhileTheLockCame() throws {
      try Volume.with(defaultClass: .complete) { volume in
        let file = try OpenFile(volume.path("file"), O_RDWR | O_CREAT)
        try file.write([UInt8](repeating: 0, count: 4 * SlotWriter.size), at: 0)
        for round in 0..<8 {
          let writers = (0..<4).map { SlotWriter(file, slot: $0, seed: UInt8(round)) }
          usleep(UInt32(round) * 1000)
          try volume.lock()
          for writer in writers { writer.join() }
          try volume.unlock()
          for writer in writers {
            let isKept = try file.read(at: writer.offset, count: SlotWriter.size) == writer.accepted
            #expect(isKept, "round \(round), at \(writer.offset)")
          }
        }
      }
    }

    /// A file of class A that is being created while the lock comes is locked like any other: nothing is acknowledged
    /// that cannot be kept.
    @Test func filesJustCreatedAreLocked() throws {
      try Volume.with(defaultClass: .complete) { volume in
        for round in 0..<30 {
          let isOver = Flag()
          let creators = (0..<4).map { FileCreator(volume.path("\(round) \($0)"), until: isOver) }
          do {
            defer {
              isOver.set()
              creators.forEach { $0.join() }
            }
            usleep(UInt32(round % 7) * 1000)
            try volume.lock()
          }
          for file in creators.compactMap(\.newest) {
            #expect(throws: Errno.permissionDenied) { try file.write([1, 2, 3], at: 0) }
          }
          try volume.unlock()
        }
      }
    }

    private struct Job: Sendable {
      let name: String
      let worker: any FireWorker
      let log = FireLog()
      let allowed: Set<Errno>
    }

    /// Class B has handles open since before the first lock, and class C is never locked: neither may get an error.
    private static func jobs(of fileClass: ProtectionClass, on volume: Volume) throws -> [Job] {
      let directory = volume.path(fileClass.letter)
      try directory.makeDirectory(of: fileClass)
      let refusal: Set<Errno> = fileClass == .complete ? [.permissionDenied] : []
      // The kernel's access to a mapping fails with EFAULT where a program gets SIGBUS.
      let fault: Set<Errno> = fileClass == .complete ? [.badAddress] : []
      return [
        Job(
          name: "writer of class \(fileClass.letter)", worker: try FireWriter(directory.appending("written")),
          allowed: refusal),
        Job(
          name: "reader of class \(fileClass.letter)", worker: try FireReader(directory.appending("read")),
          allowed: refusal),
        Job(
          name: "appender of class \(fileClass.letter)", worker: try FireAppender(directory.appending("appended")),
          allowed: refusal),
        Job(
          name: "mapping of class \(fileClass.letter)", worker: try FireMapper(directory.appending("mapped")),
          allowed: fault),
      ]
    }
  }
}

/// A thread that writes into its part of a file repeatedly until that is refused.
private final class SlotWriter: Sendable {
  static let size = 40_000
  let offset: Int
  private let state: Shared
  private let thread: Thread

  private final class Shared: Sendable {
    let accepted: Mutex<[UInt8]>
    init(_ bytes: [UInt8]) { accepted = Mutex(bytes) }
  }

  init(_ file: OpenFile, slot: Int, seed: UInt8) {
    let offset = slot * Self.size
    let state = Shared((try? file.read(at: offset, count: Self.size)) ?? [])
    (self.offset, self.state) = (offset, state)
    thread = Thread(name: "write") {
      var byte = seed
      while true {
        byte &+= 1
        let bytes = [UInt8](repeating: byte, count: Self.size)
        guard let count = try? file.writePart(bytes, at: offset) else { return }
        // The lock may come in the middle of a write.
        state.accepted.withLock { $0.replaceSubrange(..<count, with: bytes[..<count]) }
      }
    }
  }

  var accepted: [UInt8] { state.accepted.withLock { $0 } }

  func join() { thread.join() }
}

/// A thread that creates files until that is refused.
private final class FileCreator: Sendable {
  private let file: Shared
  private let thread: Thread

  private final class Shared: Sendable {
    let newest = Mutex<OpenFile?>(nil)
  }

  init(_ prefix: PathName, until isOver: Flag) {
    let file = Shared()
    self.file = file
    thread = Thread(name: "create") {
      var count = 0
      while !isOver.isSet {
        count += 1
        let path = PathName(bytes: Array(prefix.bytes) + Array(".\(count)".utf8))
        guard let made = try? OpenFile(path, O_RDWR | O_CREAT) else { return }
        file.newest.withLock { $0 = made }
      }
    }
  }

  var newest: OpenFile? { file.newest.withLock { $0 } }

  func join() { thread.join() }
}

/// Makes the kernel forget all pages, names and attributes that are not in use.
func dropCaches() throws(Errno) {
  let file = try OpenFile("/proc/sys/vm/drop_caches", O_WRONLY)
  try file.append([UInt8(ascii: "3")])
}

/// Set once, read by other threads.
final class Flag: Sendable {
  private let value = Atomic(false)
  var isSet: Bool { value.load(ordering: .acquiring) }
  func set() { value.store(true, ordering: .releasing) }
}
