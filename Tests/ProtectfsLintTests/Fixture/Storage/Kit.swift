import DataProtectionKit
import Foundation

func kit(_ data: Data, at url: URL) throws {
  try data.write(to: url, options: .completeFileProtection)  // loses: call
}
