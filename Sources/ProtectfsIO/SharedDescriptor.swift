/// An open descriptor with several owners, closed with the last of them.
package final class SharedDescriptor: Sendable {
  package let descriptor: Descriptor

  package init(_ descriptor: consuming Descriptor) {
    self.descriptor = descriptor
  }
}
