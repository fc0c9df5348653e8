import Cryptography
import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage

/// One client of the control socket, served by a thread of its own until it goes, misbehaves or is too slow.
struct ControlConnection: ~Copyable {
  let socket: LocalSocket
  let control: any DaemonControl
  let limits: ControlServer.Limits
  /// Held while a secret is tried, so that many clients cannot make the daemon derive many keys at once.
  let derivation: DerivationLock
  let streams: CallCount

  /// Serves the client; returns why it ended. `report` is told when a call has come and when it has been answered.
  func serve(_ report: (_ isSilent: Bool) -> Void) -> MessageError {
    do throws(MessageError) {
      do throws(Errno) { try socket.setTimeout(.sending, seconds: limits.sendSeconds) } catch { throw .ended }
      var receiver = VarlinkReceiver()
      while true {
        let call = try unsafe receiver.withNextMessage(from: socket, limits: limits) {
          (message) throws(MessageError) in try unsafe VarlinkCall(message)
        }
        report(false)
        try answer(call)
        report(true)
      }
    } catch {
      return error
    }
  }

  private func answer(_ call: consuming VarlinkCall) throws(MessageError) {
    let isOneWay = call.isOneWay
    let reply: [UInt8]?
    do throws(VarlinkError) {
      reply = try perform(&call)
    } catch {
      reply = error.reply
    }
    guard let reply else { return try answerWithStream(&call) }
    if !isOneWay { try send(reply) }
  }

  /// Does what a call asks for and returns the reply; `nil` for a call whose replies are a stream.
  private func perform(_ call: inout VarlinkCall) throws(VarlinkError) -> [UInt8]? {
    switch try VarlinkInterface.method(named: call.method) {
    case .information:
      return VarlinkReply(VarlinkInterface.Information(version: control.status().version)).encoded()
    case .description:
      return try describeInterface(call)
    case .daemon(.status):
      return VarlinkReply(StatusReply(status: control.status())).encoded()
    case .daemon(.lock):
      try lock(call)
    case .daemon(.lockAll):
      defer { derivation.waitForTrial() }
      try VarlinkError.translating { () throws(ControlError) in try control.lockAll() }
    case .daemon(.finishWrites):
      guard streams.begin() else { throw .control(.tooManyStreams(streams.limit)) }
      defer { streams.end() }
      try VarlinkError.translating { () throws(ControlError) in try control.finishWrites() }
    case .daemon(.unlock):
      let beginning = control.beginUnlock()
      let isCounted = try !isOfLogin(call)
      let secret = try call.secrets.old.take()
      try derivation.attempt { () throws(ControlError) in
        try control.unlock(secret, beginning, isCounted: isCounted)
      }
    case .daemon(.changePasscode):
      let isCounted = try !isOfLogin(call)
      let secret = try call.secrets.old.take()
      guard case .passcode(let new) = try call.secrets.new.take("newPasscode") else {
        throw .invalidParameter("newPasscode")
      }
      try derivation.attempt(new) { (new: consuming SecretBytes) throws(ControlError) in
        try control.changePasscode(from: secret, to: new, isCounted: isCounted)
      }
    case .daemon(.addKey):
      try addKey(&call)
    case .daemon(.removeKey):
      try removeKey(&call)
    case .daemon(.addHost):
      try addHost(&call)
    case .daemon(.setHost):
      try setHost(&call)
    case .daemon(.lockHosts):
      return try lockHosts(call)
    case .daemon(.eraseClass):
      let fileClass = try Self.fileClass(call)
      let secret = try call.secrets.old.take()
      try VarlinkError.translating { () throws(ControlError) in try control.prepareErasure() }
      try derivation.attempt { () throws(ControlError) in try control.erase(fileClass, with: secret) }
    case .daemon(.erase):
      // It needs no secret, and does not wait for those who have one.
      try VarlinkError.translating { () throws(ControlError) in try control.eraseAll() }
    case .daemon(.rotate), .daemon(.events), .daemon(.delayLock):
      guard call.more, !call.isOneWay else { throw .expectedMore }
      return nil
    }
    return VarlinkReply(NoParameters()).encoded()
  }

  private func describeInterface(_ call: borrowing VarlinkCall) throws(VarlinkError) -> [UInt8] {
    struct Request: Decodable { var interface: String }
    struct Description: Encodable { var description: String }
    guard let name = try call.parameters(as: Request.self)?.interface else { throw .invalidParameter("interface") }
    guard let text = VarlinkInterface.descriptions[name] else { throw .interfaceNotFound(name) }
    return VarlinkReply(Description(description: text)).encoded()
  }

  private func lock(_ call: borrowing VarlinkCall) throws(VarlinkError) {
    let parameters = try call.parameters(as: LockParameters.self)
    if let seconds = parameters?.gracePeriod, !(0...limits.longestGracePeriod).contains(seconds) {
      throw .invalidParameter("gracePeriod")
    }
    let wait = parameters?.wait ?? true
    // Who waits may do so for the whole grace period, a day if need be.
    let lasts = wait && parameters?.gracePeriod != 0
    let hasRoom = !lasts || streams.begin()
    defer { if lasts && hasRoom { streams.end() } }
    defer { if wait { derivation.waitForTrial() } }
    try VarlinkError.translating { () throws(ControlError) in
      try control.lock(
        gracePeriod: parameters?.gracePeriod.map { .seconds($0) }, includingInactive: parameters?.inactive ?? false,
        wait: wait && hasRoom)
      if !hasRoom { throw .tooManyWaitForLock(streams.limit) }
    }
  }

  /// Answers a call whose replies are a stream, unless there are too many of these.
  private func answerWithStream(_ call: inout VarlinkCall) throws(MessageError) {
    guard streams.begin() else {
      return try send(VarlinkError.control(.tooManyStreams(streams.limit)).reply)
    }
    defer { streams.end() }
    switch try? VarlinkInterface.method(named: call.method) {
    case .daemon(.events): try monitor()
    case .daemon(.delayLock): try delayLock()
    default: try rotate(&call)
    }
  }

  // MARK: Events

  /// Sends events until the client goes or is too slow. A client that listens says nothing more.
  private func monitor() throws(MessageError) {
    let queue: EventQueue<DaemonEvent>
    do throws(Errno) { queue = try EventQueue(capacity: limits.waitingEvents) } catch { throw .ended }
    let subscription = control.subscribe { queue.append($0) }
    defer { control.unsubscribe(subscription) }
    while try !clientSpeaks(orComes: queue.signal) {
      for event in queue.takeAll() as [DaemonEvent] {
        try send(VarlinkReply(EventReply(event: event), continues: true).encoded())
      }
    }
    throw .ended
  }

  /// Waits until the client says something or goes, or until a signal comes, or for so long at most. Returns whether it
  /// was the client.
  func clientSpeaks(orComes signal: EventDescriptor? = nil, within time: Duration? = nil) throws(MessageError) -> Bool {
    do throws(Errno) {
      let ready = try Poll.wait(for: .readable(socket.rawValue), .readable(signal?.rawValue ?? -1), atMost: time)
      guard ready[0] || ready[1] else { throw .timedOut }
      return ready[0]
    } catch {
      throw error == .timedOut ? .timedOut : .ended
    }
  }

  func send(_ message: [UInt8]) throws(MessageError) {
    do throws(Errno) {
      try socket.send(message)
    } catch {
      throw error == .wouldBlock ? .timedOut : .ended
    }
  }
}
