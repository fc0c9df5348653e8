#if canImport(UIKit)
  import UIKit
#else
  import DataProtection
#endif

// A file that had no other import than that of UIKit.
final class ProtectedText: @unchecked Sendable {
  private let url: URL
  private(set) var text: String?

  init(_ url: URL) {
    self.url = url
    _ = NotificationCenter.default.addObserver(
      forName: UIApplication.protectedDataWillBecomeUnavailableNotification, object: nil, queue: nil
    ) { [weak self] _ in self?.text = nil }
  }

  func save(_ text: String) throws {
    try Data(text.utf8).write(to: url, options: [.atomic, .completeFileProtection])
    self.text = text
  }
}
