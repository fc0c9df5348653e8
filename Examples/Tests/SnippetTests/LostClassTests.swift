import DataProtectionTesting
import Testing

/// No call in the targets of this package loses a protection class.
@Test func noClassIsLost() throws { try ProtectionLint.check() }
