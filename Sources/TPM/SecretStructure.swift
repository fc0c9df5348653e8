import CTSS2
import Cryptography

/// A structure of libtss2 that contains a secret, initially zeros. It is in memory for secrets, and wiped like them.
struct SecretStructure<Value: BitwiseCopyable>: ~Copyable {
  private var bytes = SecretBytes(count: MemoryLayout<Value>.size)

  /// Calls `body` with the structure, to fill it in or pass it to libtss2. `body` must not copy it as a value, which
  /// would leave its bytes on the stack.
  mutating func withPointer<Result, Failure: Error>(
    _ body: (UnsafeMutablePointer<Value>) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try unsafe bytes.withMutableBytes { (buffer) throws(Failure) in
      guard let base = buffer.baseAddress else { preconditionFailure("secret bytes have an address") }
      return try unsafe body(base.bindMemory(to: Value.self, capacity: 1))
    }
  }
}

extension SecretStructure<TPM2B_AUTH> {
  /// An authorization value. The empty value stands for none (TPM2B_AUTH, TPM 2.0 Library, part 2, section 10.4.5).
  init(_ authorization: borrowing SecretBytes) throws(TPMError) {
    guard TPM.authorizationLengths.contains(authorization.count) else { throw .invalidLength("an authorization") }
    self.init()
    unsafe withPointer { unsafe $0.pointee.fill(with: authorization) }
  }
}

extension SecretStructure<TPM2B_SENSITIVE_CREATE> {
  /// The sensitive part of a new object: its authorization value and the data to seal (part 2, section 11.1.16).
  init(_ secret: borrowing SecretBytes) throws(TPMError) {
    guard TPM.secretLengths.contains(secret.count) else { throw .invalidLength("a secret to be sealed") }
    self.init()
    unsafe withPointer { unsafe $0.pointee.sensitive.data.fill(with: secret) }
  }

  /// Gives the object an authorization value.
  mutating func authorize(with authorization: borrowing SecretBytes) throws(TPMError) {
    guard TPM.authorizationLengths.contains(authorization.count) else { throw .invalidLength("an authorization") }
    unsafe withPointer { unsafe $0.pointee.sensitive.userAuth.fill(with: authorization) }
  }
}

extension TPM2B_AUTH {
  /// Copies the bytes of a secret into this structure in place.
  fileprivate mutating func fill(with secret: borrowing SecretBytes) {
    size = UInt16(secret.count)
    unsafe withUnsafeMutableBytes(of: &buffer) { buffer in
      unsafe secret.withBytes { unsafe buffer.copyMemory(from: $0) }
    }
  }
}

extension TPM2B_SENSITIVE_DATA {
  /// Copies the bytes of a secret into this structure in place.
  fileprivate mutating func fill(with secret: borrowing SecretBytes) {
    size = UInt16(secret.count)
    unsafe withUnsafeMutableBytes(of: &buffer) { buffer in
      unsafe secret.withBytes { unsafe buffer.copyMemory(from: $0) }
    }
  }
}
