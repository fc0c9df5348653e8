import DataProtection
import Foundation
import Testing

extension MountTests.FullDiskTests {
  /// The kernel takes the write, and finds out later that there is no space.
  @Test func filesAreOverwrittenOnlyIfThereIsSpace() throws {
    try withStore { volume, disk in
      let (url, name) = (volume.url("file"), volume.url("name"))
      let old = Data("old".utf8)
      let new = Data(repeating: 7, count: 1 << 20)
      try old.write(to: url)
      try FileManager.default.linkItem(at: url, to: name)
      try disk.fill(inodes: false)
      for extra in [[], .atomic] as [Data.WritingOptions] {
        let code = cocoaCode { try new.write(to: url, options: extra.union(.completeFileProtection)) }
        #expect(code == .fileWriteOutOfSpace)
        #expect(try Data(contentsOf: url) == old)
        #expect(try FileManager.default.protection(ofItemAt: url) == .completeUntilFirstUserAuthentication)
      }
      try disk.mounted.appending("filler/blocks").unlink()
      try new.write(to: url, options: .completeFileProtection)
      try volume.unmount()
      try volume.mount()
      try volume.unlock()
      #expect(try Data(contentsOf: url) == new && Data(contentsOf: name) == new)
      try Data("shorter".utf8).write(to: url, options: .completeFileProtection)
      #expect(try Data(contentsOf: name) == Data("shorter".utf8))
    }
  }
}
