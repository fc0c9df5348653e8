import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// Calls on modes, times, extended attributes and classes.
extension ModelWorker {
  func setMode() throws {
    guard let place = place([.file, .directory]) else { return }
    let path = path(place)
    let modes: [UInt32] =
      tree[place.inode].kind == .directory
      ? [0o755, 0o700, 0o1777, 0o711] : [0o644, 0o600, 0o755, 0o400, 0o200, 0o000]
    let mode = modes.randomElement(using: &random)!
    try attempt(
      "chmod", "\(show(place)) \(String(mode, radix: 8))", call: { try path.setMode(mode) },
      apply: { $0[place.inode].mode = mode })
  }

  func setTime() throws {
    guard let place = place() else { return }
    let path = path(place)
    let seconds = Int64([-1_000_000_000, -1, 0, 1, 1_000_000_000, 4_000_000_000].randomElement(using: &random)!)
    let nanoseconds = Int64.random(in: 0..<1_000_000_000, using: &random)
    try attempt(
      "utimens", "\(show(place)) \(seconds).\(nanoseconds)",
      call: { try path.setTimes(seconds: seconds, nanoseconds: nanoseconds) },
      apply: { $0[place.inode].time = ModelTime(exactly: seconds * 1_000_000_000 + nanoseconds) })
  }

  // MARK: Extended attributes

  private static let names = ["user.a", "user.ä", "user." + String(repeating: "long", count: 40)]

  private func isRefused(_ place: ModelPlace, in state: LockState) -> Bool {
    let node = tree[place.inode]
    return node.kind == .file && !ModelContract.opens(node.fileClass!, in: state)
  }

  func setAttribute() throws {
    guard let place = place() else { return }
    let path = path(place)
    let node = tree[place.inode]
    let name = Self.names.randomElement(using: &random)!
    let mode: AttributeMode = [.createOrReplace, .createOrReplace, .create, .replace].randomElement(using: &random)!
    let value = random.bytes([0, 1, 15, 16, 100, 500].randomElement(using: &random)!)
    let expected: Errno? =
      mode == .create && node.attributes[name] != nil
      ? .fileExists : mode == .replace && node.attributes[name] == nil ? .noData : nil
    try attempt(
      "setxattr", "\(show(place)) \(name.prefix(12)) \(value.count) bytes, mode \(mode.rawValue)",
      failing: { state in
        if node.kind == .symbolicLink { return .notPermitted }
        return isRefused(place, in: state) ? .permissionDenied : expected
      }, call: { try path.setExtendedAttribute(PathName(name), to: value, mode: mode) },
      apply: { $0[place.inode].attributes[name] = value })
  }

  func getAttribute() throws {
    guard let place = place([.file, .directory]) else { return }
    let path = path(place)
    let node = tree[place.inode]
    let name = Self.names.randomElement(using: &random)!
    try attempt(
      "getxattr", "\(show(place)) \(name.prefix(12))",
      failing: { node.attributes[name] == nil ? .noData : isRefused(place, in: $0) ? .permissionDenied : nil },
      call: {
        guard try path.extendedAttribute(PathName(name)) == node.attributes[name] else {
          throw difference("another value of \(name)")
        }
      })
    statistics.comparisons += 1
  }

  func removeAttribute() throws {
    guard let place = place([.file, .directory]) else { return }
    let path = path(place)
    let name = Self.names.randomElement(using: &random)!
    let expected: Errno? = tree[place.inode].attributes[name] == nil ? .noData : nil
    try attempt(
      "removexattr", "\(show(place)) \(name.prefix(12))", failing: { _ in expected },
      call: { try path.removeExtendedAttribute(PathName(name)) },
      apply: { $0[place.inode].attributes[name] = nil })
  }

  // MARK: Classes

  /// A file, a directory, or the root if no other worker relies on it.
  private func classPlace() -> (inode: Int, path: PathName, text: String)? {
    if isAlone, chance(10) { return (ModelTree.root, stage.volume.mountPoint, "the root") }
    return place([.file, .directory]).map { ($0.inode, path($0), show($0)) }
  }

  func setClass() throws {
    guard let place = classPlace() else { return }
    let newClass = anyClass()
    let node = tree[place.inode]
    let isRewrapped = chance(15)
    try attempt(
      isRewrapped ? "rewrap" : "class", "\(place.text) from \(node.fileClass!.letter) to \(newClass.letter)",
      failing: { state in
        if place.inode == ModelTree.root, newClass == .none { return .invalidArgument }
        if node.kind == .directory { return nil }
        return ModelContract.opens(node.fileClass!, in: state) && ModelContract.creates(newClass, in: state)
          ? nil : .permissionDenied
      },
      call: {
        if isRewrapped {
          try place.path.setExtendedAttribute("user.protectfs.class.rewrap", to: Array(newClass.name.utf8))
        } else {
          try place.path.setProtectionClass(newClass)
        }
      }, apply: { $0.choose(newClass, for: place.inode, isRewrapped: isRewrapped) })
  }

  /// Gives the file a new key, like `rotate --data`.
  func rekey() throws {
    guard let place = place([.file]) else { return }
    let path = path(place)
    let node = tree[place.inode]
    try attempt(
      "rekey", show(place), failing: { ModelContract.opens(node.fileClass!, in: $0) ? nil : .permissionDenied },
      call: { try path.rekey() }, apply: { $0.rekey(place.inode) })
  }

  /// The class stays, but counts as inherited.
  func removeClass() throws {
    guard let place = classPlace(), place.inode != ModelTree.root else { return }
    let node = tree[place.inode]
    try attempt(
      "remove class", place.text,
      failing: { state in
        if !node.isExplicit { return .noData }
        return node.kind == .directory || ModelContract.opens(node.fileClass!, in: state) ? nil : .permissionDenied
      }, call: { try place.path.removeExtendedAttribute(PathName.classAttribute) },
      apply: { $0[place.inode].isExplicit = false })
  }
}
