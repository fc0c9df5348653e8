/// A method of Foundation that accepts or returns a protection class on iOS, and ignores it on Linux.
struct FileMethod {
  /// Where the class is.
  enum Carrier: Hashable {
    /// In a dictionary that is the argument of this label, or the first that has none.
    case attributes(label: String?)
    /// In the argument `options`.
    case options
    /// Under a key of resources that is in the argument of this label, or in the first that has none.
    case resourceKeys(label: String?)
    /// The same, to read it.
    case resourceReading(label: String?)
    /// In the dictionary that is returned.
    case result
    /// With the file that is copied.
    case file
    /// With the file that is moved, perhaps to a place that is no mount.
    case movedFile
    /// There is none, but the argument of this label names what Foundation knows nothing of.
    case named(ClassCarrier, label: String)
  }

  let name: String
  /// How the unified symbol resolution of the method starts: with its type. Swift 6 has moved types to
  /// FoundationEssentials.
  let types: [String]
  let carrier: Carrier

  var baseName: Substring { name.prefix { $0 != "(" } }
  /// Nil for an argument that has none.
  var labels: [Substring?] {
    name.dropFirst(baseName.count + 1).dropLast().split(separator: ":").map { $0 == "_" ? nil : $0 }
  }

  static let all: [FileMethod] = [
    ofFileManager("setAttributes(_:ofItemAtPath:)", .attributes(label: nil)),
    ofFileManager("createFile(atPath:contents:attributes:)", .attributes(label: "attributes")),
    ofFileManager("createDirectory(at:withIntermediateDirectories:attributes:)", .attributes(label: "attributes")),
    ofFileManager("createDirectory(atPath:withIntermediateDirectories:attributes:)", .attributes(label: "attributes")),
    ofFileManager("attributesOfItem(atPath:)", .result),
    ofFileManager("copyItem(at:to:)", .file),
    ofFileManager("copyItem(atPath:toPath:)", .file),
    ofFileManager("moveItem(at:to:)", .movedFile),
    ofFileManager("moveItem(atPath:toPath:)", .movedFile),
    ofFileManager("replaceItem(at:withItemAt:backupItemName:options:)", .file),
    ofFileManager("replaceItemAt(_:withItemAt:backupItemName:options:)", .file),
    ofFileManager("url(for:in:appropriateFor:create:)", .named(.replacementDirectory, label: "for")),
    ofNotificationCenter("addObserver(forName:object:queue:using:)", .named(.notification, label: "forName")),
    ofData("write(to:options:)"),
    ofData("write(toFile:options:)"),
    ofURL("resourceValues(forKeys:)", .resourceReading(label: "forKeys")),
    ofURL("getResourceValue(_:forKey:)", .resourceReading(label: "forKey")),
    ofURL("setResourceValue(_:forKey:)", .resourceKeys(label: "forKey")),
    ofURL("setResourceValues(_:)", .resourceKeys(label: nil)),
  ]

  static let byName = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })

  private static func ofFileManager(_ name: String, _ carrier: Carrier) -> FileMethod {
    let types = ["s:20FoundationEssentials11FileManagerC", "s:10Foundation11FileManagerC"]
    return FileMethod(name: name, types: types, carrier: carrier)
  }

  private static func ofNotificationCenter(_ name: String, _ carrier: Carrier) -> FileMethod {
    let types = ["s:20FoundationEssentials18NotificationCenterC", "s:10Foundation18NotificationCenterC"]
    return FileMethod(name: name, types: types, carrier: carrier)
  }

  private static func ofData(_ name: String) -> FileMethod {
    let types = [
      "s:20FoundationEssentials4DataV", "s:10Foundation4DataV", "s:10Foundation6NSDataC",
      "s:10Foundation13NSMutableDataC",
    ]
    return FileMethod(name: name, types: types, carrier: .options)
  }

  private static func ofURL(_ name: String, _ carrier: Carrier) -> FileMethod {
    let types = ["s:20FoundationEssentials3URLV", "s:10Foundation3URLV", "s:10Foundation5NSURLC"]
    return FileMethod(name: name, types: types, carrier: carrier)
  }

  /// Whether a symbol of the method's name is a member of its type: Foundation's, if no module that was compiled
  /// defines it.
  func isMember(_ usr: String) -> Bool { types.contains { usr.hasPrefix($0) } }
}

/// Tells Foundation's methods from others of their names.
struct FoundationSymbols {
  /// The symbols that modules define which were compiled, and so are not Foundation's.
  let defined: Set<String>

  /// The method that an occurrence names, if it is Foundation's.
  func method(_ occurrence: Occurrence) -> FileMethod? {
    guard let method = FileMethod.byName[occurrence.name], method.isMember(occurrence.usr) else { return nil }
    return defined.contains(occurrence.usr) ? nil : method
  }

  /// Whether it is a call by way of a property that DataProtection has in the place of Foundation's method.
  func isShadow(_ occurrence: Occurrence) -> Bool {
    occurrence.name.hasPrefix("callAsFunction(") && FileMethod.all.contains { $0.isMember(occurrence.usr) }
  }

  /// Conformances that leave a requirement to Foundation's method: the compiler writes the method in there.
  func witnesses(in file: ScannedFile) -> [(Occurrence, FileMethod)] {
    file.occurrences.compactMap { occurrence in
      guard occurrence.roles.isSuperset(of: [.implicit, .overrideOf]) else { return nil }
      return method(occurrence).map { (occurrence, $0) }
    }
  }
}
