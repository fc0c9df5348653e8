/// The possible defects of a store. Programs use the raw values, which do not change.
package enum Defect: String, CaseIterable, Sendable {
  // The keybag.
  case keybagMissing = "keybag-missing"
  case keybagDamaged = "keybag-damaged"
  case keybagStale = "keybag-stale"
  case keybagSealWrong = "keybag-seal-wrong"
  case previousKeybagMissing = "keybag-previous-missing"
  case previousKeybagDamaged = "keybag-previous-damaged"
  case previousKeybagUnrelated = "keybag-previous-unrelated"
  case keybagLeftover = "keybag-leftover"
  case effaceableSecretMissing = "effaceable-secret-missing"
  case effaceableCopyDamaged = "effaceable-copy-damaged"

  // Names.
  case foreignEntry = "foreign-entry"
  case nameDamaged = "name-damaged"
  case sidecarMissing = "sidecar-missing"
  case sidecarDamaged = "sidecar-damaged"
  case orphanSidecar = "orphan-sidecar"

  // Records of files and directories.
  case directoryRecordMalformed = "directory-record-malformed"
  case directoryRecordAltered = "directory-record-altered"
  case directoryWithoutRecord = "directory-without-record"
  case emptyDirectoryWithoutRecord = "empty-directory-without-record"
  case fileRecordMalformed = "file-record-malformed"
  case fileRecordAltered = "file-record-altered"
  case fileWithoutRecord = "file-without-record"
  case emptyFileWithoutRecord = "empty-file-without-record"
  case recordVersionUnknown = "record-version-unknown"
  case classKeyUnknown = "class-key-unknown"
  case keyRevoked = "key-revoked"
  case fileKeyDamaged = "file-key-damaged"
  case rekeyPending = "rekey-pending"

  // Contents of files.
  case impossibleLength = "impossible-length"
  case lengthAltered = "length-altered"
  case contentsDamaged = "contents-damaged"
  case symbolicLinkDamaged = "symbolic-link-damaged"
  case orphanTarget = "orphan-target"
  case attributeMalformed = "attribute-malformed"
  case attributeNameDamaged = "attribute-name-damaged"
  case attributeMisplaced = "attribute-misplaced"
  case attributeValueDamaged = "attribute-value-damaged"
  case foreignAttribute = "foreign-attribute"

  // What could not be checked.
  case unreadable = "unreadable"
  case otherFileSystem = "other-file-system"

  /// The importance of a defect.
  package enum Severity: String, Sendable {
    /// Something cannot be used, or is not protected as it should be.
    case error
    /// A harmless leftover, which a mount ignores or repairs.
    case note
  }

  package var severity: Severity {
    switch self {
    case .previousKeybagMissing, .previousKeybagUnrelated, .keybagLeftover, .orphanSidecar, .orphanTarget,
      .emptyDirectoryWithoutRecord,
      .emptyFileWithoutRecord, .foreignAttribute, .keyRevoked, .rekeyPending, .effaceableCopyDamaged:
      .note
    default: .error
    }
  }

  /// What to do about a file whose record is damaged or gone.
  private static let unusableFile =
    "it is not opened, and nothing is renamed over it; put it back from a backup of the backing directory that has extended "
    + "attributes, remove it, or move it away by --repair"

  /// The meaning of the defect, for users.
  package var meaning: String {
    switch self {
    case .keybagMissing: "the keybag is missing"
    case .keybagDamaged: "the keybag is damaged, or not this store's"
    case .keybagStale:
      "the keybag is an old one, whose secret is no more; keybag.previous opens the store, and a repair or "
        + "'protectfs keybag restore' puts it in place"
    case .keybagSealWrong: "the keybag was altered by someone who has the device key, but no passcode"
    case .previousKeybagMissing: "the keybag has no second copy"
    case .previousKeybagDamaged: "the second copy of the keybag is damaged, or not this store's"
    case .previousKeybagUnrelated: "the second copy of the keybag is not the one before the last change; it is kept"
    case .keybagLeftover: "an interrupted change of the keybag left this behind"
    case .effaceableSecretMissing: "the secret that belongs to the keybag is missing, so that no class key unwraps"
    case .effaceableCopyDamaged: "one of the two copies of the effaceable secret is damaged"
    case .foreignEntry: "the name is none of the store's"
    case .nameDamaged: "the name does not open in this directory: it was altered, or moved here behind the mount's back"
    case .sidecarMissing: "the sidecar with the long name is missing"
    case .sidecarDamaged: "the sidecar does not hold the long name"
    case .orphanSidecar: "a sidecar without a file: a leftover of a crash"
    case .directoryRecordMalformed: "the directory's record is malformed, so that nothing in it has a name"
    case .directoryRecordAltered: "the directory's record was altered, so that nothing in it has a name"
    case .directoryWithoutRecord: "the directory has no record, so that nothing in it has a name"
    case .emptyDirectoryWithoutRecord: "an empty directory without a record: it is given one when it is used"
    case .fileRecordMalformed: "the file's record is malformed: \(Self.unusableFile)"
    case .fileRecordAltered: "the file's record was altered: \(Self.unusableFile)"
    case .fileWithoutRecord: "the file has contents, but no record and so no key: \(Self.unusableFile)"
    case .emptyFileWithoutRecord: "an empty file without a record: it is given one when it is written"
    case .recordVersionUnknown: "the record needs a newer protectfs"
    case .classKeyUnknown:
      "the file's key is wrapped under a class key that the keybag does not have; the keybag that has it opens the file"
    case .keyRevoked: "the file's class key was erased, reset or rotated away; 'protectfs orphans' lists such files"
    case .fileKeyDamaged: "the file's key does not unwrap"
    case .rekeyPending:
      "the file's contents are on the way to a new key: that goes on when the store is mounted and unlocked"
    case .impossibleLength: "no contents have this length"
    case .lengthAltered:
      "the file is not as long as when it was closed, or its record was altered: it is not opened, and nothing is renamed "
        + "over it; put it back from a backup, or, unless it is of class B, have its length accepted with "
        + "--repair --accept-lengths, as in a copy that was made while it was written"
    case .contentsDamaged:
      "a part of the contents cannot be read; all others can: put the file back from a backup, or copy what is left"
    case .symbolicLinkDamaged: "the symbolic link's target does not open"
    case .orphanTarget: "a long target without its symbolic link: a leftover of a crash"
    case .attributeMalformed: "an extended attribute is malformed"
    case .attributeNameDamaged: "the name of an extended attribute does not open"
    case .attributeMisplaced: "an extended attribute is stored under another one's name"
    case .attributeValueDamaged: "the value of an extended attribute does not open"
    case .foreignAttribute: "an extended attribute that is none of the store's; the mount does not show it"
    case .unreadable: "this cannot be read"
    case .otherFileSystem: "another file system is mounted here; it was not checked"
    }
  }
}
