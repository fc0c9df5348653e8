import Glibc
import ProtectfsIO
import SimulatedDisk
import SystemPackage
import Testing

@testable import BackingTree

/// A reader beside a writer that replaces files, or removes them: a program opens what it has found.
@Suite("Looked-up files") struct LookedUpFileTests {
  @Test(arguments: [false, true]) func whatIsReplacedCanBeOpened(authenticatesContents: Bool) throws {
    let store = try SimulatedMount.Store.kept(authenticatesContents: authenticatesContents)
    try SimulatedDisk(store.image).run {
      let writer = try SimulatedMount(store)
      let (one, two) = (SimulatedCall.text("one", 5000), SimulatedCall.text("two", 7000))
      try writer.create("a", one)
      let reader = try SimulatedMount(store, isReadOnly: true)
      let replaced = try reader.read("a", at: 0, count: 10_000) { () throws(Errno) in
        try writer.create("b", two)
        try writer.rename("b", to: "a")
      }
      #expect(replaced == one)
      let removed = try reader.read("a", at: 0, count: 10_000) { () throws(Errno) in try writer.unlink("a") }
      #expect(removed == two)
      #expect(throws: Errno.noSuchFileOrDirectory) { try reader.read("a", at: 0, count: 1) }
    }
  }

  private func node(_ number: UInt64) -> Node {
    var status = Status()
    (status.inode, status.mode) = (number, InodeType.regular.rawValue)
    return Node(status, location: nil)
  }

  private func file() throws(Errno) -> Descriptor { try Descriptor.open("/dev/null", [.path]) }

  /// They are few, and the last one for a node counts.
  @Test func theyAreFew() throws {
    let files = LookedUpFiles(period: .seconds(3600))
    let nodes = (0..<129).map { node(UInt64($0)) }
    for node in nodes { files.hold(try file(), of: node) }
    #expect(nodes.map(\.holdsDescriptor) == [false] + [Bool](repeating: true, count: 128))
    for _ in 0..<127 { files.hold(try file(), of: nodes[128]) }
    #expect(nodes[1...127].allSatisfy { !$0.holdsDescriptor } && nodes[128].holdsDescriptor)
  }

  /// They are let go when their time has come.
  @Test func theyAreHeldBriefly() throws {
    let files = LookedUpFiles(period: .zero)
    let nodes = (0..<10).map { node(UInt64($0)) }
    let thread = Thread(name: "looked-up", files.run)
    for node in nodes.dropLast() { files.hold(try file(), of: node) }
    let (end, other) = try LocalSocket.pair()
    defer { close(end) }
    files.hold(Descriptor(owning: other), of: nodes[9])
    // The end of the stream: the last one is closed.
    var byte: UInt8 = 0
    let count = unsafe read(end, &byte, 1)
    #expect(count == 0)
    let held = nodes.filter(\.holdsDescriptor)
    #expect(held.isEmpty)
    files.stop()
    thread.join()
  }
}
