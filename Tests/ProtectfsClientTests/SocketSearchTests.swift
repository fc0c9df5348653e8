import Glibc
import ProtectfsIO
import SystemPackage
import Testing

@testable import ProtectfsClient

@Suite(.enabled(if: getuid() == 0, "only root may give directories away")) struct SocketSearchTests {
  /// A user who listens on thousands of sockets does not keep root from the daemons of others.
  @Test func ofManySocketsSomeAreTaken() throws {
    let user = UInt32.random(in: 1_000_000...2_000_000)
    let directory = "/tmp/protectfs-\(user)"
    try Process.makeDirectory(directory, mode: 0o700)
    let names = (0..<3000).map { "\(directory)/\(ControlSocket.backingPrefix)1-\($0)=.sock" }
    let socket = try LocalSocket()
    try socket.bind(to: names[0])
    defer {
      for name in names { unsafe unlink(name) }
      unsafe rmdir(directory)
    }
    try socket.listen(backlog: 1)
    for name in names.dropFirst() { try #require(unsafe link(names[0], name) == 0) }
    try #require(unsafe chown(directory, user, user) == 0)
    let daemons = ControlSocket.daemons(of: user)
    #expect(daemons.count == 100 && daemons.allSatisfy { $0.owner == user })
    #expect(ControlSocket.possibleOwners().contains(user))
    // A link, perhaps to the socket of another user's daemon, is not followed.
    let link = "link.sock"
    try #require(unsafe symlink(names[0], "\(directory)/\(link)") == 0)
    defer { unsafe unlink("\(directory)/\(link)") }
    let opened = try SocketDirectory(opening: directory, of: user)
    #expect(try opened.isServed(String(names[0].dropFirst(directory.count + 1))) && !opened.isServed(link))
    #expect(throws: Errno.connectionRefused) { _ = try opened.connect(to: link, patience: 1) }
    // Another's directory is none of a user's.
    try #require(unsafe chown(directory, user + 1, user) == 0)
    #expect(ControlSocket.daemons(of: user).isEmpty && !ControlSocket.possibleOwners().contains(user))
  }
}
