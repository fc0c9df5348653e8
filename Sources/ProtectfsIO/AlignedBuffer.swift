import Glibc

/// Memory that transfers past the page cache can use: it starts at a page. Wiped when it ends.
@safe package final class AlignedBuffer {
  /// The memory.
  package let bytes: UnsafeMutableRawBufferPointer

  /// Takes room for so many bytes.
  package init(count: Int) {
    unsafe bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 4096)
  }

  deinit {
    unsafe Memory.wipe(bytes)
    unsafe bytes.deallocate()
  }
}
