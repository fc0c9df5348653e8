import CTSS2

/// An object or a session in the TPM, by libtss2's number. It is flushed from the TPM when the value is destroyed
/// (TPM2_FlushContext).
///
/// The value must be destroyed before the ``TPM`` that it belongs to.
@safe struct Handle: ~Copyable {
  private let context: OpaquePointer
  private let isPersistent: Bool
  let number: ESYS_TR

  init(_ number: ESYS_TR, in tpm: borrowing TPM, isPersistent: Bool = false) {
    unsafe context = unsafe tpm.context
    self.number = number
    self.isPersistent = isPersistent
  }

  deinit {
    // If flushing fails, a resource manager flushes it at the end of the connection.
    if isPersistent {
      var number = number
      _ = unsafe Esys_TR_Close(context, &number)
    } else {
      _ = unsafe Esys_FlushContext(context, number)
    }
  }
}
