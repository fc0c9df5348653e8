import ProtectfsPolicy
import SystemPackage

// The keys of a class are erased. Files that have left the class are not lost with it, and those that have it are, also
// where what gave them their classes was not made durable.
extension SimulatedCall {
  private static let erase = Self("erase complete") { mount, model in
    try mount.erase(.complete)
    model.erase(.complete)
  }

  /// Calls on `a` while it is not erased, between erasures.
  static let betweenErasures: [SimulatedCall] = {
    let names = ["a becomes complete", "a becomes none", "overwrite a", "fsync a", "rekey"]
    let others = onContents.filter { names.contains($0.name) }.map { call in
      Self(call.name) { mount, model in
        guard model["a"] != nil else { throw Errno.noSuchFileOrDirectory }
        try call.make(mount, &model)
      }
    }
    return [erase] + others
  }()

  /// Of three files of a class, two leave it.
  static let erasures = [
    Self(
      "leave a class, and erase it",
      after: ["e", "f", "g"].map { make($0, text($0, 5000), .complete) }
    ) { mount, model in
      for (name, fileClass) in [("e", ProtectionClass.standard), ("f", .none)] {
        try mount.setClass(of: name, to: fileClass)
        model.setClass(of: name, to: fileClass)
      }
      try erase.make(mount, &model)
    }
  ]
}
