import Cryptography
import ProtectfsIO
import ProtectfsPolicy
import StoreCheck
import StoreFormat
import SystemPackage
import Testing

// Defects of directories, files, links and extended attributes. Their names are intact.
extension PlantedDefect {
  // MARK: Directories

  private static func tree(in store: BuiltStore) throws -> BuiltStore.Folder {
    let folder = try store.makeDirectory("tree")
    try store.makeFile("leaf", in: folder)
    return folder
  }

  static let directories = [
    PlantedDefect(name: "cut off", defect: .directoryRecordMalformed, repair: .moved) { store in
      let folder = try tree(in: store)
      try store.setRecord(Array(store.directoryRecord(folder.identifier).dropLast()), of: folder.backingPath)
      return (folder.backingPath, folder.plainPath)
    },
    PlantedDefect(name: "another ID", defect: .directoryRecordAltered, repair: .moved) { store in
      let folder = try tree(in: store)
      var record = try store.directoryRecord(folder.identifier)
      record[8] ^= 1
      try store.setRecord(record, of: folder.backingPath)
      return (folder.backingPath, folder.plainPath)
    },
    PlantedDefect(name: "of the root", defect: .directoryRecordAltered, repair: .left) { store in
      var record = try store.directoryRecord(store.root.identifier)
      record[39] ^= 1
      try store.setRecord(record, of: "")
      return ("/", "/")
    },
    PlantedDefect(name: "removed", defect: .directoryWithoutRecord, repair: .moved) { store in
      let folder = try tree(in: store)
      try PathName(store.path + folder.backingPath).removeAttribute(PathName(DirectoryRecord.attributeName))
      return (folder.backingPath, folder.plainPath)
    },
    PlantedDefect(name: "mkdir cut short", defect: .emptyDirectoryWithoutRecord, repair: .left) { store in
      let item = try store.place("new", in: store.root)
      try store.makePlainDirectory(item.backingPath)
      return (item.backingPath, item.plainPath)
    },
    PlantedDefect(name: "of a directory", defect: .recordVersionUnknown, repair: .left) { store in
      let folder = try tree(in: store)
      try store.setRecord([2, 0, 0, 0], of: folder.backingPath)
      return (folder.backingPath, folder.plainPath)
    },
  ]

  // MARK: Files

  private static func file(
    _ store: BuiltStore, _ fileClass: ProtectionClass = .standard, _ change: (inout FileRecord) throws -> [UInt8]
  ) throws -> (String, String?) {
    let item = try store.makeFile("file", fileClass: fileClass)
    var record = try store.fileRecord(FileKey(), fileClass)
    try store.setRecord(change(&record), of: item.backingPath)
    return (item.backingPath, item.plainPath)
  }

  static let files = [
    PlantedDefect(name: "the key before", defect: .fileKeyDamaged, repair: .left) { store in
      try file(store, .none) { record in
        record = try store.pending(record, damage: 1)
        return try store.tagged(record).bytes
      }
    },
    PlantedDefect(name: "cut off", defect: .fileRecordMalformed, repair: .moved) { store in
      try file(store) { Array($0.bytes.dropLast()) }
    },
    PlantedDefect(name: "an unknown class", defect: .fileRecordMalformed, repair: .moved) { store in
      try file(store) { [1, 9] + $0.bytes.dropFirst(2) }
    },
    PlantedDefect(name: "a weaker class", defect: .fileRecordAltered, repair: .moved) { store in
      try file(store, .complete) { [1, ProtectionClass.none.rawValue] + $0.bytes.dropFirst(2) }
    },
    PlantedDefect(name: "removed", defect: .fileWithoutRecord, repair: .moved) { store in
      let item = try store.makeFile("file")
      try PathName(store.path + item.backingPath).removeAttribute(PathName(FileRecord.attributeName))
      return (item.backingPath, item.plainPath)
    },
    PlantedDefect(name: "create cut short", defect: .emptyFileWithoutRecord, repair: .left) { store in
      let item = try store.place("new", in: store.root)
      try store.write([], to: item.backingPath)
      return (item.backingPath, item.plainPath)
    },
    PlantedDefect(name: "of a file", defect: .recordVersionUnknown, repair: .left) { store in
      try file(store) { [2] + $0.bytes.dropFirst() }
    },
    PlantedDefect(name: "one byte", defect: .impossibleLength, repair: .moved) { store in
      let item = try store.makeFile("file", [1])
      return (item.backingPath, item.plainPath)
    },
    PlantedDefect(name: "fifteen bytes", defect: .impossibleLength, repair: .moved) { store in
      let item = try store.makeFile(longName, [UInt8](repeating: 1, count: 15))
      return (item.backingPath, item.plainPath)
    },
  ]

  static let keys =
    ProtectionClass.allCases.flatMap { fileClass in
      [
        PlantedDefect(
          name: "class \(fileClass.letter)", defect: .fileKeyDamaged, repair: .left, needsPasscode: fileClass != .none
        ) { store in
          try file(store, fileClass) { record in
            record.wrappedKey[record.wrappedKey.count - 1] ^= 1
            return try store.tagged(record).bytes
          }
        },
        PlantedDefect(name: "class \(fileClass.letter)", defect: .rekeyPending, repair: .left) { store in
          try file(store, fileClass) { record in
            record = try store.pending(record)
            return try store.tagged(record).bytes
          }
        },
        PlantedDefect(name: "class \(fileClass.letter)", defect: .keyRevoked, repair: .left) { store in
          let place = try file(store, fileClass) { record in try store.tagged(record).bytes }
          try store.rotateAway(fileClass, but: place.0)
          return place
        },
        PlantedDefect(name: "class \(fileClass.letter)", defect: .classKeyUnknown, repair: .left) { store in
          try file(store, fileClass) { record in
            record.classKeyID = try #require(ClassKeyID(rawValue: ~record.classKeyID.rawValue))
            return try store.tagged(record).bytes
          }
        },
      ]
    }

  // MARK: Symbolic links

  static let links = [
    PlantedDefect(name: "plain text", defect: .symbolicLinkDamaged, repair: .moved) { store in
      let item = try store.makeSymbolicLink("broken", text: Array("/etc/passwd".utf8))
      return (item.backingPath, item.plainPath)
    },
    PlantedDefect(name: "a changed letter", defect: .symbolicLinkDamaged, repair: .moved) { store in
      var text = try store.linkText("target")
      text[0] = text[0] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
      let item = try store.makeSymbolicLink("broken", text: text)
      return (item.backingPath, item.plainPath)
    },
    PlantedDefect(name: "its target file removed", defect: .symbolicLinkDamaged, repair: .moved) { store in
      let target = try store.makeTargetFile(String(repeating: "t", count: 4095))
      try store.remove(target.place)
      let item = try store.makeSymbolicLink("broken", text: target.text)
      return (item.backingPath, item.plainPath)
    },
    PlantedDefect(name: "its target file cut off", defect: .symbolicLinkDamaged, repair: .moved) { store in
      let target = try store.makeTargetFile(String(repeating: "t", count: 4095))
      try store.write(Array(store.read(target.place).dropLast()), to: target.place)
      let item = try store.makeSymbolicLink("broken", text: target.text)
      return (item.backingPath, item.plainPath)
    },
    PlantedDefect(name: "its link removed", defect: .orphanTarget, repair: .moved) { store in
      (try store.makeTargetFile(String(repeating: "t", count: 3056)).place, nil)
    },
    PlantedDefect(name: "a foreign file", defect: .orphanTarget, repair: .moved) { store in
      try store.write(Array("mine".utf8), to: "/.protectfs/targets/notes.txt")
      return ("/.protectfs/targets/notes.txt", nil)
    },
  ]

  // MARK: Extended attributes

  private static func attribute(
    _ store: BuiltStore, _ change: (BuiltStore.Folder) throws -> (name: String, value: [UInt8])
  ) throws -> (String, String?) {
    let folder = try store.makeDirectory("attributes of a folder")
    let (name, value) = try change(folder)
    try store.setAttribute(name, to: value, of: folder.backingPath)
    return (folder.backingPath, folder.plainPath)
  }

  static let attributes = [
    PlantedDefect(name: "cut off", defect: .attributeMalformed, repair: .moved) { store in
      try attribute(store) { _ in
        (try store.attribute("user.a", cipher: store.volume.directoryAttributes).name, [6, 1, 2, 3])
      }
    },
    PlantedDefect(name: "a changed byte", defect: .attributeNameDamaged, repair: .moved) { store in
      try attribute(store) { _ in
        var (name, value) = try store.attribute("user.a", cipher: store.volume.directoryAttributes)
        value[1] ^= 1
        return (name, value)
      }
    },
    PlantedDefect(name: "another's place", defect: .attributeMisplaced, repair: .moved) { store in
      try attribute(store) { folder in
        let cipher = store.volume.directoryAttributes
        let other = try store.attribute("user.b", cipher: cipher).name
        return (other, try store.attribute("user.a", cipher: cipher, associatedData: folder.identifier).value)
      }
    },
    PlantedDefect(name: "of another directory", defect: .attributeValueDamaged, repair: .moved) { store in
      try attribute(store) { _ in
        try store.attribute(
          "user.a", cipher: store.volume.directoryAttributes, associatedData: [UInt8](repeating: 1, count: 16))
      }
    },
    PlantedDefect(name: "of another file", defect: .attributeValueDamaged, repair: .moved, needsPasscode: true) {
      store in
      let item = try store.makeFile("file", fileClass: .complete)
      let (name, value) = try store.attribute("user.a", cipher: FileKey().attributeCipher())
      try store.setAttribute(name, to: value, of: item.backingPath)
      return (item.backingPath, item.plainPath)
    },
    PlantedDefect(name: "in plain", defect: .foreignAttribute, repair: .left) { store in
      try attribute(store) { _ in ("user.note", Array("plain".utf8)) }
    },
  ]
}
