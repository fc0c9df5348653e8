import Foundation

func copy(_ url: URL) throws {
  _ = try FileManager.default.replaceItemAt(url, withItemAt: url)  // may lose: call
}
