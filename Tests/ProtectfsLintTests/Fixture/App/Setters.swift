import DataProtection
import Foundation

func setter(_ url: URL, _ type: FileProtectionType) throws {
  try FileManager.default.setProtection(type, ofItemAt: url)
}
