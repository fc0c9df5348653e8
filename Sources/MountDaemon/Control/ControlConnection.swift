import Cryptography
import FoundationEssentials
import Glibc
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
    switch call.method {
    case "org.varlink.service.GetInfo":
      return VarlinkReply(VarlinkInterface.Information(version: control.status().version)).encoded()
    case "org.varlink.service.GetInterfaceDescription":
      return try describeInterface(call)
    case ControlInterface.Method.status.qualifiedName:
      return VarlinkReply(StatusReply(status: control.status())).encoded()
    case ControlInterface.Method.lock.qualifiedName:
      try lock(call)
    case ControlInterface.Method.lockAll.qualifiedName:
      do throws(ControlError) { try control.lockAll() } catch { throw .control(error) }
    case ControlInterface.Method.unlock.qualifiedName:
      try derivation.unlock(control, try call.secrets.old.take())
    case ControlInterface.Method.changePasscode.qualifiedName:
      let secret = try call.secrets.old.take()
      guard case .passcode(let new) = try call.secrets.new.take("newPasscode") else {
        throw .invalidParameter("newPasscode")
      }
      try derivation.changePasscode(control, from: secret, to: new)
    case ControlInterface.Method.addKey.qualifiedName:
      try addKey(&call)
    case ControlInterface.Method.removeKey.qualifiedName:
      try removeKey(&call)
    case ControlInterface.Method.eraseClass.qualifiedName:
      let fileClass = try Self.fileClass(call)
      try derivation.erase(control, fileClass, try call.secrets.old.take())
    case ControlInterface.Method.erase.qualifiedName:
      try derivation.eraseAll(control)
    case ControlInterface.Method.rotate.qualifiedName, ControlInterface.Method.events.qualifiedName,
      ControlInterface.Method.delayLock.qualifiedName:
      guard call.more, !call.isOneWay else { throw .expectedMore }
      return nil
    default:
      let interface = call.method.split(separator: ".").dropLast().joined(separator: ".")
      throw VarlinkInterface.descriptions[interface] == nil
        ? .interfaceNotFound(interface) : .methodNotFound(call.method)
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
    do throws(ControlError) {
      try control.lock(gracePeriod: parameters?.gracePeriod.map { .seconds($0) }, wait: wait && hasRoom)
      if !hasRoom { throw .tooManyWaitForLock(streams.limit) }
    } catch {
      throw .control(error)
    }
  }

  /// Answers a call whose replies are a stream, unless there are too many of these.
  private func answerWithStream(_ call: inout VarlinkCall) throws(MessageError) {
    guard streams.begin() else {
      return try send(VarlinkError.control(.tooManyStreams(streams.limit)).reply)
    }
    defer { streams.end() }
    switch call.method {
    case ControlInterface.Method.events.qualifiedName: try monitor()
    case ControlInterface.Method.delayLock.qualifiedName: try delayLock()
    default: try rotate(&call)
    }
  }

  // MARK: Events

  /// Sends events until the client goes or is too slow. A client that listens says nothing more.
  private func monitor() throws(MessageError) {
    let queue: EventQueue
    do throws(Errno) { queue = try EventQueue(capacity: limits.waitingEvents) } catch { throw .ended }
    let subscription = control.subscribe { queue.append($0) }
    defer { control.unsubscribe(subscription) }
    while true {
      try waitForEvents(queue)
      for event in queue.takeAll() {
        try send(VarlinkReply(EventReply(event: event), continues: true).encoded())
      }
    }
  }

  private func waitForEvents(_ queue: EventQueue) throws(MessageError) {
    while true {
      var entries = [
        pollfd(fd: queue.signal.rawValue, events: Int16(POLLIN), revents: 0),
        pollfd(fd: socket.rawValue, events: Int16(POLLIN), revents: 0),
      ]
      let result = unsafe poll(&entries, 2, -1)
      if result < 0 && errno != EINTR { throw .ended }
      if entries[1].revents != 0 { throw .ended }
      if entries[0].revents != 0 { return }
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
