import CFUSE
import Glibc
import InProcessKernel
import ProtectfsIO
import SystemPackage
import Testing

@testable import FUSE

/// The parts of the transport on their own.
@Suite struct TransportTests {
  private static func request(_ unique: UInt64, size: Int = 64, of node: UInt64 = 9) -> [UInt8] {
    var header = fuse_in_header()
    header.unique = unique
    header.opcode = FUSE_READ.rawValue
    header.nodeid = node
    var message = Message(header)
    message.append(bytes: [UInt8](repeating: 0, count: size - message.bytes.count))
    return message.bytes
  }

  private static func take(_ backlog: Backlog) -> UInt64? {
    let buffer = AlignedBuffer(count: 1 << 17)
    let count = unsafe backlog.take(into: buffer.bytes)
    return count > 0 ? unsafe RequestHeader(UnsafeRawBufferPointer(buffer.bytes)).unique : nil
  }

  private static func isReadable(_ descriptor: CInt) -> Bool {
    var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return unsafe poll(&event, 1, 0) > 0
  }

  private static func add(_ bytes: [UInt8], to backlog: Backlog) {
    unsafe bytes.withUnsafeBytes { unsafe backlog.add($0) }
  }

  /// Requests come out as they went in, those that were taken out not at all; the signal says whether there are some.
  @Test func theBacklogKeepsItsOrder() throws {
    let backlog = try Backlog()
    #expect(backlog.isEmpty && !Self.isReadable(backlog.signal.rawValue))
    for number: UInt64 in [2, 4, 6] { Self.add(Self.request(number), to: backlog) }
    #expect(!backlog.isEmpty && Self.isReadable(backlog.signal.rawValue))
    #expect(backlog.all.map(\.unique) == [2, 4, 6])
    let second = backlog.all[1]
    #expect(backlog.remove(second) && !backlog.remove(second))
    #expect(Self.take(backlog) == 2)
    #expect(Self.isReadable(backlog.signal.rawValue))
    #expect(Self.take(backlog) == 6)
    #expect(Self.take(backlog) == nil)
    #expect(backlog.isEmpty && !Self.isReadable(backlog.signal.rawValue))
  }

  /// It takes no more than it may, in number or in bytes.
  @Test func theBacklogIsBounded() throws {
    let many = try Backlog()
    for number in 0..<1024 {
      #expect(many.hasRoom)
      Self.add(Self.request(UInt64(number + 1) * 2), to: many)
    }
    #expect(!many.hasRoom)
    _ = Self.take(many)
    #expect(many.hasRoom)

    let large = try Backlog()
    for number in 0..<64 { Self.add(Self.request(UInt64(number + 1) * 2, size: 1 << 20), to: large) }
    #expect(!large.hasRoom)
    #expect(large.remove(large.all[0]))
    #expect(large.hasRoom)
  }

  /// One of two answers: the worker, or who comes in its place.
  @Test func aRequestIsClaimedOnce() throws {
    let served = ServedRequest()
    #expect(served.current == nil)
    let header = unsafe Self.request(8).withUnsafeBytes { unsafe RequestHeader($0) }
    served.begin(header)
    #expect(served.current?.unique == 8 && served.current?.node.rawValue == 9)
    #expect(served.claim())
    #expect(served.current == nil && !served.claim(for: header))
    served.end()

    served.begin(header)
    #expect(served.claim(for: header))
    #expect(served.current == nil && !served.claim(for: header))
    #expect(!served.claim(), "the worker comes too late")
    served.end()

    // A number that has passed is never taken for the one at hand.
    served.begin(unsafe Self.request(10).withUnsafeBytes { unsafe RequestHeader($0) })
    #expect(!served.claim(for: header))
    #expect(served.claim())
  }

  /// What was put off comes before what is new; the end of the connection is told.
  @Test func theDeviceGivesTheBacklogFirst() throws {
    var ends: (CInt, CInt) = (0, 0)
    let made = unsafe withUnsafeMutableBytes(of: &ends) {
      unsafe socketpair(AF_UNIX, CInt(SOCK_SEQPACKET.rawValue), 0, $0.bindMemory(to: CInt.self).baseAddress)
    }
    try #require(made == 0)
    defer { close(ends.0) }
    let backlog = try Backlog()
    let device = RequestDevice(ends.0, backlog)
    let buffer = AlignedBuffer(count: 4096)
    func next() -> UInt64? {
      let count = unsafe device.read(into: buffer.bytes, for: ServedRequest())
      return count > 0 ? unsafe RequestHeader(UnsafeRawBufferPointer(buffer.bytes)).unique : nil
    }
    #expect(!device.hasRequest && next() == nil)
    #expect(unsafe device.poll(into: buffer.bytes, for: ServedRequest()) == 0, "it polls for a moment, in vain")
    let new = Self.request(4)
    #expect(unsafe new.withUnsafeBytes { unsafe send(ends.1, $0.baseAddress, $0.count, 0) } == new.count)
    Self.add(Self.request(2), to: backlog)
    #expect(device.hasRequest && device.hasNewRequest(milliseconds: 0))
    #expect(next() == 2)
    #expect(next() == 4)
    #expect(!device.hasRequest && next() == nil)

    Self.add(Self.request(6), to: backlog)
    let length = unsafe device.wait(into: buffer.bytes, for: ServedRequest())
    #expect(length > 0, "the backlog wakes who sleeps at the device")
    close(ends.1)
    #expect(unsafe device.read(into: buffer.bytes, for: ServedRequest()) == -1)
    #expect(unsafe device.wait(into: buffer.bytes, for: ServedRequest()) == -1)
  }

  /// Which worker is at the device, and which waits.
  @Test func oneWorkerStaysAtTheDevice() throws {
    let device = RequestDevice(-1, try Backlog())
    let watch = DeviceWatch(device, workers: 2, hold: nil, ticks: WatchTicks())
    watch.becomeLeader()
    #expect(watch.isOnlyLeader && !watch.isLeaderless)
    // The only one there does not go.
    watch.follow(0)
    #expect(!watch.isLeaderless)
    watch.becomeLeader()
    #expect(!watch.isOnlyLeader)
    let second = Thread(name: "second") { watch.follow(1) }
    while !watch.isOnlyLeader || watch.waiting.withLock({ $0.isEmpty }) { Thread.sleep(microseconds: 200) }
    // Who takes a request that may take long calls it back first.
    watch.stepDown(mayTakeLong: true, hasQueue: false)
    second.join()
    #expect(watch.isOnlyLeader && !watch.isLeaderless)
    watch.stepDown(mayTakeLong: false, hasQueue: false)
    #expect(watch.isLeaderless && !watch.isOver)
    watch.end()
    #expect(watch.isOver && !watch.waitUntilLeaderless())
  }

  /// More take too much memory; with an unknown number, the kernel would wait for queues that nobody serves.
  @Test(arguments: [nil, 33, 1024]) func thereAreNoRingsForManyProcessors(_ processors: Int?) throws {
    let files = try SharedNumbers()
    #expect(throws: Errno.notSupported) {
      try RequestRings(device: -1, mountPoint: "/", files: files, threads: 8, processors: processors)
    }
  }

  /// Looks that do not follow each other at the interval say nothing of a burst, and none may follow to notice its end.
  @Test func onlyRegularLooksSeeABurst() throws {
    let device = try Descriptor.open("/dev/null", [.readWrite])
    let rings = try RequestRings(
      device: device.rawValue, mountPoint: "/", files: try SharedNumbers(), threads: 1, processors: 1)
    var looks = QueueLooks(interval: 4000)
    func look(after requests: Int, isRegular: Bool) {
      for _ in 0..<requests { rings.queues[0].enter() }
      _ = looks.look(rings, isRegular: isRegular)
    }
    look(after: 1000, isRegular: false)
    #expect(!looks.isBurst)
    for _ in 0..<DeviceWatch.quietTicks { look(after: 0, isRegular: true) }
    #expect(looks.areOver)
    look(after: 1000, isRegular: true)
    #expect(!looks.isBurst)
    look(after: 1000, isRegular: true)
    #expect(looks.isBurst)
    for _ in 0..<DeviceWatch.quietTicks { look(after: 0, isRegular: true) }
    #expect(!looks.isBurst)
  }
}
