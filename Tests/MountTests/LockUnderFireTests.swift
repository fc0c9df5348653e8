import DataProtection
import Glibc
import LinuxIO
import Synchronization
import SystemPackage
import Testing

extension MountTests {
  /// Programs that go on working on files while the mount is locked and unlocked under them.
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
        // A second time with nothing cached: nothing of it was in the kernel only.
        try dropCaches()
        for job in jobs { try job.worker.check() }
      }
    }

    private struct Job: Sendable {
      let name: String
      let worker: any FireWorker
      let log = FireLog()
      let allowed: Set<Errno>
    }

    /// Class B has its handles open since before the first lock, and class C never locks: neither may see an error.
    private static func jobs(of fileClass: ProtectionClass, on volume: Volume) throws -> [Job] {
      let directory = volume.path(fileClass.letter)
      try directory.makeDirectory(of: fileClass)
      let refusal: Set<Errno> = fileClass == .complete ? [.permissionDenied] : []
      // The kernel's access to a mapping fails with EFAULT where a program is sent SIGBUS.
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

/// Has the kernel forget every page, name and attribute that is not in use.
func dropCaches() throws(Errno) {
  let file = try OpenFile("/proc/sys/vm/drop_caches", O_WRONLY)
  try file.append([UInt8(ascii: "3")])
}

/// Set once, seen by other threads.
final class Flag: Sendable {
  private let value = Atomic(false)
  var isSet: Bool { value.load(ordering: .acquiring) }
  func set() { value.store(true, ordering: .releasing) }
}
