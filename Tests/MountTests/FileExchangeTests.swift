import CSystemCalls
import DataProtectionCore
import Glibc
import LinuxIO
import SystemPackage
import Testing

@testable import protectfs

extension MountTests {
  /// What others do to a file while it changes places with its copy.
  @Suite struct FileExchangeTests {
    /// A file that is about to change places with its copy.
    private struct Subject {
      let path: PathName
      let file: SharedDescriptor
      let inode: UInt64
      let exchange: FileExchange
      private let temporary: TemporaryEntry
      private let way: OpenFile

      init(_ volume: Volume) throws {
        path = volume.path("file")
        try path.write("contents")
        way = try OpenFile(path, OpenFile.pathOnly)
        let directory = SharedDescriptor(try Descriptor.open(volume.mountPoint, [.path, .directory]))
        file = SharedDescriptor(try directory.descriptor.openQuietly("file", [.nonBlocking]))
        try file.descriptor.takeWriteLease()
        let state = try FileState(of: file)
        let copier = VerifiedCopy { (_) throws(CopyError) in }
        let (copy, temporary) = try copier.copy(
          file, state.metadata, asideOf: "file", in: directory, state.fileClass)
        exchange = try FileExchange(of: file, state, by: copy, temporary)
        self.temporary = temporary
        inode = state.metadata.status.inode
      }

      /// The old file for one who has looked its name up before.
      var old: PathName { PathName("/proc/\(getpid())/fd/\(way.descriptor)") }

      func begin() throws(CopyError) { try exchange.begin(temporary) }

      /// Why the exchange was not done.
      func finish() -> CopyError? {
        do throws(CopyError) {
          try exchange.finish()
          return nil
        } catch {
          return error
        }
      }

      /// Opens the old file for writing, and waits until it is known that somebody wants to.
      func startWriter() -> LateWriter {
        let writer = LateWriter(old)
        for _ in 0..<5000 where file.descriptor.lease != .none { usleep(1000) }
        #expect(file.descriptor.lease == .none)
        return writer
      }

      var isCopy: Bool { get throws { try path.status().inode != inode } }
    }

    /// Appends to a file, as soon as it may be opened.
    private final class LateWriter: Sendable {
      private let thread: LinuxIO.Thread

      init(_ path: PathName) {
        thread = Thread(name: "writer") {
          do {
            try OpenFile(path, O_WRONLY | O_APPEND).append(Array(", more".utf8))
          } catch {
            Issue.record("\(error)")
          }
        }
      }

      func wait() { thread.join() }
    }

    private func with(_ body: (Volume, Subject) throws -> Void) throws {
      try Volume.with { volume in try body(volume, Subject(volume)) }
    }

    @Test func theCopyHasTheName() throws {
      try with { volume, subject in
        try subject.begin()
        #expect(try subject.isCopy)
        #expect(subject.finish() == nil)
        #expect(try subject.path.contents() == Array("contents".utf8))
        #expect(try volume.mountPoint.names() == ["file"])
      }
    }

    @Test(arguments: ["chmod 600 file", "setfattr -n user.a -v b file", "ln file other", "touch -d 2001-01-01 file"])
    func whatIsChangedBeforeKeepsItFromBeginning(_ change: String) throws {
      try with { volume, subject in
        try volume.shell(change)
        #expect(throws: CopyError.changedMeanwhile) { try subject.begin() }
        #expect(try !subject.isCopy)
      }
    }

    @Test func lateChangesAreCarriedOver() throws {
      try with { volume, subject in
        try subject.begin()
        // One who finds the copy under the name is later than one who had looked it up before.
        try subject.path.setExtendedAttribute("user.both", to: [2])
        try volume.shell(
          """
          old=\(subject.old)
          setfattr -n user.both -v 1 $old; setfattr -n user.note -v 3 $old; chmod 600 $old
          setfattr -n user.protectfs.class -v complete $old
          """)
        #expect(subject.finish() == nil)
        #expect(try subject.isCopy)
        #expect(try subject.path.extendedAttribute("user.both") == [2])
        #expect(try subject.path.extendedAttribute("user.note") == Array("3".utf8))
        #expect(try subject.path.status().mode & 0o7777 == 0o600)
        #expect(try subject.path.protectionClass() == .complete)
        #expect(try volume.mountPoint.names() == ["file"])
      }
    }

    @Test func aLateWriterWritesToWhatHasTheName() throws {
      try with { volume, subject in
        try subject.begin()
        try subject.path.setMode(0o600)
        let writer = subject.startWriter()
        #expect(subject.finish() == .inUse)
        try subject.file.descriptor.giveUpLease()
        writer.wait()
        #expect(try !subject.isCopy)
        #expect(try subject.path.contents() == Array("contents, more".utf8))
        #expect(try subject.path.status().mode & 0o7777 == 0o600, "changed in the copy")
        #expect(try volume.mountPoint.names() == ["file"])
      }
    }

    /// Nothing that either writes is lost.
    @Test func aLateWriterBesideOneOfTheCopy() throws {
      try Volume.with { volume in
        let (file, aside) = (volume.path("file"), volume.path(".file.protectfs-old"))
        do {
          let subject = try Subject(volume)
          try subject.begin()
          let other = try OpenFile(file, O_WRONLY | O_APPEND)
          let writer = subject.startWriter()
          #expect(subject.finish() == .writtenTwice(".file.protectfs-old"))
          try subject.file.descriptor.giveUpLease()
          writer.wait()
          try other.append(Array(" of another".utf8))
        }
        #expect(try file.contents() == Array("contents of another".utf8))
        #expect(try aside.contents() == Array("contents, more".utf8))

        // What is aside is another version: no run takes it for a leftover.
        let result = try Program.run([Command.path, "rotate", "--data", volume.mountPoint.description])
        #expect(result.ending == .exited(15) && result.output.contains("another version"), "\(result.output)")
        #expect(try aside.contents() == Array("contents, more".utf8))
        try file.write(aside.contents())
        try volume.shell("touch -r .file.protectfs-old file")
        #expect(try Program.run([Command.path, "rotate", "--data", file.description]).succeeded)
        #expect(try volume.mountPoint.names() == ["file"])
      }
    }

    @Test func aLateReaderReadsWhatWasThere() throws {
      try with { volume, subject in
        try subject.begin()
        let old = subject.old
        let reader = Thread(name: "reader") {
          #expect((try? old.contents()) == Array("contents".utf8))
        }
        for _ in 0..<5000 where subject.file.descriptor.lease == .exclusive { usleep(1000) }
        #expect(subject.finish() == nil)
        reader.join()
        #expect(try subject.isCopy)
        #expect(try volume.mountPoint.names() == ["file"])
      }
    }

    @Test func aLateLinkIsOfWhatHasTheName() throws {
      try with { volume, subject in
        try subject.begin()
        try volume.shell("ln .file.protectfs-old other")
        #expect(subject.finish() == .inUse)
        #expect(try !subject.isCopy)
        #expect(try volume.path("other").status().inode == subject.inode)
        #expect(try Set(volume.mountPoint.names()) == ["file", "other"])
      }
    }

    /// An editor puts another file in the place of either of the two.
    @Test func whatIsSavedMeanwhileStays() throws {
      try with { volume, subject in
        try subject.begin()
        try volume.shell("echo saved >aside; mv aside file")
        #expect(subject.finish() == nil)
        #expect(try subject.path.contents() == Array("saved\n".utf8))
        #expect(try volume.mountPoint.names() == ["file"])
      }
      try with { volume, subject in
        try volume.shell("echo saved >aside; mv aside file")
        #expect(throws: CopyError.self) { try subject.begin() }
        #expect(try subject.path.contents() == Array("saved\n".utf8))
      }
    }

    /// A file that has come to a temporary name by an exchange gets its name back, unless a newer one has it.
    @Test func theNameIsGivenBack() throws {
      try Volume.with { volume in
        let directory = SharedDescriptor(try Descriptor.open(volume.mountPoint, [.path, .directory]))
        let (name, aside) = (volume.path("file"), volume.path("aside"))
        try name.write("copy")
        try aside.write("saved")
        let copy = try name.status().inode
        #expect(try directory.giveBack("file", from: "aside", puttingAside: copy))
        #expect(try name.contents() == Array("saved".utf8) && aside.contents() == Array("copy".utf8))

        try aside.unlink()
        try name.rename(to: aside)
        #expect(try !directory.giveBack("file", from: "aside", puttingAside: copy))
        #expect(try name.contents() == Array("saved".utf8) && !aside.exists)
      }
    }
  }
}
