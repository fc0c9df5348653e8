import ProtectfsIO
import SystemPackage

/// Contents in data units, encrypted with AES-256-XTS: confidential, but not authenticated.
final class UnitContents: FileContents {
  let backing: BackingFile

  init(_ backing: BackingFile) { self.backing = backing }

  var ciphertextEnd: UInt64 { DataUnits.blockEnd(of: length) }
}
