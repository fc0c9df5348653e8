import CSystemCalls
import Glibc
import ProtectfsIO
import SystemPackage

/// A row's directory on one of the two file systems, and the files that the row has open there.
final class Place {
  let directory: PathName
  private var descriptors: [Int: CInt] = [:]
  private var snapshot: Observation?

  init(_ directory: PathName) throws(Errno) {
    self.directory = directory
    try directory.makeDirectory()
    try directory.setMode(0o777)
    try enter()
    snapshot = try Observation.take()
  }

  deinit { descriptors.values.forEach { _ = calls_close($0) } }

  /// What came of a step: the result first, then the state after it.
  struct Outcome: Equatable {
    let error: Errno?
    let lines: [String]
  }

  func run(_ step: Step) throws(Errno) -> Outcome {
    try enter()
    let (result, text) = try perform(step)
    if step.call == CALL_CHDIR { try enter() }
    let after = try Observation.take()
    var now = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &now)
    let lines = ["\(step): \(text)"] + after.lines(since: snapshot, now: Int64(now.tv_sec))
    snapshot = after
    return Outcome(error: result < 0 ? Errno(rawValue: CInt(-result)) : nil, lines: lines)
  }

  private func enter() throws(Errno) {
    try check(unsafe directory.withCString { unsafe chdir($0) } < 0 ? -errno : 0)
  }

  private func perform(_ step: Step) throws(Errno) -> (Int64, String) {
    if step.call == CALL_STAT || step.call == CALL_LSTAT || step.call == CALL_FSTAT { return try status(of: step) }
    var data = step.capacity > 0 ? [UInt8](repeating: 0, count: step.capacity) : step.data
    let result = try asked(of: step, &data)
    if step.call == CALL_OPEN, result >= 0 {
      if let old = descriptors.updateValue(CInt(result), forKey: step.slot) { _ = calls_close(old) }
      return (0, "open")
    }
    if step.call == CALL_CLOSE { descriptors[step.slot] = nil }
    guard result >= 0 else { return (result, Self.name(of: result)) }
    if step.call == CALL_GETDENTS { return (result, "entries") }
    guard step.capacity > 0, Int(result) <= data.count else { return (result, "\(result)") }
    return (result, "\(result): " + Self.text(of: data[..<Int(result)], isList: step.call == CALL_LISTXATTR))
  }

  /// Makes the call, as the step's identity.
  private func asked(of step: Step, _ data: inout [UInt8]) throws(Errno) -> Int64 {
    var request = unsafe calls_request()
    unsafe request.call = step.call
    unsafe request.descriptor = descriptors[step.slot] ?? -1
    var numbers = step.numbers + [Int64](repeating: 0, count: 5 - step.numbers.count)
    if step.call == CALL_COPY { numbers[0] = Int64(descriptors[step.otherSlot] ?? -1) }
    unsafe request.numbers = (numbers[0], numbers[1], numbers[2], numbers[3], numbers[4])
    umask(step.umask)
    try become(step.identity)
    let result = unsafe data.withUnsafeMutableBytes { data in
      unsafe request.data = data.baseAddress
      unsafe request.count = data.count
      return unsafe withPaths(step) { path, other in
        unsafe request.path = path
        unsafe request.other = other
        return unsafe calls_perform(&request)
      }
    }
    if step.identity != .root { try check(calls_become_root()) }
    return result
  }

  private func become(_ identity: Identity) throws(Errno) {
    guard identity != .root else { return }
    try check(
      unsafe identity.groups.withUnsafeBufferPointer {
        unsafe calls_become(identity.user, identity.group, $0.baseAddress, $0.count)
      })
  }

  private func withPaths<Result>(
    _ step: Step, _ body: (UnsafePointer<CChar>?, UnsafePointer<CChar>?) -> Result
  ) -> Result {
    func with(_ path: PathName?, _ body: (UnsafePointer<CChar>?) -> Result) -> Result {
      guard let path else { return body(nil) }
      return unsafe path.withCString { unsafe body($0) }
    }
    return unsafe with(step.path) { path in unsafe with(step.other) { unsafe body(path, $0) } }
  }

  private func status(of step: Step) throws(Errno) -> (Int64, String) {
    var status = FileStatus()
    try become(step.identity)
    let result = unsafe withPaths(step) { path, _ in
      if step.call == CALL_FSTAT { return unsafe calls_fstat(descriptors[step.slot] ?? -1, &status) }
      let path = unsafe path ?? UnsafePointer(bitPattern: 1)!
      return unsafe step.call == CALL_STAT ? calls_stat(path, &status) : calls_lstat(path, &status)
    }
    if step.identity != .root { try check(calls_become_root()) }
    guard result >= 0 else { return (Int64(result), Self.name(of: Int64(result))) }
    let size = status.mode & S_IFMT == S_IFDIR ? "" : " size \(status.size)"
    return (
      0, "\(String(status.mode, radix: 8)) \(status.user):\(status.group) links \(status.links)\(size)"
    )
  }

  static func name(of result: Int64) -> String { Errno(rawValue: CInt(-result)).debugDescription }

  private static func text(of bytes: ArraySlice<UInt8>, isList: Bool) -> String {
    if isList {
      return bytes.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }.sorted().joined(separator: " ")
    }
    if bytes.count <= 64, bytes.allSatisfy({ $0 >= 0x20 && $0 < 0x7F }) {
      return String(decoding: bytes, as: UTF8.self)
    }
    let hash = unsafe bytes.withUnsafeBytes { unsafe calls_hash($0.baseAddress, $0.count) }
    return "hash \(String(hash, radix: 16))"
  }
}
