// The C library: glibc, or musl with the static Linux SDK.
#if canImport(Glibc)
  @_exported import Glibc
#elseif canImport(Musl)
  @_exported import Musl
#endif

/// What glibc declares as enumerations, and musl as macros.
package enum LibraryConstant {
  #if canImport(Glibc)
    package typealias Resource = __rlimit_resource_t
    package static let openFiles = Resource(RLIMIT_NOFILE.rawValue)
    package static let fileSize = Resource(RLIMIT_FSIZE.rawValue)
    package static let coreSize = Resource(RLIMIT_CORE.rawValue)

    package static let stream = CInt(SOCK_STREAM.rawValue)
    package static let datagram = CInt(SOCK_DGRAM.rawValue)
    package static let closeOnExec = CInt(SOCK_CLOEXEC.rawValue)
    package static let nonBlocking = CInt(SOCK_NONBLOCK.rawValue)
  #else
    package typealias Resource = CInt
    package static let openFiles = RLIMIT_NOFILE
    package static let fileSize = RLIMIT_FSIZE
    package static let coreSize = RLIMIT_CORE

    package static let stream = SOCK_STREAM
    package static let datagram = SOCK_DGRAM
    package static let closeOnExec = SOCK_CLOEXEC
    package static let nonBlocking = SOCK_NONBLOCK
  #endif
}
