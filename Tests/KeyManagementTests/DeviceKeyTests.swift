import Cryptography
import Dispatch
import ProtectfsIO
import StoreFormat
import Synchronization
import SystemPackage
import Testing

@testable import KeyManagement

@Suite("Device key files") struct DeviceKeyTests {
  private func id() throws -> StoreID { try TestStore.read().id() }

  @Test func isMadeOnceAndFound() throws {
    let directory = try TemporaryDirectory()
    let path = PathName("\(directory.path)/device.key")
    #expect(throws: KeyManagementError.deviceKeyMissing(path: path.description)) {
      _ = try DeviceKey.load(for: id(), file: path)
    }
    let made = try DeviceKey.loadOrCreate(for: id(), file: path).secret.exposed()
    #expect(try DeviceKey.load(for: id(), file: path).secret.exposed() == made)
    #expect(try DeviceKey.loadOrCreate(for: id(), file: path).secret.exposed() == made)
    #expect(try DeviceKey.load(for: .random(), file: path).secret.exposed() != made)
    #expect(try directory.descriptor.status(of: "device.key").permissions == 0o600)
    let stored = try directory.read("device.key")
    #expect(stored.count == 32)
    #expect(made != stored)
    #expect(try made == VolumeDeviceKey(deviceKey: SecretBytes(stored), storeID: id()).secret.exposed())
  }

  /// Who comes second, in a directory that neither found, takes the key of the first.
  @Test func isMadeOnceByManyAtATime() throws {
    let directory = try TemporaryDirectory()
    let id = try id()
    for round in 0..<20 {
      let path = PathName("\(directory.path)/\(round)/protectfs/device.key")
      let found = Mutex<[Result<[UInt8], KeyManagementError>]>([])
      DispatchQueue.concurrentPerform(iterations: 8) { _ in
        let key = Result { () throws(KeyManagementError) in
          try DeviceKey.loadOrCreate(for: id, file: path).secret.exposed()
        }
        found.withLock { $0.append(key) }
      }
      let keys = try found.withLock { try $0.map { try $0.get() } }
      #expect(keys.count == 8 && Set(keys).count == 1)
    }
  }

  @Test func recoveredKeysAreKept() throws {
    let directory = try TemporaryDirectory()
    let key = try VolumeDeviceKey(SecretBytes(randomCount: 32))
    let path = try DeviceKey.keep(key, for: id(), in: PathName(directory.path))
    #expect(path.description == "\(directory.path)/\(try id()).key")
    #expect(try DeviceKey.load(for: id(), file: path).secret.exposed() == key.secret.exposed())
    try DeviceKey.keep(key, for: id(), in: PathName(directory.path))
    let other = try VolumeDeviceKey(SecretBytes(randomCount: 32))
    #expect(throws: KeyManagementError.deviceKeyUnreadable(path: path.description, .fileExists)) {
      try DeviceKey.keep(other, for: id(), in: PathName(directory.path))
    }
    #expect(directory.names() == ["\(try id()).key"])
  }

  /// After sealing the device key, its plain copies are reported.
  @Test func plainCopiesAreFound() throws {
    let directory = try TemporaryDirectory()
    let key = SecretBytes([UInt8](repeating: 1, count: 32))
    let path = PathName(directory.path)
    #expect(DeviceKey.plainCopies(of: key, in: path) == [])
    let copy = try DeviceKey.keep(VolumeDeviceKey(deviceKey: key, storeID: id()), for: id(), in: path)
    try DeviceKey.keep(VolumeDeviceKey(SecretBytes(randomCount: 32)), for: .random(), in: path)
    try directory.write("device.key", [UInt8](repeating: 1, count: 32))
    #expect(DeviceKey.plainCopies(of: key, in: path) == [copy])
  }

  @Test func opensItsOwnStoreOnly() throws {
    let directory = try TemporaryDirectory()
    let store = try TestStore.read()
    let path = PathName("\(directory.path)/device.key")
    try directory.write("device.key", store.deviceKey.bytes)
    #expect(try DeviceKey.opens(store.keybag.bytes, of: id(), file: path))
    try directory.write("device.key", [UInt8](repeating: 1, count: 32))
    #expect(try !DeviceKey.opens(store.keybag.bytes, of: id(), file: path))
  }

  @Test(arguments: [0o640, 0o604, 0o644, 0o660, 0o601] as [UInt32]) func exposedKeysAreRefused(_ mode: UInt32) throws {
    let directory = try TemporaryDirectory()
    try directory.write("device.key", [UInt8](repeating: 1, count: 32), mode: mode)
    let path = PathName("\(directory.path)/device.key")
    #expect(throws: KeyManagementError.deviceKeyExposed(path: path.description)) {
      _ = try DeviceKey.load(for: id(), file: path)
    }
    // Otherwise an attacker could replace a sealed key by one whose content they know.
    try directory.write("device.tpm", [1], mode: mode)
    let sealed = PathName("\(directory.path)/device.tpm")
    #expect(throws: KeyManagementError.deviceKeyExposed(path: sealed.description)) {
      _ = try DeviceKey.load(for: id(), file: sealed)
    }
  }

  @Test(arguments: [0, 31, 33, 64]) func otherLengthsAreRefused(_ count: Int) throws {
    let directory = try TemporaryDirectory()
    try directory.write("device.key", [UInt8](repeating: 1, count: count))
    let path = PathName("\(directory.path)/device.key")
    #expect(throws: KeyManagementError.deviceKeyMalformed(path: path.description)) {
      _ = try DeviceKey.load(for: id(), file: path)
    }
  }

  @Test func otherTypesAreRefused() throws {
    let directory = try TemporaryDirectory()
    #expect(throws: KeyManagementError.deviceKeyMalformed(path: directory.path)) {
      _ = try DeviceKey.load(for: id(), file: PathName(directory.path))
    }
  }
}
