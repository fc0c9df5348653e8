/// How far a rotation has come: the parameters of each reply to `RotateClassKey`.
public struct RotationStatus: Codable, Sendable, Hashable {
  /// Files looked at.
  public var files: Int
  /// Files whose keys were wrapped anew.
  public var rewrapped: Int
  /// Files that nobody can open, since their records are damaged.
  public var damaged: Int
  /// Files that could not be given the new key, and directories that could not be gone through: they need the old one, which
  /// is kept. `nil` where the daemon does not say.
  public var kept: Int?
  /// Whether the old class key is gone: the last reply, where nothing was kept.
  public var isFinished: Bool

  /// A status of these values.
  public init(files: Int, rewrapped: Int, damaged: Int, isFinished: Bool) {
    self.files = files
    self.rewrapped = rewrapped
    self.damaged = damaged
    self.isFinished = isFinished
  }

  /// A status that says how many files need the old key.
  public init(files: Int, rewrapped: Int, damaged: Int, kept: Int, isFinished: Bool) {
    self.init(files: files, rewrapped: rewrapped, damaged: damaged, isFinished: isFinished)
    self.kept = kept
  }
}
