/// What can carry a class into a call, or has it mean something to the library alone.
enum ClassCarrier: CaseIterable {
  /// A dictionary of attributes.
  case attributes
  /// Options of a write.
  case options
  /// Keys or values of resources.
  case resources
  /// A file whose class the library sets, and which can be copied.
  case file
  /// No class: the directory for the replacement of an item, which the library makes on the item's mount.
  case replacementDirectory
  /// No class: a notification of protected data, which the library posts once there is an observer.
  case notification

  /// Those that carry a class.
  static let classes: Set = [attributes, options, resources, file]

  /// What an occurrence names, if it names a class or the key of one.
  init?(of occurrence: Occurrence) {
    guard occurrence.roles.contains(.reference), !occurrence.roles.contains(.implicit) else { return nil }
    let (name, usr) = (occurrence.name, occurrence.usr)
    switch name {
    case "protectionKey" where usr.contains("FileAttributeKeyV"), "NSFileProtectionKey": self = .attributes
    case "fileProtectionKey", "NSURLFileProtectionKey": self = .resources
    // To read it out of values, there must be a call for them.
    case "fileProtection" where usr.contains("URLResourceValuesV") && occurrence.roles.contains(.write):
      self = .resources
    case _ where name.hasPrefix("NSDataWritingFileProtection"),
      _ where name.contains("FileProtection") && usr.contains("WritingOptionsV"):
      self = .options
    case _ where Self.isConstant(name) && (usr.contains("FileProtectionTypeV") || usr.hasPrefix("s:14DataProtection")),
      _ where Self.isSetter(name) && usr.contains("DataProtection"):
      self = .file
    case "itemReplacementDirectory" where usr.contains("SearchPathDirectoryO"): self = .replacementDirectory
    case _ where Self.isNotification(name) && usr.hasPrefix("s:14DataProtection"): self = .notification
    default: return nil
    }
  }

  /// Whether symbols of this name may carry a class.
  static func isWanted(_ name: String) -> Bool {
    ["protectionKey", "fileProtection", "fileProtectionKey", "itemReplacementDirectory"].contains(name)
      || name.contains("FileProtection") || isConstant(name) || isSetter(name) || isNotification(name)
  }

  /// The constants of FileProtectionType and URLFileProtection, and their names in Objective-C.
  private static func isConstant(_ name: String) -> Bool {
    constants.contains(name) || ["NSFileProtection", "NSURLFileProtection"].contains { name.hasPrefix($0) }
  }

  private static func isSetter(_ name: String) -> Bool { setters.contains { name.hasPrefix($0) } }

  private static func isNotification(_ name: String) -> Bool {
    name.hasPrefix("protectedData") && name.hasSuffix("Notification") || name.hasPrefix("UIApplicationProtectedData")
  }

  private static let constants: Set = [
    "none", "complete", "completeUnlessOpen", "completeUntilFirstUserAuthentication", "completeWhenUserInactive",
  ]
  private static let setters = ["setProtection(", "prepareDatabase(", "create(protection:", "init(creatingFileAt:"]
}
