/// The progress of a rotation: the parameters of each reply to `RotateClassKey`.
public struct RotationStatus: Codable, Sendable, Hashable {
  /// Files examined.
  public var files: Int
  /// Files whose keys were wrapped again.
  public var rewrapped: Int
  /// Files that cannot be opened, because their records are damaged.
  public var damaged: Int
  /// Files that could not be given the new key, and directories that could not be searched. They need the old key,
  /// which is kept. `nil` if the daemon does not report the number.
  public var kept: Int?
  /// Whether the old class key is gone. This is so in the last reply if nothing was kept.
  public var isFinished: Bool

  /// Creates a status.
  public init(files: Int, rewrapped: Int, damaged: Int, isFinished: Bool) {
    self.files = files
    self.rewrapped = rewrapped
    self.damaged = damaged
    self.isFinished = isFinished
  }

  /// Creates a status that says how many files need the old key.
  public init(files: Int, rewrapped: Int, damaged: Int, kept: Int, isFinished: Bool) {
    self.init(files: files, rewrapped: rewrapped, damaged: damaged, isFinished: isFinished)
    self.kept = kept
  }
}
