import Foundation

func constant() -> FileProtectionType { .complete }
