import Foundation

// The module's other file has the import, which is enough.
func other(_ data: Data, at url: URL) throws {
  try data.write(to: url, options: .completeFileProtection)
}
