import CProtectfsIO
import ProtectfsLibc
import SystemPackage

/// The kind of a file system, by its magic number (statfs(2), linux/magic.h).
struct FileSystemKind: RawRepresentable, Equatable, Sendable {
  let rawValue: UInt32

  static let ext = FileSystemKind(rawValue: 0xef53)
  static let xfs = FileSystemKind(rawValue: 0x5846_5342)
  static let btrfs = FileSystemKind(rawValue: 0x9123_683e)
  static let f2fs = FileSystemKind(rawValue: 0xf2f5_2010)
  static let tmpfs = FileSystemKind(rawValue: 0x0102_1994)
  static let fuse = FileSystemKind(rawValue: 0x6573_5546)
  static let ecryptfs = FileSystemKind(rawValue: 0xf15f)
  static let overlay = FileSystemKind(rawValue: 0x794c_7630)
  static let bcachefs = FileSystemKind(rawValue: 0xca45_1a4e)
  static let nilfs = FileSystemKind(rawValue: 0x3434)
  /// fs/jfs/jfs_superblock.h.
  static let jfs = FileSystemKind(rawValue: 0x3153_464a)
  /// fs/ntfs3/super.c.
  static let ntfs = FileSystemKind(rawValue: 0x7366_746e)
  /// fs/ubifs/ubifs.h.
  static let ubifs = FileSystemKind(rawValue: 0x2405_1905)
  /// OpenZFS's (`ZFS_SUPER_MAGIC`).
  static let zfs = FileSystemKind(rawValue: 0x2fc1_2fc1)
}

extension Descriptor {
  /// The kind of the file system that it is on (fstatfs(2)).
  func fileSystemKind() throws(Errno) -> FileSystemKind {
    var status = statfs()
    try call("fstatfs", unsafe store_fstatfs(rawValue, &status))
    return FileSystemKind(rawValue: UInt32(truncatingIfNeeded: status.f_type))
  }

  /// Whether other hosts may change what is on its file system: every kind that is not known to be of one host.
  package var mayServeSeveralHosts: Bool {
    guard let kind = try? fileSystemKind() else { return true }
    let ofOneHost: [FileSystemKind] = [
      .ext, .xfs, .btrfs, .f2fs, .tmpfs, .overlay, .ecryptfs, .bcachefs, .zfs, .nilfs, .jfs, .ntfs, .ubifs,
    ]
    return !ofOneHost.contains(kind)
  }
}

/// What the file system of a store, and the device below it, promise of what is written to them. What cannot be found
/// out is not promised.
package struct BackingMedium: Sendable, Equatable {
  /// What must come before a page of a file is changed, so that it does not change while it is written to the device.
  package enum PageWait: Sendable {
    /// Nothing: the file system has writers wait.
    case nothing
    /// sync_file_range(2), where what it waits for is what goes to the device.
    case forPages
    /// fdatasync(2).
    case forFile
  }

  /// The device's `queue/stable_writes` is not asked: what counts is what it was when the file system was mounted.
  package let pageWait: PageWait
  /// An attribute of a file is durable no later than a change of its length, or of its holes, that came after it.
  package let keepsOrder: Bool
  /// How many bytes at most are written as a whole, by the device and by the file system; `nil` where they do not say.
  package let blockSize: Int?

  /// Nothing is promised.
  package static let unknown = BackingMedium(pageWait: .forFile, keepsOrder: false, blockSize: nil)

  private init(pageWait: PageWait, keepsOrder: Bool, blockSize: Int?) {
    self.pageWait = pageWait
    self.keepsOrder = keepsOrder
    self.blockSize = blockSize
  }

  /// The medium of an open file or directory.
  package init(of file: borrowing Descriptor) {
    guard let kind = try? file.fileSystemKind(),
      let number = Process.device(of: PathName(descriptor: file).description)
    else {
      self = .unknown
      return
    }
    let device = PathName("/sys/dev/block/\(number)")
    let (pageWait, keepsOrder): (PageWait, Bool) =
      switch kind {
      // `prepare_one_folio()` in fs/btrfs/file.c.
      case .btrfs: (.nothing, true)
      case .xfs: (.forPages, true)
      case .ext: (.forPages, Self.hasJournal(device))
      case .f2fs, .tmpfs: (.forPages, false)
      // Overlayfs has pages of its own, which none goes through; an NFS server has what it has not written yet.
      default: (.forFile, false)
      }
    // A partition has the queue of its disk.
    let physical = ["queue", "../queue"].lazy
      .compactMap { PathName("\(device)/\($0)/physical_block_size").firstLine.flatMap { Int($0) } }.first
    let block = (try? file.fileSystemStatus()).map { Int(clamping: $0.f_bsize) } ?? .max
    self.init(pageWait: pageWait, keepsOrder: keepsOrder, blockSize: physical.map { min($0, block) })
  }

  /// Whether ext4 on a device has one (kernel: ABI/testing/sysfs-fs-ext4); ext2 has none.
  private static func hasJournal(_ device: PathName) -> Bool {
    guard let name = try? device.canonical().description.split(separator: "/").last else { return false }
    let thread = PathName("/sys/fs/ext4/\(name)/journal_task").firstLine
    return thread.map { $0 != "<none>" } ?? false
  }

  /// Whether it says that it does not write so many bytes as a whole.
  package func mayTear(_ count: Int) -> Bool { blockSize.map { $0 < count } ?? false }
}
