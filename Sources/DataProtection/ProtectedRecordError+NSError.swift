import Foundation

// Foundation on Linux makes an NSError only of errors that are bridged. With any other, `catch let error as NSError`
// does not catch, though the compiler takes it to catch all, and the program ends.
extension ProtectedRecordError: _ObjectiveCBridgeable {
  // swift-format-ignore: AllPublicDeclarationsHaveDocumentation, NoLeadingUnderscores
  public func _bridgeToObjectiveC() -> NSError {
    NSError(domain: Self.errorDomain, code: errorCode, userInfo: userInfo)
  }

  // swift-format-ignore: AllPublicDeclarationsHaveDocumentation, NoLeadingUnderscores
  public static func _forceBridgeFromObjectiveC(_ source: NSError, result: inout ProtectedRecordError?) {
    result = _unconditionallyBridgeFromObjectiveC(source)
  }

  // swift-format-ignore: AllPublicDeclarationsHaveDocumentation, NoLeadingUnderscores
  public static func _conditionallyBridgeFromObjectiveC(
    _ source: NSError, result: inout ProtectedRecordError?
  ) -> Bool {
    result = ProtectedRecordError(source)
    return result != nil
  }

  // swift-format-ignore: AllPublicDeclarationsHaveDocumentation, NoLeadingUnderscores
  public static func _unconditionallyBridgeFromObjectiveC(_ source: NSError?) -> ProtectedRecordError {
    source.flatMap { ProtectedRecordError($0) } ?? ProtectedRecordError(.unknownItem, URL(fileURLWithPath: "/"))
  }

  private init?(_ error: NSError) {
    guard error.domain == Self.errorDomain, let url = error.userInfo[NSURLErrorKey] as? URL else { return nil }
    self.init(
      Code(rawValue: error.code), url,
      userDidResetEncryptedData: error.userInfo[Self.userDidResetEncryptedDataKey] != nil,
      error.userInfo[NSUnderlyingErrorKey] as? any Error)
  }
}

extension ProtectedRecordError {
  /// ``Code/unknownItem``, for `catch ProtectedRecordError.unknownItem`.
  public static var unknownItem: Code { .unknownItem }
  /// ``Code/zoneNotFound``, for `catch ProtectedRecordError.zoneNotFound`.
  public static var zoneNotFound: Code { .zoneNotFound }
}

extension ProtectedRecordError.Code {
  /// Whether an error is a ``ProtectedRecordError`` of this code.
  public static func ~= (code: Self, error: any Error) -> Bool {
    (error as? ProtectedRecordError)?.code == code
  }
}
