import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// An erasure counts as done when it is durable, not before, and can be repeated until it is.
  @Suite struct ErasureFaultTests {
    /// A flush fails, or all do from one on: it is reported, also by a repetition that fails again, and the next
    /// completes it.
    @Test(arguments: [true, false], [true, false]) func aStore(hasSecret: Bool, hasRoom: Bool) throws {
      try Volume.store { volume in
        if !hasSecret { try volume.removeEffaceableSecret() }
        let faults = try Faults(of: volume)
        let before = try volume.ownFiles()
        if !hasRoom { try volume.backing.appending(".protectfs/keybag.new").makeDirectory() }
        for isLasting in [true, false] {
          for number in Faults.places {
            try volume.putBack(before)
            let (first, hit) = try volume.erase(
              faults, isLasting ? .failOn(.ioError) : .fail(.ioError), at: number, of: .flushes)
            guard let hit else {
              #expect(first.succeeded && number > 2, "\(first.output)")
              break
            }
            let place = "\(hit) \(number), \(isLasting): \(first.output)"
            if isLasting {
              #expect(first.ending == .exited(1), "\(place)")
              let (again, _) = try volume.erase(faults, .failOn(.ioError), at: 1, of: .flushes)
              #expect(again.ending == .exited(1), "\(place)\(again.output)")
            }
            if isLasting || !first.succeeded {
              let (last, _) = try volume.erase(faults, .count, at: 0)
              #expect(last.succeeded || last.ending == .exited(21), "\(place)\(last.output)")
            }
            let after = try volume.ownFiles()
            let keybag = try Keybag(parsing: after["keybag"] ?? [], deviceKey: volume.volumeDeviceKey())
            #expect(keybag.erasureTime != nil, "\(place)")
            #expect(after["keybag"] == after["keybag.previous"], "\(place)")
            #expect(after["effaceable", default: []].allSatisfy { $0 == 0 }, "\(place)")
          }
        }
      }
    }

    /// The same for the keys of a class. A secret that may still be on the disk does not read as overwritten.
    @Test func aClass() throws {
      try Volume.store { volume in
        let faults = try Faults(of: volume)
        let before = try volume.ownFiles()
        let words = ["--class", "complete", "--recovery-key-file", try volume.recoveryKeyFile()]
        var wasKept = false
        for number in 1... {
          try volume.putBack(before)
          let (first, hit) = try volume.erase(faults, .failOn(.ioError), at: number, of: .flushes, words)
          guard let hit else {
            #expect(first.succeeded, "\(first.output)")
            break
          }
          let place = "\(hit) \(number): \(first.output)"
          #expect(first.ending == .exited(1), "\(place)")
          if first.output.contains("secret of the old one could not be overwritten") {
            wasKept = true
            let effaceable = try volume.ownFiles()["effaceable"] ?? []
            for offset in stride(from: 0, to: effaceable.count, by: 4096) {
              #expect(effaceable[offset..<offset + 32].contains { $0 != 0 }, "\(place)")
            }
          }
          let isErased = try volume.ownFiles()["keybag"] != before["keybag"]
          // As the next mount does.
          try volume.repair()
          if isErased {
            let after = try volume.ownFiles()
            try volume.putBack(before.merging(["effaceable": after["effaceable"] ?? []]) { $1 })
            #expect(volume.refusal(of: nil)?.code == "effaceable-secret-missing", "\(place)")
          }
        }
        #expect(wasKept)
      }
    }
  }
}
