import CSystemCalls
import Foundation
import TPM
import Testing

/// A software TPM for one test (swtpm(8)), with its state in a temporary directory.
///
/// It serves one connection at a time; another waits until the first has ended.
struct SoftwareTPM: ~Copyable {
  static let isInstalled = FileManager.default.isExecutableFile(atPath: "/usr/bin/swtpm")

  let directory: String
  /// swtpm's process while it runs.
  private var process: CInt?

  /// The TCTI that reaches it.
  var tcti: String { "swtpm:path=\(directory)/socket" }

  init() throws {
    directory = FileManager.default.temporaryDirectory.path + "/protectfs-tpm-\(UUID().uuidString.prefix(8))"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
    try start()
  }

  deinit {
    end()
    try? FileManager.default.removeItem(atPath: directory)
  }

  private mutating func start() throws {
    // A background process makes sure that swtpm, which the shell becomes, does not outlive the tests.
    let script = """
      (while kill -0 $$ && kill -0 "$1"; do sleep 1; done; kill -0 "$1" || kill $$) 2>/dev/null &
      exec swtpm socket --tpm2 --tpmstate dir="$0" --flags not-need-init,startup-clear \
        --server type=unixio,path="$0/socket" --ctrl type=unixio,path="$0/socket.ctrl"
      """
    let words = ["sh", "-c", script, directory, "\(getpid())"]
    var arguments = unsafe words.map { unsafe strdup($0) } + [nil]
    defer { unsafe arguments.forEach { unsafe free($0) } }
    let identifier = unsafe arguments.withUnsafeMutableBufferPointer { arguments in
      unsafe calls_spawn(arguments.baseAddress!, nil, nil, directory + "/output")
    }
    try #require(identifier > 0)
    process = identifier
    let deadline = ContinuousClock.now + .seconds(60)
    while true {
      do {
        _ = try TPM(tcti: tcti).lockout()
        return
      } catch {
        guard ContinuousClock.now < deadline else { throw error }
        usleep(5_000)
      }
    }
  }

  private func end() {
    guard let process else { return }
    var status: CInt = 0
    calls_kill(process, SIGTERM)
    _ = unsafe calls_wait(process, 1, &status)
  }

  /// Turns it off. Its state stays.
  mutating func stop() {
    end()
    process = nil
  }

  /// Turns it off and on again.
  mutating func restart() throws {
    stop()
    try start()
  }
}
