import CTSS2
import Glibc

/// The connection to a TPM: a TPM command transmission interface (TCTI) of libtss2, found by its name.
@safe struct Transport: ~Copyable {
  /// The kernel's resource manager, which separates users of the TPM (tpm(4)).
  static let standard = "device:/dev/tpmrm0"
  /// The environment variable that names another TCTI, for tests. Ignored by a program that has more rights than its
  /// caller.
  static let variable = "PROTECTFS_TCTI"

  let context: OpaquePointer

  /// Opens the TCTI with a name such as `device:/dev/tpmrm0` or `swtpm:path=/run/socket`
  /// (`Tss2_TctiLdr_Initialize(3)`). Without a name, uses that in ``variable``, otherwise ``standard``. Throws
  /// ``TPMError/unavailable(_:)``.
  init(_ name: String?) throws(TPMError) {
    Self.silence
    let name = name ?? Self.nameInEnvironment ?? Self.standard
    let device = "device:"
    if name.hasPrefix(device) { try Self.checkAccess(to: String(name.dropFirst(device.count))) }
    var context: OpaquePointer?
    let response = Response(unsafe Tss2_TctiLdr_Initialize(name, &context))
    guard response.isSuccess, let context = unsafe context else {
      throw .unavailable("\(name) cannot be opened (\(response.text))")
    }
    unsafe self.context = context
  }

  deinit {
    var context: OpaquePointer? = unsafe context
    unsafe Tss2_TctiLdr_Finalize(&context)
  }

  /// By default, libtss2 writes failures to standard error, with parameters. This must be set before its first use.
  private static let silence: Void = {
    unsafe setenv("TSS2_LOG", "all+NONE", 0)
  }()

  private static var nameInEnvironment: String? {
    guard getuid() == geteuid(), getgid() == getegid(), let value = unsafe getenv(variable), unsafe value.pointee != 0
    else { return nil }
    return unsafe String(cString: value)
  }

  /// libtss2 reports only the failure; errno shows what the user can do.
  private static func checkAccess(to path: String) throws(TPMError) {
    guard unsafe faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) != 0 else { return }
    switch errno {
    case ENOENT, ENOTDIR, ENXIO, ENODEV:
      throw .unavailable("there is no \(path): the machine has no TPM 2.0, or its firmware has it turned off")
    case EACCES, EPERM:
      throw .unavailable("\(path) may not be opened by this user: add it to the group that owns the device, often tss")
    case let code:
      throw .unavailable("\(path) cannot be opened (\(unsafe String(cString: strerror(code))))")
    }
  }
}
