import DataProtection
import Foundation

// What names no class, and means something to the library alone.

func replace(_ url: URL) throws {
  let files = FileManager.default
  _ = try files.url(for: .itemReplacementDirectory, in: .userDomainMask, appropriateFor: url, create: true)
  let locate = files.url(for:in:appropriateFor:create:)  // may lose: value
  _ = locate
}

func replaceAll(_ urls: [URL]) async throws {
  let files = FileManager.default
  try urls.forEach {
    _ = try files.url(  // may lose: call
      for: .itemReplacementDirectory, in: .userDomainMask, appropriateFor: $0, create: true)
  }
  try urls.forEach {
    _ = try files.url(for: .cachesDirectory, in: .userDomainMask, appropriateFor: $0, create: true)
  }
}

func observe(_ centers: [NotificationCenter]) async {
  let name = UIApplication.protectedDataDidBecomeAvailableNotification
  for center in centers { _ = center.addObserver(forName: name, object: nil, queue: nil) { _ in } }
  centers.forEach {
    _ = $0.addObserver(  // loses: call
      forName: UIApplication.protectedDataDidBecomeAvailableNotification, object: nil, queue: nil
    ) { _ in }
  }
  centers.forEach { _ = $0.addObserver(forName: .init("other"), object: nil, queue: nil) { _ in } }
}
