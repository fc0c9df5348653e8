/// A fault of the store's code, planted between it and the disk: what the search for crashes has to find.
package struct PlantedFault: Sendable {
  package enum Effect: Sendable {
    /// The call is not made.
    case leftOut
    /// The call is made after the next one that changes something.
    case late
  }

  package let name: String
  let effect: Effect
  let calls: Set<StoreCall>
  /// Whether it is about a path below the topmost directory of the disk.
  let concerns: @Sendable (String) -> Bool

  package init(
    _ name: String, _ calls: Set<StoreCall>, _ effect: Effect = .leftOut,
    on concerns: @escaping @Sendable (String) -> Bool
  ) {
    (self.name, self.effect, self.calls, self.concerns) = (name, effect, calls, concerns)
  }
}

extension SimulatedDisk {
  /// What the planted fault makes of a call; `nil` if it is none that it is about.
  func effect(on call: StoreCall, at location: Location) -> PlantedFault.Effect? {
    guard let planted, planted.calls.contains(call) else { return nil }
    let isConcerned =
      switch location {
      case .inode(let inode): paths(of: inode).contains(where: planted.concerns)
      case .name(let place): paths(of: place.directory).contains { planted.concerns("\($0)/\(place.name)") }
      }
    return isConcerned ? planted.effect : nil
  }

  /// The paths of an inode, that of the topmost directory being empty.
  private func paths(of inode: Int) -> [String] {
    if inode == DiskImage.root { return [""] }
    return image.parents(of: inode).flatMap { directory, name in paths(of: directory).map { "\($0)/\(name)" } }
  }
}
