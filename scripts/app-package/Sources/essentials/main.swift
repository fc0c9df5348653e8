import DataProtectionEssentials
import FoundationEssentials

let url = URL(fileURLWithPath: CommandLine.arguments.last!)
do {
  try Data("a note".utf8).write(to: url, options: [.atomic, .completeFileProtection])
  print(try FileManager.default.protection(ofItemAt: url).rawValue)
} catch {
  print(ProtectedDataError(diagnosing: error)?.errorDescription ?? "\(error)")
}
