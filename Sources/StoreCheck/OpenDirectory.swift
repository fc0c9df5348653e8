import LinuxIO

/// An open directory that several may hold.
final class OpenDirectory: Sendable {
  let descriptor: Descriptor

  init(_ descriptor: consuming Descriptor) {
    self.descriptor = descriptor
  }
}
