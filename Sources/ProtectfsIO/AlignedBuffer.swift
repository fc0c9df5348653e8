import ProtectfsLibc

/// Page-aligned memory, which direct I/O requires. Wiped when it is freed.
@safe package final class AlignedBuffer {
  /// The memory.
  package let bytes: UnsafeMutableRawBufferPointer

  /// Allocates `count` bytes.
  package init(count: Int) {
    unsafe bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 4096)
  }

  deinit {
    unsafe Memory.wipe(bytes)
    unsafe bytes.deallocate()
  }
}
