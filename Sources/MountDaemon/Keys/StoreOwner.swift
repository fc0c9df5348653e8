import Cryptography
import KeyManagement
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy

/// Who has a store, and so changes its keys: the daemon that may write it, or this process alone.
package enum StoreOwner {
  case daemon(MountedFileSystem)
  /// The path of the backing directory.
  case nobody(String)

  /// Finds out, from the canonical path of the backing directory or of anything on the mount.
  ///
  /// - Throws: `failed` for a path on the mount of a store that was moved since: its keybag would be looked for where
  ///   another store may be now.
  package init(of path: String) throws(ControlError) {
    // A daemon that has the store must be the one to change it, or it would go on with the old keys. A backing
    // directory may lie on the mount of another store.
    let around = try MountedFileSystem.containing(path).flatMap { $0.hasBacking(at: path) ? nil : $0 }
    guard let mount = around ?? MountedFileSystem.writing(path), !mount.isDead else {
      self = .nobody(path)
      return
    }
    if !ControlSocket.hasMovedBackingDirectory(of: mount) {
      self = .daemon(mount)
    } else if around == nil {
      // Where the daemon's store was: what is there now is another one.
      self = .nobody(path)
    } else {
      throw ControlError(
        .failed,
        "the store that is mounted at \(mount.mountPoint) is not at \(mount.backing) any more: move it back, or unmount "
          + "it and give the directory where it is")
    }
  }

  /// The backing directory.
  package var backing: String {
    switch self {
    case .daemon(let mount): mount.backing
    case .nobody(let path): path
    }
  }

  /// Finds out, before a secret is asked for, that there is a store and that its daemon answers.
  package func requireStore() throws {
    switch self {
    case .daemon(let mount): _ = try DaemonConnection(to: mount)
    case .nobody(let path): try StoreSummary.requireStore(path)
    }
  }

  /// Finds out, before a new secret is asked for, that the device key is there that a change needs here, and is the one
  /// of the store.
  package func requireDeviceKey(file: String?) throws {
    guard case .nobody(let path) = self else { return }
    let bytes = try StoreSummary.readKeybag(path).bytes
    _ = try Keybag(parsing: bytes, deviceKey: DeviceKey.load(forKeybag: bytes, file: file))
  }

  /// Changes the store's keybag: has the daemon do it, or does it here. A recovery key stands for the device key too.
  package func change(
    _ edit: borrowing KeybagEdit, with secret: borrowing UnlockSecret, deviceKeyFile: String?
  ) throws {
    switch self {
    case .daemon(let mount):
      var daemon = try DaemonConnection(to: mount)
      try daemon.change(edit, with: secret)
    case .nobody(let path):
      try UnmountedStore(path, deviceKeyFile: deviceKeyFile, secret: secret).apply(edit, with: secret)
    }
  }

  /// Makes the machine a host of the store that asked for it with a pairing code, or has the daemon do so.
  ///
  /// - Parameter classes: the classes whose keys it gets; `nil` for those that it asked for.
  package func addHost(
    _ code: borrowing SecretBytes, classes: [ProtectionClass]?, with secret: borrowing UnlockSecret,
    deviceKeyFile: String?
  ) throws {
    switch self {
    case .daemon(let mount):
      var daemon = try DaemonConnection(to: mount)
      try unsafe secret.withSecret { (secret) throws(ControlError) in
        try unsafe code.withBytes { (code) throws(ControlError) in
          try unsafe daemon.addHost(code, classes: classes, with: secret)
        }
      }
    case .nobody(let path):
      let store = try UnmountedStore(path, deviceKeyFile: deviceKeyFile, secret: secret)
      let acceptance = try HostAcceptance(code, in: store.backing, of: store.keybag.storeID)
      let id = acceptance.id
      try store.apply(acceptance.edit(classes), with: secret)
      HostAcceptance.finish(id, in: store.backing, of: store.keybag.storeID)
    }
  }

  /// Erases all keys of the store. An erasure that was cut short is finished.
  package func erase(deviceKeyFile: String?) throws {
    switch self {
    case .daemon(let mount):
      var daemon = try DaemonConnection(to: mount)
      try daemon.eraseStore()
    case .nobody(let path):
      let store = try UnmountedStore(path, deviceKeyFile: deviceKeyFile)
      if let time = store.keybag.erasureTime {
        try store.file.repair(store.keybag, deviceKey: store.deviceKey)
        throw KeyManagementError.storeErased(at: time)
      }
      if let failure = try store.file.erase(store.keybag, deviceKey: store.deviceKey).failure { throw failure }
    }
  }
}

extension DaemonConnection {
  /// Unlocks the mount, or cancels a lock during its grace period.
  package mutating func unlock(with secret: borrowing UnlockSecret) throws(ControlError) {
    try unsafe secret.withSecret { (secret) throws(ControlError) in try unsafe unlock(secret) }
  }

  /// Has the daemon change the keybag.
  ///
  /// - Throws: `invalidRequest` for an edit that the control interface has no method for.
  fileprivate mutating func change(
    _ edit: borrowing KeybagEdit, with secret: borrowing UnlockSecret
  ) throws(ControlError) {
    try unsafe secret.withSecret { (secret) throws(ControlError) in
      switch edit {
      case .changePasscode(let new):
        try unsafe new.withBytes { (new) throws(ControlError) in try unsafe changePasscode(from: secret, to: new) }
      case .addProtector(let new):
        try unsafe new.secret.withSecret { (secretOfNew) throws(ControlError) in
          try unsafe addKey(secretOfNew, label: new.label, with: secret)
        }
      case .removeProtector(let id): try unsafe removeKey(id.hexadecimal, with: secret)
      case .setHost(let id, let classes): try unsafe setHost(id.hexadecimal, classes: classes, with: secret)
      case .eraseClass(let fileClass): try unsafe erase(fileClass, with: secret)
      default: throw ControlError(.invalidRequest, "a mounted store's keybag is not changed in this way")
      }
    }
  }
}

extension UnlockSecret {
  /// Calls `body` with the secret as the client library takes it.
  package func withSecret<Failure: Error>(
    _ body: (DaemonConnection.Secret) throws(Failure) -> Void
  ) throws(Failure) {
    switch self {
    case .passcode(let bytes):
      try unsafe bytes.withBytes { (bytes) throws(Failure) in try unsafe body(.passcode(bytes)) }
    case .tpmPasscode(let bytes):
      try unsafe bytes.withBytes { (bytes) throws(Failure) in try unsafe body(.tpmPasscode(bytes)) }
    case .recoveryKey(let bytes):
      try unsafe bytes.withBytes { (bytes) throws(Failure) in try unsafe body(.recoveryKey(bytes)) }
    case .keyFile(let bytes):
      try unsafe bytes.withBytes { (bytes) throws(Failure) in try unsafe body(.keyFile(bytes)) }
    }
  }
}

extension MountedFileSystem {
  /// Whether a canonical path on this mount, and not its mount point, is that of the backing directory of a store.
  package func hasBacking(at path: String) -> Bool {
    guard path != mountPoint, let directory = try? Descriptor.open(PathName(path), [.path, .directory]) else {
      return false
    }
    return (try? Store.trace(in: directory)) != nil
  }
}
