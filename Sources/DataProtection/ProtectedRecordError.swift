import Foundation

/// Why a record could not be read or saved, in the form in which CloudKit says it.
///
/// ```swift
/// do {
///   try zone.save(record)
/// } catch let error as ProtectedRecordError where error.code == .zoneNotFound {
///   if error.userInfo[ProtectedRecordError.userDidResetEncryptedDataKey] != nil {
///     // The keys are gone: recreate the zone, and save again what is cached.
///   } else {
///     // Somebody has deleted the zone: ask before it is created again.
///   }
/// }
/// ```
public struct ProtectedRecordError: Error, CustomNSError, LocalizedError, Sendable {
  /// What happened. The raw values are those of `CKError.Code`.
  public struct Code: RawRepresentable, Hashable, Sendable {
    /// The number.
    public let rawValue: Int

    /// The code with a number.
    public init(rawValue: Int) {
      self.rawValue = rawValue
    }

    /// The zone has no such record.
    public static let unknownItem = Code(rawValue: 11)
    /// The zone does not exist; or its records cannot be read again, if there is an entry
    /// ``ProtectedRecordError/userDidResetEncryptedDataKey``.
    public static let zoneNotFound = Code(rawValue: 26)
  }

  /// What happened.
  public let code: Code
  /// The zone, or the record's fields.
  public let url: URL
  /// More about it, as Foundation's errors have it.
  public var userInfo: [String: Any] { errorUserInfo }

  let isReset: Bool
  private let underlying: (any Error)?

  init(_ code: Code, _ url: URL, userDidResetEncryptedData isReset: Bool = false, _ underlying: (any Error)? = nil) {
    self.code = code
    self.url = url
    self.isReset = isReset
    self.underlying = underlying
  }

  /// The key of an entry in ``userInfo``: the keys of the zone's class were erased or reset. Stands for
  /// `CKErrorUserDidResetEncryptedDataKey`.
  public static let userDidResetEncryptedDataKey = "ProtectedRecordErrorUserDidResetEncryptedData"

  /// `ProtectedRecordErrorDomain`
  public static let errorDomain = "ProtectedRecordErrorDomain"

  /// The number of the ``code-swift.property``.
  public var errorCode: Int { code.rawValue }

  /// The same as ``userInfo``.
  public var errorUserInfo: [String: Any] {
    var information: [String: Any] = [NSURLErrorKey: url, NSLocalizedDescriptionKey: errorDescription ?? ""]
    if isReset { information[Self.userDidResetEncryptedDataKey] = true }
    information[NSUnderlyingErrorKey] = underlying
    return information
  }

  /// A sentence that says what happened.
  public var errorDescription: String? {
    let path = url.path(percentEncoded: false)
    if code == .unknownItem { return "There is no record \(path)." }
    return isReset
      ? "The class key of the records in \(path) is no more; only copies from elsewhere bring them back."
      : "There is no zone \(path)."
  }
}
