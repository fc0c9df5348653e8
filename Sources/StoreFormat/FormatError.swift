/// A defect in the bytes of a store.
package enum FormatError: Error, Equatable, Sendable, CustomStringConvertible {
  /// A field has a value that no writer of this version stores: damage, or an attack.
  case malformed(record: RecordKind, field: String, problem: String)
  /// The record has a version that this program does not know.
  case unsupportedVersion(record: RecordKind, version: UInt16)
  /// The keybag uses features that this program does not know; these are the unknown bits.
  case unknownFeatures(UInt64)

  package var description: String {
    switch self {
    case .malformed(let record, let field, let problem): "\(record.rawValue): \(field) \(problem)"
    case .unsupportedVersion(let record, let version): "\(record.rawValue): version \(version) is not known"
    case .unknownFeatures(let bits): "keybag: unknown features (0x\(String(bits, radix: 16)))"
    }
  }
}

/// The kinds of records that parsers read.
package enum RecordKind: String, Sendable {
  case file = "file record"
  case directory = "directory record"
  case keybag = "keybag"
  case attribute = "extended attribute"
  case attempts = "record of attempts"
  case rekeyBatch = "batch of a rekey"
  case hostRequest = "request of a host"
  case host = "host file"
  case hostLock = "lock of hosts"
}
