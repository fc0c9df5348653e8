// swift-format-ignore-file: AlwaysUseLowerCamelCase

// The keys in `userInfo` of Foundation's errors, and its domain of error numbers, which FoundationEssentials keeps to
// itself.
let NSFilePathErrorKey = "NSFilePath"
let NSURLErrorKey = "NSURL"
let NSUnderlyingErrorKey = "NSUnderlyingError"
let NSLocalizedDescriptionKey = "NSLocalizedDescription"
let NSDebugDescriptionErrorKey = "NSDebugDescription"
let NSPOSIXErrorDomain = "NSPOSIXErrorDomain"
