import Foundation

extension ProtectedDataError: CustomNSError {
  /// `ProtectedDataErrorDomain`
  public static let errorDomain = "ProtectedDataErrorDomain"

  /// Foundation's code, so that code that compares codes keeps working.
  public var errorCode: Int { cocoaError.code.rawValue }

  /// Contains Foundation's error as the underlying one.
  public var errorUserInfo: [String: Any] {
    [NSURLErrorKey: url, NSUnderlyingErrorKey: cocoaError, NSLocalizedDescriptionKey: errorDescription ?? ""]
  }
}
