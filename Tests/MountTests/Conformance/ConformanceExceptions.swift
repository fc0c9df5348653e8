/// What is allowed to differ from the backing file system, each with its reason. An exception that no row needs is a
/// failure too.
///
/// Two more hold for all rows:
/// - Reading a file or a link, listing a directory, and mapping a file may leave its access time where it is
///   (`Table.differsByReading`). What the kernel answers from its cache never reaches a FUSE file system, and it keeps
///   no access times for one (`S_NOATIME` in fs/fuse/inode.c).
/// - The change time of a regular file may move once more, some time after the change, and without another: no row
///   waits so long. With the write-back cache the kernel keeps the time of a write(2) while it knows the inode
///   (`fuse_get_cache_mask` in fs/fuse/inode.c). The backing file's moves when the pages are written back, and when it
///   is given the modification time; that is what stat(2) shows once the kernel has forgotten the inode, since no
///   system call sets a change time. So a backup that goes by the change time may copy a file again that has not
///   changed; it never passes over one that has.
struct ConformanceException: Sendable {
  /// What the names of the rows have in them.
  let rows: String
  /// What only the mount's outcome has in it.
  let mount: String
  let reason: String
  /// It depends on what else the machine does.
  var isRare = false

  static let all: [ConformanceException] = [
    .init(
      rows: "chown of a file of mode", mount: "chown 'n' -1 -1 by owner: 0",
      reason: """
        chown(2) with neither user nor group, of another's file with set-id bits, says EPERM on ext4. To a FUSE file
        system it looks like the announcement of a write(2), so it succeeds; it changes no bit.
        """),
    .init(rows: "truncate to the same", mount: "mtime stays", reason: sameLength),
    .init(rows: "times after open with", mount: "mtime stays", reason: sameLength),
    .init(rows: "same length:", mount: "mtime stays", reason: sameLength),
    .init(rows: "a file at -2147483648.", mount: "-2147483648.", reason: range),
    .init(rows: "a file at 15032385535.", mount: "15032385535.", reason: range),
    .init(
      rows: "a write behind the longest file", mount: ": 1",
      reason: """
        A FUSE file system cannot tell the kernel how long its files may be. With the write-back cache the error
        comes with fsync(2) or close(2), as that of a full disk does.
        """),
    .init(
      rows: "O_TMPFILE", mount: "Operation not supported",
      reason: "libfuse 3.14 has no operation for a file without a name; programs fall back to mkstemp(3)."),
    .init(
      rows: "bytes written at", mount: "atime moved to now",
      reason: """
        To write a part of a page that it no longer has, the kernel reads the page through the writer's descriptor. If
        that may read, this is like any other reading.
        """, isRare: true),
    .init(
      rows: "offsets that are none", mount: "mtime moved to now",
      reason: "The kernel moves the times of a mount's file before it asks for fallocate(2), which then fails."),
    .init(
      rows: "collapse and insert", mount: "Operation not supported",
      reason: "Contents are encrypted by their place in the file: to move them is to write them anew."),
    .init(
      rows: "a value that is too large", mount: "Argument list too long",
      reason: """
        Sealed, a value is longer than what setxattr(2) takes, if the value is nearly that long. ext4 has no room for
        either, and says ENOSPC.
        """),
    .init(
      rows: "ACL '", mount: "ctime moved to now",
      reason: """
        Taking away an ACL where there is none changes nothing, but the kernel moves the change time that it keeps of a
        mount's regular file (`fuse_removexattr` in fs/fuse/xattr.c).
        """),
    .init(
      rows: "the access time of a directory that is read", mount: "atime 1.0",
      reason: "A listing from the kernel's cache has left the time where it was, so that setting it moves nothing."),
    .init(
      rows: "rename with flags", mount: "mtime stays ctime stays",
      reason: """
        ext4 makes the whiteout before it finds that the directory to be replaced is not empty, and so moves the times of
        the directory it is in. Of a call that failed, the kernel takes it that nothing has changed.
        """),
    .init(
      rows: "a link with a target of", mount: "atime moved to now",
      reason: """
        The length of a target above 3055 bytes is in the backing link's text, which cannot be read without moving its
        access time.
        """),
  ]

  private static let sameLength = """
    With the write-back cache the kernel keeps the modification time, and moves it for truncate(2) only when the length
    changes (`fuse_do_setattr` in fs/fuse/dir.c).
    """
  private static let range = """
    ext4 drops the nanoseconds of the first and the last second that it has; the kernel, which keeps the modification
    time of a mount's file, does not know that.
    """
}
