import Testing

@testable import protectfs

struct DeviceKeyPlaceTests {
  @Test func whatIsInMemoryIsNamed() {
    #expect(
      DeviceKeyPlace.problem("/dev/shm")
        == "/dev/shm is in memory: the device key in it is gone at the next boot, and then only the recovery key opens a "
        + "store")
    #expect(DeviceKeyPlace.problem("/proc") == nil)
  }
}
