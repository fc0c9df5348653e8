// The screen of the notes app: a line for what is touched, a line for what is shown.
import DataProtection
import Foundation

func show(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

/// What a person would be told.
func describe(_ error: any Error) -> String {
  switch error {
  case CocoaError.fileReadNoPermission: "locked: cannot be read"
  case CocoaError.fileWriteNoPermission: "locked: cannot be saved"
  case CocoaError.fileReadNoSuchFile: "there is none"
  default: "failed: \(error)"
  }
}

func perform(_ words: [String], _ store: NoteStore, _ library: NoteLibrary) throws -> String {
  let (action, title, text) = (words[0], words.count > 1 ? words[1] : "", words.count > 2 ? words[2] : "")
  switch action {
  case "save": try store.save(text, as: title)
  case "draft": try store.saveDraft(text, as: title)
  case "picture": return store.savePicture(Data(text.utf8), as: title) ? "done" : "failed"
  case "setting": try store.saveSettings([title: text])
  case "read": return try store.text(of: title)
  case "read-draft": return try store.draftText(of: title)
  case "read-setting": return try store.settingsValues()[title] ?? "there is none"
  case "titles": return try store.titles().joined(separator: " ")
  case "shown": return library.shown.keys.sorted().joined(separator: " ")
  case "available": return "\(UIApplication.shared.isProtectedDataAvailable)"
  case "protect-all": try store.protectAll(FileProtectionType(rawValue: title))
  case "class":
    let file = store.directory.appendingPathComponent(title)
    let (attribute, value) = try store.protection(of: file)
    return "\(attribute?.rawValue ?? "none") \(value?.rawValue ?? "none")"
  default: return "what?"
  }
  return "done"
}

do {
  let store = try NoteStore(directory: URL(fileURLWithPath: CommandLine.arguments[1], isDirectory: true))
  let library = NoteLibrary(store: store) { show("# \($0)") }
  Thread.detachNewThread {
    while let line = readLine() {
      let words = line.split(separator: " ", maxSplits: 2).map(String.init)
      do {
        show(try perform(words, store, library))
      } catch {
        show(describe(error))
      }
    }
    exit(0)
  }
  // What UIApplicationMain does on iOS: notifications are posted on the main queue.
  RunLoop.main.run()
} catch {
  show(describe(error))
}
