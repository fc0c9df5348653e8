import CProtectfsTesting
import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// The calls of the C library that CProtectfsTesting hands over, since they may concern a stand-in.
enum StandInCalls {
  /// Answers calls from now on. As often as it was called, ``end()`` is to be.
  static func begin() {
    isReady
    protectfs_testing_add_stand_in()
  }

  private static let isReady: Void = unsafe withUnsafePointer(to: calls) {
    unsafe protectfs_testing_answer_with($0)
  }

  static func end() {
    protectfs_testing_remove_stand_in()
  }

  private static var calls: protectfs_testing_calls {
    unsafe protectfs_testing_calls(
      open: { StandInCalls.answer($0) { (standIn, item) throws(Errno) in try standIn.open(item) } },
      create: { StandInCalls.answer($0) { (standIn, item) throws(Errno) in try standIn.create(in: item) } },
      created: { StandInCalls.answer($0) { (standIn, item) throws(Errno) in try standIn.created(item) } },
      transfer: { StandInCalls.answer($0) { (standIn, item) throws(Errno) in try standIn.transfer(item) } },
      status: { (descriptor, mode, major, minor) in
        StandInCalls.answer(descriptor) { (standIn, item) throws(Errno) in
          unsafe mode?.pointee = item.status.mode & ~0o7777 | standIn.permissions(of: item)
          unsafe major?.pointee = standIn.device.major
          unsafe minor?.pointee = standIn.device.minor
          return 0
        }
      },
      access: { (descriptor, mode) in
        StandInCalls.answer(descriptor) { (standIn, item) throws(Errno) in try standIn.access(item, UInt32(mode)) }
      },
      change_mode: { (descriptor, mode) in
        StandInCalls.answer(descriptor) { (standIn, item) throws(Errno) in try standIn.changeMode(of: item, to: mode) }
      },
      attribute: { (descriptor, name, value, size) in
        let name = unsafe name.map { unsafe PathName(copying: $0) }
        return StandInCalls.answer(descriptor) { (standIn, item) throws(Errno) in
          guard let name, let found = try standIn.attribute(name, of: item) else { return nil }
          return try unsafe StandInCalls.copy(found, to: value, size)
        }
      },
      set_attribute: { (descriptor, name, value, size, flags) in
        let name = unsafe name.map { unsafe PathName(copying: $0) }
        let value = unsafe Array(UnsafeRawBufferPointer(start: value, count: size))
        return StandInCalls.answer(descriptor) { (standIn, item) throws(Errno) in
          guard let name, let mode = AttributeMode(rawValue: flags) else { return nil }
          return try standIn.setAttribute(name, of: item, to: value, mode: mode)
        }
      },
      remove_attribute: { (descriptor, name) in
        let name = unsafe name.map { unsafe PathName(copying: $0) }
        return StandInCalls.answer(descriptor) { (standIn, item) throws(Errno) in
          guard let name else { return nil }
          return try standIn.removeAttribute(name, of: item)
        }
      },
      attribute_names: { (descriptor, list, size) in
        StandInCalls.answer(descriptor) { (standIn, item) throws(Errno) in
          try unsafe StandInCalls.copy(standIn.attributeNames(of: item), to: list, size)
        }
      },
      unlink: { StandInCalls.answer($0) { (standIn, item) throws(Errno) in try standIn.unlink(item) } },
      move: { (item, directory, replaced, flags) in
        StandInCalls.move(item, to: directory, replaced, RenameFlags(rawValue: flags))
      }
    )
  }

  /// The answer to a call on an item: what `body` returns or throws, or that the call is to be made.
  private static func answer(
    _ descriptor: CInt, _ body: (StandIn, StandInItem) throws(Errno) -> Int?
  ) -> Int {
    do throws(Errno) {
      guard let standIn = try standIn(of: descriptor) else { return Int.min }
      return try body(standIn, StandInItem(descriptor: descriptor)) ?? Int.min
    } catch {
      return -Int(error.rawValue)
    }
  }

  private static func move(_ item: CInt, to directory: CInt, _ replaced: CInt, _ flags: RenameFlags) -> Int {
    do throws(Errno) {
      let (old, new) = (try standIn(of: item), try standIn(of: directory))
      // As between two file systems.
      guard old === new else { throw .improperLink }
      guard let new else { return Int.min }
      let replaced = replaced < 0 ? nil : try StandInItem(descriptor: replaced)
      return try new.move(StandInItem(descriptor: item), flags, replacing: replaced) ?? Int.min
    } catch {
      return -Int(error.rawValue)
    }
  }

  private static func standIn(of descriptor: CInt) throws(Errno) -> StandIn? {
    try StandInMounts.containing(PathName("/proc/self/fd/\(descriptor)")) as? StandIn
  }

  /// Gives a caller of xattr(7) a value, or for an empty buffer its length.
  private static func copy(_ bytes: [UInt8], to buffer: UnsafeMutableRawPointer?, _ size: Int) throws(Errno) -> Int {
    if size == 0 { return bytes.count }
    guard size >= bytes.count else { throw .outOfRange }
    unsafe UnsafeMutableRawBufferPointer(start: buffer, count: size).copyBytes(from: bytes)
    return bytes.count
  }
}
