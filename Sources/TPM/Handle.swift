import CTSS2

/// An object or a session in the TPM, as libtss2 numbers it; flushed from the TPM when the value ends (TPM2_FlushContext).
///
/// It must end before the ``TPM`` that it belongs to.
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
    // What cannot be flushed is gone with the connection, where a resource manager is behind it.
    if isPersistent {
      var number = number
      _ = unsafe Esys_TR_Close(context, &number)
    } else {
      _ = unsafe Esys_FlushContext(context, number)
    }
  }
}
