import CProtectfsIO
import ProtectfsLibc
import SystemPackage

extension Descriptor {
  /// Fills this empty file with the contents that another file has now (sendfile(2)). Its holes stay holes.
  ///
  /// What is appended to the other file meanwhile is not copied.
  package func copyContents(of source: borrowing Descriptor) throws(Errno) {
    let end = try source.status().size
    var position: UInt64 = 0
    while let data = try nextData(
      from: position, before: end, seeking: { (from, origin) throws(Errno) in try source.seek(to: from, origin) })
    {
      _ = try seek(to: data.lowerBound, .start)
      position = try send(data, of: source)
      // The other file has become shorter.
      guard position == data.upperBound else { return }
    }
    if position < end { try truncate(to: end) }
  }

  /// Writes a part of another file at the position of this one, and returns where in the other file it ended.
  private func send(_ range: Range<UInt64>, of source: borrowing Descriptor) throws(Errno) -> UInt64 {
    var position = off_t(range.lowerBound)
    let number = source.rawValue
    while position < range.upperBound {
      let rest = min(Int(range.upperBound) - Int(position), 1 << 30)
      if try call("sendfile", unsafe store_sendfile(rawValue, number, &position, rest)) == 0 { break }
    }
    return UInt64(position)
  }
}

/// The next run of data at or behind a position, by what tells where the next data, or the next hole, begins; `nil`
/// where there are only holes. Where holes cannot be told, all is data.
package func nextData(
  from position: UInt64, before end: UInt64, seeking seek: (UInt64, SeekOrigin) throws(Errno) -> UInt64
) throws(Errno) -> Range<UInt64>? {
  guard position < end else { return nil }
  do throws(Errno) {
    let start = try seek(position, .data)
    return start < end ? start..<min(max(try seek(start, .hole), start + 1), end) : nil
  } catch {
    switch error {
    case .noSuchAddressOrDevice: return nil
    case .invalidArgument, .notSupported: return position..<end
    default: throw error
    }
  }
}
