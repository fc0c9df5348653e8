/// How far a rotation has come: the parameters of each reply to `RotateClassKey`.
public struct RotationStatus: Codable, Sendable, Hashable {
  /// Files looked at.
  public var files: Int
  /// Files whose keys were wrapped anew.
  public var rewrapped: Int
  /// Files that nobody can open, since their records are damaged.
  public var damaged: Int
  /// Whether the old class key is gone: the last reply.
  public var isFinished: Bool

  /// A status of these values.
  public init(files: Int, rewrapped: Int, damaged: Int, isFinished: Bool) {
    self.files = files
    self.rewrapped = rewrapped
    self.damaged = damaged
    self.isFinished = isFinished
  }
}
