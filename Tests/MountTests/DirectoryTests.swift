import Glibc
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage
import Testing

extension MountTests {
  /// Large directories, and the owners of new files.
  @Suite struct DirectoryTests {
    @Test func fiveThousandEntries() throws {
      try Volume.with { volume in
        let directory = volume.path("many")
        try directory.makeDirectory()
        let names = (0..<5000).map { $0 % 50 == 0 ? "\($0)" + String(repeating: "x", count: 200) : "entry \($0)" }
        for name in names { try directory.appending(name).makeNode(mode: S_IFREG | 0o600) }
        let expected = Set(names.map { PathName($0) })
        #expect(Set(try directory.names()) == expected)
        try dropCaches()
        let found = try directory.names()
        #expect(found.count == 5000 && Set(found) == expected)
        try volume.shell("test $(ls -lR many | wc -l) = 5002; test $(find many -type f | wc -l) = 5000")
        // Entries that are removed while others read: an entry that stays is seen once, one that is removed at most
        // once.
        let isOver = Flag()
        let lists = Mutex<[[PathName]]>([])
        let reader = Thread(name: "reader", stackSize: 1 << 20) {
          while !isOver.isSet {
            guard let names = try? directory.names() else { continue }
            lists.withLock { $0.append(names) }
          }
        }
        for index in 0..<5000 where index % 2 == 0 { try directory.appending(names[index]).unlink() }
        isOver.set()
        reader.join()
        let staying = Set(names.enumerated().filter { $0.offset % 2 == 1 }.map { PathName($0.element) })
        for list in lists.withLock({ $0 }) {
          let seen = Set(list)
          #expect(seen.count == list.count, "an entry was listed twice")
          #expect(staying.isSubset(of: seen), "\(staying.subtracting(seen).count) entries were passed over")
          #expect(seen.isSubset(of: expected))
        }
        #expect(throws: Errno.directoryNotEmpty) { try directory.removeDirectory() }
        try volume.shell("rm -r many")
        #expect(try volume.backing.names() == [".protectfs"])
      }
    }

    /// The results of `readdir` while names are added and removed: `rm -r` of a deep tree, half-removed directories.
    @Test func removesWhileItReads() throws {
      try Volume.with { volume in
        try volume.shell(
          """
          for d in $(seq 20); do mkdir -p tree/$d/a/b; for f in $(seq 60); do : > tree/$d/a/b/$f; : > tree/$d/$f; done; done
          rm -r tree/1* & rm -r tree/2* & wait
          find tree -type f -name '*5' -delete; find tree -depth -type f -exec rm {} +
          rm -r tree
          """)
        #expect(try volume.mountPoint.names() == [])
      }
    }

    /// A tree larger than the descriptor limit, and more open directories than the limit.
    @Test func moreThanDescriptors() throws {
      try Volume.store { volume in
        // Without the capability the daemon cannot raise the limit.
        try volume.mount(through: ["setpriv", "--bounding-set=-sys_resource", "prlimit", "--nofile=256:256"])
        try volume.unlock()
        var open: [OpenFile] = []
        for number in 0..<600 {
          let directory = volume.path("\(number)")
          try directory.makeDirectory()
          open.append(try OpenFile(directory, O_RDONLY | O_DIRECTORY))
          try writeWhereThereIsRoom("\(number)", to: directory.appending("file"))
        }
        try volume.shell("cat */file | wc -c | grep -qx 1690; test $(find . -type f | wc -l) = 600; rm -r 1*")
        #expect(try volume.path("599/file").contents() == Array("599".utf8))
        withExtendedLifetime(open) {}
      }
    }

    /// No close(2) waits until the daemon has closed the file too: it may have many left to close.
    private func writeWhereThereIsRoom(_ text: String, to path: PathName) throws {
      var refusal: Errno?
      try #require(
        eventually {
          refusal = failure { () throws(Errno) in try path.write(text) }
          return refusal != .tooManyOpenFilesInSystem
        })
      if let refusal { throw refusal }
    }

    /// A user who takes all descriptors that are available to callers does not prevent a lock, nor operations that need
    /// one for a moment.
    @Test func someDescriptorsAreTheDaemonsOwn() throws {
      try Volume.store { volume in
        try volume.mount(through: ["setpriv", "--bounding-set=-sys_resource", "prlimit", "--nofile=256:256"])
        try volume.unlock()
        for number in 0..<300 { try writeWhereThereIsRoom("\(number)", to: volume.path("\(number)")) }
        let root = try OpenFile(volume.mountPoint, O_RDONLY | O_DIRECTORY)
        var open: [OpenFile] = []
        let files = failure { () throws(Errno) in
          for number in 0..<300 { open.append(try OpenFile(volume.path("\(number)"), O_RDONLY)) }
        }
        #expect(files == .tooManyOpenFilesInSystem && open.count > 100)
        #expect(
          failure { () throws(Errno) in _ = try OpenFile(volume.path("new"), O_WRONLY | O_CREAT) }
            == .tooManyOpenFilesInSystem)
        #expect(!volume.path("new").exists)
        #expect(try volume.mountPoint.names().count == 300)
        // Each handle that is read or synchronised has its own descriptor.
        let directories = failure { () throws(Errno) in
          for _ in 0..<300 {
            let directory = try OpenFile(volume.mountPoint, O_RDONLY | O_DIRECTORY)
            open.append(directory)
            try directory.synchronize()
          }
        }
        #expect(directories == .tooManyOpenFilesInSystem)
        try volume.path("0").setMode(0o600)
        try volume.lock()
        #expect(try volume.status().state == .locked)
        try volume.unlock()
        open = []
        #expect(try volume.path("299").contents() == Array("299".utf8))
        withExtendedLifetime(root) {}
      }
    }

    @Test func newFilesBelongToTheirCreator() throws {
      try Volume.with { volume in
        try volume.mountPoint.setMode(0o777)
        try volume.path("shared").makeDirectory()
        try volume.path("shared").setOwner(user: 0, group: 4242)
        try volume.path("shared").setMode(0o2777)
        try volume.shell(
          """
          setpriv --reuid 1234 --regid 5678 --clear-groups bash -eu -c '
            umask 027; echo x > file; mkdir directory; ln -s file link; mkfifo fifo
            echo x > shared/file; mkdir shared/directory
            echo y >> file; chmod 600 file; setfattr -n user.note -v mine file
            setfattr -n user.protectfs.class -v complete file
          '
          """)
        for name in ["file", "directory", "link", "fifo"] {
          let status = try volume.path(name).status()
          #expect(status.user == 1234 && status.group == 5678, "\(name)")
        }
        #expect(try volume.path("directory").status().mode & 0o7777 == 0o750)
        #expect(try volume.path("fifo").status().mode & 0o7777 == 0o640)
        #expect(try volume.path("shared/file").status().group == 4242)
        #expect(try volume.path("shared/file").status().mode & 0o7777 == 0o640)
        let sub = try volume.path("shared/directory").status()
        #expect(sub.group == 4242 && sub.mode & 0o7777 == 0o2750 && sub.user == 1234)
        #expect(try volume.path("file").protectionClass() == .complete)
        // Others are kept out by the mode, as usual.
        try volume.shell(
          """
          ! setpriv --reuid 4321 --regid 4321 --clear-groups cat file
          ! setpriv --reuid 4321 --regid 4321 --clear-groups setfattr -n user.protectfs.class -v none file
          ! setpriv --reuid 4321 --regid 4321 --clear-groups chmod 777 file
          ! setpriv --reuid 4321 --regid 4321 --clear-groups rm -f directory/x shared/directory/y 2>&1 | grep -q nothing
          """)
        #expect(try volume.path("file").protectionClass() == .complete)
      }
    }

    @Test(.enabled(if: Program.isInstalled("setfacl"), "setfacl is not installed")) func accessControlLists() throws {
      try Volume.with { volume in
        try volume.mountPoint.setMode(0o755)
        try volume.shell(
          """
          umask 022; mkdir d; setfacl -d -m u:1234:rwx,g::r-x,o::--- d
          umask 077; echo x > d/file; mkdir d/sub
          test "$(getfacl -cn d/file | grep -c 'user:1234:rwx')" = 1
          test "$(stat -c %a d/file)" = 660
          getfacl -cn d/sub | grep -q 'default:user:1234:rwx'
          echo y > plain; setfacl -m u:1234:r plain; chmod 750 .
          """)
        try volume.mountPoint.setMode(0o755)
        try volume.shell("setpriv --reuid 1234 --regid 1 --clear-groups cat plain | grep -q y")
        try volume.remount()
        try volume.unlock()
        try volume.shell("getfacl -cn plain | grep -q user:1234:r--")
      }
    }

    /// A write or a change of owner by another user clears set-user-ID.
    @Test func setUserIDGoesWithAWrite() throws {
      try Volume.with { volume in
        try volume.mountPoint.setMode(0o777)
        let file = volume.path("tool")
        try file.write("x")
        try file.setMode(0o6777)
        #expect(try file.status().mode & 0o7777 == 0o6777)
        try volume.shell("setpriv --reuid 1234 --regid 1234 --clear-groups sh -c 'echo y >> tool'")
        #expect(try file.status().mode & 0o7777 == 0o777)
        try file.setMode(0o4755)
        try file.setOwner(user: 1234, group: 1234)
        #expect(try file.status().mode & 0o7777 == 0o755)
      }
    }

    @Test func extendedAttributes() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write("x")
        for (index, size) in [0, 1, 15, 16, 17, 255, 1000, 2000].enumerated() {
          let value = pattern(size, count: size)
          let name = PathName("user." + String(repeating: "n", count: index * 30 + 1))
          try file.setExtendedAttribute(name, to: value)
          #expect(try file.extendedAttribute(name) == value)
          try file.removeExtendedAttribute(name)
          #expect(throws: Errno.noData) { try file.extendedAttribute(name) }
        }
        try file.setExtendedAttribute("user.a", to: [1], mode: .create)
        #expect(throws: Errno.fileExists) { try file.setExtendedAttribute("user.a", to: [2], mode: .create) }
        try file.setExtendedAttribute("user.a", to: [3], mode: .replace)
        #expect(throws: Errno.noData) { try file.setExtendedAttribute("user.b", to: [2], mode: .replace) }
        #expect(throws: Errno.noData) { try file.removeExtendedAttribute("user.b") }
        // ext4 has room for one block of them. What does not fit is reported.
        let error = failure { () throws(Errno) in
          try file.setExtendedAttribute("user.big", to: [UInt8](repeating: 1, count: 65_536))
        }
        #expect(error == .noSpace || error == .argListTooLong)
        #expect(try file.extendedAttributeNames() == ["user.a"])
        // The store's own attributes are neither visible nor changed. One of the same name can be kept: that of a store
        // whose backing directory is here.
        #expect(throws: Errno.noData) { try file.extendedAttribute("user.cprotect") }
        try file.setExtendedAttribute("user.cprotect", to: [1])
        #expect(try file.extendedAttribute("user.cprotect") == [1])
        #expect(try file.extendedAttributeNames().sorted() == ["user.a", "user.cprotect"])
        try file.removeExtendedAttribute("user.cprotect")
        #expect(try file.protectionClass() == .standard)
        #expect(failure { () throws(Errno) in try file.setExtendedAttribute("user.protectfs.x.y", to: [1]) } != nil)
        try volume.path("directory").makeDirectory()
        try volume.path("directory").setExtendedAttribute("user.a", to: [9])
        try volume.remount()
        #expect(try volume.path("directory").extendedAttribute("user.a") == [9])
        #expect(throws: Errno.permissionDenied) { try file.extendedAttribute("user.a") }
        try volume.unlock()
        #expect(try file.extendedAttribute("user.a") == [3])
        // Neither name nor value is in plain in the backing file.
        let backing = try volume.backingFile(of: file)
        #expect(try !backing.extendedAttributeNames().contains { $0.hasSuffix(".a") })
      }
    }

    /// A directory has a link for each subdirectory, which find(1) and others rely on.
    @Test func linkCounts() throws {
      try Volume.with { volume in
        #expect(try volume.mountPoint.status().links == 2)
        try volume.path("d").makeDirectory()
        try volume.path("d/e").makeDirectory()
        try volume.path("d/file").write("x")
        #expect(try volume.mountPoint.status().links == 3)
        #expect(try volume.path("d").status().links == 3)
        #expect(try volume.path("d/e").status().links == 2)
      }
    }
  }
}
