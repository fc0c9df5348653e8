import Foundation

// The module's other files have the import, which is enough but for the closure.
func closure(_ data: Data, at url: URL) async throws {
  try data.write(to: url, options: .completeFileProtection)
  try await Task { try data.write(to: url, options: .completeFileProtection) }.value  // loses: call
}
