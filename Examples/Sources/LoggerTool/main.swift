// The background logger as a program: logs the lines of its input, and merges the log after each unlock.
//
//   LoggerTool DIRECTORY
//
// It says each record when it is written, and each merge.
import BackgroundLogger
import Foundation

guard CommandLine.arguments.count == 2 else {
  FileHandle.standardError.write(Data("usage: LoggerTool DIRECTORY\n".utf8))
  exit(64)
}

func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

do {
  let logger = try BackgroundLogger(directory: URL(fileURLWithPath: CommandLine.arguments[1]))
  Task.detached {
    await logger.mergeAfterUnlocks { result in
      switch result {
      case .success: say("merged")
      case .failure(let error): say("not merged: \(error)")
      }
    }
  }
  while let line = readLine() {
    let record = try logger.append(line)
    say("logged \(record.id.number) \(line)")
  }
} catch {
  FileHandle.standardError.write(Data("\(error)\n".utf8))
  exit(1)
}
