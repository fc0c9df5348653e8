import DataProtection
import Foundation

// Where a call is the only expression of a closure that is not async, in an async function, it is Foundation's.

func closures(_ data: Data, at url: URL, _ urls: [URL]) async throws {
  try await Task { try data.write(to: url, options: .completeFileProtection) }.value  // loses: call
  try urls.forEach { try data.write(to: $0, options: .completeFileProtection) }  // loses: call
  let manager = FileManager.default
  let attributes: [FileAttributeKey: Any] = [.protectionKey: FileProtectionType.complete]
  try await MainActor.run { try manager.setAttributes(attributes, ofItemAtPath: "/") }  // may lose: call
}

func otherClosures(_ data: Data, at url: URL, _ urls: [URL]) async throws {
  try data.write(to: url, options: .completeFileProtection)
  try await Task {
    let copy = url
    try data.write(to: copy, options: .completeFileProtection)
  }.value
  try await Task { () async throws -> Void in try data.write(to: url, options: .completeFileProtection) }.value
  try urls.forEach { try data.write.callAsFunction(to: $0, options: .completeFileProtection) }
}

func otherFunction(_ data: Data, at urls: [URL]) throws {
  try urls.forEach { try data.write(to: $0, options: .completeFileProtection) }
}
