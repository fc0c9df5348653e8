import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// What happens to classes when tools copy, move, replace and remove files.
  @Suite struct ClassToolTests {
    /// Editors write a new file beside the old one and rename it, or move the old one away first, and write a new one
    /// in its place. An explicit class is kept.
    @Test(.enabled(if: Program.isInstalled("vim.tiny"), "vim.tiny is not installed"))
    func vimKeepsAChosenClass() throws {
      try Volume.with { volume in
        let file = volume.path("note")
        for settings in ["", "set backupcopy=no | ", "set backupcopy=yes | ", "set nowritebackup | "] {
          try file.write("one\n")
          try file.setProtectionClass(.complete)
          // In a temporary directory it would make no backups, and write over the old file.
          try volume.shell("vim.tiny -u NONE -es -c 'set backupskip= | \(settings)%s/one/two/ | wq!' note")
          #expect(try file.contents() == Array("two\n".utf8), "\(settings)")
          #expect(try file.protectionClass() == .complete, "\(settings)")
          #expect(try file.extendedAttributeNames().contains(ProtectionClass.attributeName))
        }
      }
    }

    @Test func sedKeepsAChosenClass() throws {
      try Volume.with { volume in
        let file = volume.path("note")
        try file.write("one\n")
        let inode = try file.status().inode
        try file.setProtectionClass(.complete)
        try volume.shell("sed -i s/one/two/ note")
        #expect(try file.status().inode != inode)
        #expect(try file.protectionClass() == .complete)
        #expect(try file.contents() == Array("two\n".utf8))
        try volume.lock()
        #expect(throws: Errno.permissionDenied) { try file.contents() }
      }
    }

    /// Programs that move the old file away or remove it, and write a new one in its place.
    @Test(arguments: [
      "mv note note~ && echo two > note && rm note~", "rm note && echo two > note",
      "mv note note~ && echo two > new && mv new note", "rm note && echo two > new && mv -n new note",
      "sed -i.bak s/one/two/ note", "cp --remove-destination other note", "cp --backup other note",
      "mv --backup other note", "tar -cf $W/tar --transform s/other/note/ other && tar -xf $W/tar --unlink-first",
      "git init -q && git add note && git -c user.name=a -c user.email=a commit -qm 1 && echo 2 >note && git checkout -q note",
      "ln note note~ && rm note && echo two > note",
    ])
    func aClassStaysWithANameThatIsLeft(command: String) throws {
      try Volume.with { volume in
        let file = volume.path("note")
        try file.write("one\n")
        try volume.path("other").write("two\n")
        try file.setProtectionClass(.complete)
        try volume.shell(command)
        #expect(try file.protectionClass() == .complete)
        #expect(try file.extendedAttributeNames().contains(ProtectionClass.attributeName))
        try volume.lock()
        #expect(throws: Errno.permissionDenied) { try file.contents() }
      }
    }

    /// A program that saves so during a lock is refused, and has the old file still.
    @Test func aNameThatWasLeftIsRefusedWhileItsClassIsLocked() throws {
      try Volume.with { volume in
        let (file, old) = (volume.path("note"), volume.path("old"))
        try file.write("one\n")
        try volume.path("new").write("two\n")
        try file.setProtectionClass(.complete)
        try volume.lock()
        try file.rename(to: old)
        #expect(throws: Errno.permissionDenied) { try file.write("two\n") }
        #expect(throws: Errno.permissionDenied) { try volume.path("new").rename(to: file) }
        #expect(!file.exists && volume.path("new").exists)
        try volume.unlock()
        #expect(try old.contents() == Array("one\n".utf8))
        try file.write("two\n")
        #expect(try file.protectionClass() == .complete)
      }
    }

    /// Programs that do not look at errors: `sort f > new; mv new f`, where `f` is locked, or comes to be.
    @Test(arguments: [ProtectionClass.complete, .completeUnlessOpen])
    func anEmptyFileReplacesNoLockedOne(of fileClass: ProtectionClass) throws {
      try Volume.with { volume in
        let directory = volume.path("d")
        let (file, empty) = (directory.appending("file"), directory.appending("empty"))
        try directory.makeDirectory(of: fileClass)
        try file.write("one")
        for path in [empty, directory.appending("other"), volume.path("inC")] { try path.write("") }
        try directory.appending("full").write("two")
        try volume.path("large").write("three")
        try volume.lock()
        for path in [empty, volume.path("inC")] {
          #expect(throws: Errno.permissionDenied) { try path.rename(to: file) }
        }
        // What has contents replaces it, as on iOS; and so is one replaced that can be read.
        try directory.appending("full").rename(to: file)
        try empty.rename(to: directory.appending("other"))
        try volume.path("inC").rename(to: volume.path("large"))
        try volume.unlock()
        #expect(try file.contents() == Array("two".utf8))
        try directory.appending("other").rename(to: file)
        #expect(try file.contents().isEmpty && volume.path("large").contents().isEmpty)
      }
    }

    /// A service whose state was locked when it began, in a directory of a class that is available, goes on with none
    /// and saves that.
    @Test(arguments: [ProtectionClass.none, .completeUnlessOpen])
    func aNewFileReplacesNoLockedOne(of weaker: ProtectionClass) throws {
      try Volume.with { volume in
        let directory = volume.path("d")
        let (state, new, moved) = (
          directory.appending("state"), directory.appending("new"), directory.appending("moved")
        )
        try directory.makeDirectory(of: .complete)
        for path in [state, moved] { try path.write("old") }
        try directory.setProtectionClass(weaker)
        try volume.lock()
        #expect(throws: Errno.permissionDenied) { try state.contents() }
        try new.write("nothing yet")
        #expect(throws: Errno.permissionDenied) { try new.rename(to: state) }
        // What could not have been made now is put there by someone who means it.
        try moved.rename(to: state)
        try volume.unlock()
        #expect(try state.contents() == Array("old".utf8))
        #expect(try state.protectionClass() == .complete)
        try new.setProtectionClass(.completeUnlessOpen)
        try volume.lock()
        // So is a class that a program sets, which knows of locked files then.
        try new.rename(to: state)
        try volume.unlock()
        #expect(try state.contents() == Array("nothing yet".utf8))
      }
    }

    /// The kernel may have contents of an open file that the store has not.
    @Test func anOpenFileReplacesALockedOne() throws {
      try Volume.with { volume in
        let (directory, inC) = (volume.path("B"), volume.path("inC"))
        let (file, other, new) = (directory.appending("file"), directory.appending("other"), directory.appending("new"))
        try directory.makeDirectory(of: .completeUnlessOpen)
        for path in [file, other] { try path.write("one") }
        try volume.lock()
        for (path, target) in [(new, file), (inC, other)] {
          let open = try OpenFile(path, O_WRONLY | O_CREAT)
          try open.write(Array("two".utf8), at: 0)
          try path.rename(to: target)
        }
        try volume.unlock()
        for path in [file, other] { #expect(try path.contents() == Array("two".utf8)) }
      }
    }

    /// A name may have been left by a file of class A: class B takes new files at all times.
    @Test func aNameThatWasLeftLeavesClassBUsable() throws {
      try Volume.with { volume in
        let directory = volume.path("B")
        let (file, other) = (directory.appending("inbox"), directory.appending("other"))
        try directory.makeDirectory(of: .completeUnlessOpen)
        for file in [file, other] {
          try file.write("read")
          try file.setProtectionClass(.complete)
          try file.unlink()
        }
        try volume.lock()
        try file.write("new")
        try directory.appending("more").write("more")
        try directory.appending("more").rename(to: other)
        #expect(try file.protectionClass() == .completeUnlessOpen)
        #expect(try other.protectionClass() == .completeUnlessOpen)
      }
    }

    /// What protects less than the directory's class is not kept, nor what was not set for the last that had the name.
    @Test func aNameThatWasLeftGetsNoWeakerClass() throws {
      try Volume.with { volume in
        let (directory, file) = (volume.path("A"), volume.path("note"))
        try directory.makeDirectory(of: .complete)
        let inA = directory.appending("file")
        try inA.write("one\n")
        try inA.setProtectionClass(.none)
        try inA.unlink()
        try inA.write("two\n")
        #expect(try inA.protectionClass() == .complete)

        try file.write("one\n")
        try file.setProtectionClass(.complete)
        try file.unlink()
        try file.makeSymbolicLink(to: "nowhere")
        try file.unlink()
        try file.write("two\n")
        #expect(try file.protectionClass() == .completeUntilFirstUserAuthentication)
      }
    }

    /// As on iOS.
    @Test func sedMovesTheClassWhereAskedTo() throws {
      try Volume.with(["-o", "allow_other,replace_class=move"]) { volume in
        let file = volume.path("note")
        try file.write("one\n")
        try file.setProtectionClass(.complete)
        try volume.shell("sed -i s/one/two/ note")
        #expect(try file.protectionClass() == .completeUntilFirstUserAuthentication)
      }
    }

    @Test func anInheritedClassIsNotKept() throws {
      try Volume.with { volume in
        let (directory, other) = (volume.path("A"), volume.path("D"))
        try directory.makeDirectory(of: .complete)
        try other.makeDirectory(of: .none)
        try directory.appending("file").write("old")
        try other.appending("file").write("new")
        try other.appending("file").rename(to: directory.appending("file"))
        #expect(try directory.appending("file").protectionClass() == .none)
        // Explicit on both sides: each keeps its own.
        try directory.appending("file").setProtectionClass(.completeWhenUserInactive)
        try other.appending("file").write("newer")
        try other.appending("file").setProtectionClass(.completeUnlessOpen)
        try other.appending("file").rename(to: directory.appending("file"))
        #expect(try directory.appending("file").protectionClass() == .completeUnlessOpen)
      }
    }

    @Test func copiesInheritUnlessTheyCarryAttributes() throws {
      try Volume.with { volume in
        let (chosen, inherited, inB) = (volume.path("chosen"), volume.path("A/inherited"), volume.path("B"))
        try volume.path("A").makeDirectory(of: .complete)
        try inB.makeDirectory(of: .completeUnlessOpen)
        try chosen.write("x")
        try chosen.setProtectionClass(.completeWhenUserInactive)
        try inherited.write("x")
        try volume.shell("cp chosen B/plain; cp -a chosen B/archived; cp -a A/inherited B/; mv A B/moved")
        #expect(try inB.appending("plain").protectionClass() == .completeUnlessOpen)
        #expect(try inB.appending("archived").protectionClass() == .completeWhenUserInactive)
        #expect(try inB.appending("inherited").protectionClass() == .completeUnlessOpen)
        #expect(try inB.appending("moved/inherited").protectionClass() == .complete)
        #expect(try inB.appending("moved").protectionClass() == .complete)
        // Out of the mount and back.
        try volume.shell(
          "tar --xattrs --xattrs-include='*' -cf $W/tar chosen && mkdir C && tar --xattrs --xattrs-include='*' -xf $W/tar -C C"
        )
        #expect(try volume.path("C/chosen").protectionClass() == .completeWhenUserInactive)
      }
    }

    @Test func renamesAndLinksKeepTheClass() throws {
      try Volume.with { volume in
        let (inA, inD) = (volume.path("A"), volume.path("D"))
        try inA.makeDirectory(of: .complete)
        try inD.makeDirectory(of: .none)
        try inA.appending("file").write("x")
        try inA.appending("file").link(as: inD.appending("link"))
        try inA.appending("file").rename(to: inD.appending("file"))
        for name in ["link", "file"] { #expect(try inD.appending(name).protectionClass() == .complete) }
        try inD.appending("other").write("y")
        try inD.appending("other").rename(to: inD.appending("file"), flags: .exchange)
        #expect(try inD.appending("file").protectionClass() == .none)
        #expect(try inD.appending("other").protectionClass() == .complete)
      }
    }

    @Test func removesWhileLocked() throws {
      try Volume.with { volume in
        for fileClass in ProtectionClass.allCases {
          let directory = volume.path(fileClass.letter)
          try directory.makeDirectory(of: fileClass)
          for index in 0..<50 { try directory.appending("file \(index)").write("x") }
          try directory.appending("sub").makeDirectory()
          try directory.appending("sub/link").makeSymbolicLink(to: "nowhere")
        }
        try volume.remount()
        #expect(try !Program.run(["rm", "-r", "A", "B", "C", "D", "CX"], in: volume.mountPoint.description).succeeded)
        for letter in ["A", "C", "CX"] { #expect(try volume.path(letter).names().count == 50) }
        #expect(!volume.path("B").exists && !volume.path("D").exists)
        try volume.remount(["-o", "allow_other,remove_locked"])
        try volume.shell("rm -r A C CX")
        #expect(try volume.mountPoint.names().isEmpty)
        #expect(try volume.backing.names() == [".protectfs"])
      }
    }

    /// A change of class writes a new record, and at a raise a new key, but no contents.
    @Test func aClassChangeLeavesTheCiphertext() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write((0..<300_000).map { UInt8(truncatingIfNeeded: $0 / 7) })
        let backing = try volume.backingFile(of: file)
        try OpenFile(file, 0).synchronize()
        var ciphertext = try backing.contents()
        var old = try file.protectionClass()
        let times = try file.status()
        for fileClass in ProtectionClass.allCases + [.complete, .none] {
          try file.setProtectionClass(fileClass)
          try volume.waitForRekeys()
          #expect(try file.protectionClass() == fileClass)
          let now = try backing.contents()
          let isSame = now == ciphertext
          #expect(isSame == !ProtectionPolicy.isRaise(from: old, to: fileClass), "\(fileClass)")
          (ciphertext, old) = (now, fileClass)
        }
        #expect(try file.status().modification_nanoseconds == times.modification_nanoseconds)
        try volume.remount()
        #expect(try file.contents().count == 300_000)
      }
    }

    @Test func unknownClassesAreRefused() throws {
      try Volume.with { volume in
        try volume.path("file").write("x")
        for name in ["file", "."] {
          for value in ["", "a", "complete ", "Complete", "E", "NSFileProtection", "7", "complete\0"] {
            #expect(throws: Errno.invalidArgument, "\(name): '\(value)'") {
              try volume.path(name).setExtendedAttribute(PathName.classAttribute, to: Array(value.utf8))
            }
          }
        }
        for fileClass in ProtectionClass.allCases {
          for value in [fileClass.name, fileClass.letter, fileClass.foundationName] {
            try volume.path("file").setExtendedAttribute(PathName.classAttribute, to: Array(value.utf8))
            #expect(try volume.path("file").protectionClass() == fileClass)
          }
        }
        // The default class of the volume cannot be `none`.
        #expect(throws: Errno.invalidArgument) { try volume.mountPoint.setProtectionClass(.none) }
      }
    }

    /// Listed if explicit. Removing the attribute makes the class count as inherited.
    @Test func theAttributeIsListedWhereItWasChosen() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write("x")
        #expect(try file.extendedAttributeNames() == [])
        #expect(throws: Errno.noData) { try file.removeExtendedAttribute(PathName.classAttribute) }
        try file.setProtectionClass(.completeUnlessOpen)
        #expect(try file.extendedAttributeNames() == [ProtectionClass.attributeName])
        try file.removeExtendedAttribute(PathName.classAttribute)
        #expect(try file.extendedAttributeNames() == [])
        #expect(try file.protectionClass() == .completeUnlessOpen)
      }
    }
  }
}
