import SystemPackage

/// Why something was not copied.
package enum CopyError: Error, Equatable, Sendable {
  /// The source cannot be read.
  case source(Errno)
  /// The copy cannot be made.
  case target(Errno)
  /// Somebody wrote to the source meanwhile.
  case changedMeanwhile
  /// Somebody else took the name, or the file that had it, meanwhile.
  case replacedMeanwhile
  /// The source has more contents than its length says.
  case longerThanSaid
  /// What was read back is not what was written.
  case different
  /// The target has no room for the source's extended attributes.
  case attributesTooLarge
  /// Another copy of the same file is at work.
  case busy
  /// The copy was told to end.
  case interrupted
}

func fromSource<Result: ~Copyable>(_ body: () throws(Errno) -> Result) throws(CopyError) -> Result {
  do throws(Errno) { return try body() } catch { throw .source(error) }
}

func onTarget<Result: ~Copyable>(_ body: () throws(Errno) -> Result) throws(CopyError) -> Result {
  do throws(Errno) { return try body() } catch { throw .target(error) }
}
