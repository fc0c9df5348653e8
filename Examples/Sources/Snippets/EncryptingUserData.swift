import DataProtection
import Foundation

// What code written from CloudKit's "Encrypting User Data" does. Beside the import, ProtectedRecord stands for CKRecord.
enum EncryptingUserData {
  static func fill(_ record: ProtectedRecord) {
    record.encryptedValues["author"] = "Ana"
    record.encryptedValues["pages"] = 12
    record.encryptedValues["size"] = Int64(1) << 40
    record.encryptedValues["weight"] = 2.5 as Float
    record.encryptedValues["sent"] = true
    record.encryptedValues["date"] = Date(timeIntervalSince1970: 1_000_000_000)
    record.encryptedValues["seal"] = Data([1, 2, 3])
    record.encryptedValues["tags"] = ["a", "b"]
    record.encryptedValues["title"] = NSString(string: "Letter")
    record.encryptedValues["stamps"] = NSNumber(value: 3)
    record.encryptedValues["image"] = NSData(data: Data([4]))
    record.encryptedValues["written"] = NSDate(timeIntervalSince1970: 1)
    record.encryptedValues["places"] = NSArray(array: ["Bonn"])
    record.encryptedValues["draft"] = nil
  }

  static func author(of record: ProtectedRecord) -> String? {
    record.encryptedValues["author"] as? String
  }

  static func tags(of record: ProtectedRecord) -> [String] {
    record.encryptedValues["tags"] as? [String] ?? []
  }

  static func keys(of record: ProtectedRecord) -> [String] { record.encryptedValues.allKeys() }
}
