import FoundationEssentials
import ProtectfsClient

/// A call as it came, its secrets taken out of it.
struct VarlinkCall: ~Copyable {
  /// The qualified name of the method.
  let method: String
  /// The client asks for as many replies as there are.
  let more: Bool
  /// The client wants no reply.
  let isOneWay: Bool
  var secrets: CallSecrets
  private let message: Data

  /// Reads a message, which is left without its secrets.
  ///
  /// - Throws: `malformed` or `tooDeep` for what is no call.
  init(_ message: UnsafeMutableRawBufferPointer) throws(MessageError) {
    let secrets = try unsafe SecretScanner.takeSecrets(from: message)
    let data = unsafe Data(message)
    guard let head = try? JSONDecoder().decode(Call<NoParameters>.self, from: data) else { throw .malformed }
    method = head.method
    more = head.more ?? false
    isOneWay = head.oneway ?? false
    self.message = data
    self.secrets = secrets
  }

  /// The parameters that are no secrets.
  ///
  /// - Throws: the error that Varlink has for a parameter of the wrong type.
  func parameters<Parameters: Decodable>(as type: Parameters.Type) throws(VarlinkError) -> Parameters? {
    do {
      return try JSONDecoder().decode(Call<Parameters>.self, from: message).parameters
    } catch DecodingError.typeMismatch(_, let context), DecodingError.valueNotFound(_, let context),
      DecodingError.dataCorrupted(let context), DecodingError.keyNotFound(_, let context)
    {
      throw .invalidParameter(context.codingPath.count > 1 ? context.codingPath[1].stringValue : "parameters")
    } catch {
      throw .invalidParameter("parameters")
    }
  }
}

/// An error reply.
enum VarlinkError: Error {
  case interfaceNotFound(String)
  case methodNotFound(String)
  case invalidParameter(String)
  /// A method that only answers calls with `more`.
  case expectedMore
  case control(ControlError)

  /// The name of the error; the first four are those of the interface `org.varlink.service`.
  var name: String {
    switch self {
    case .interfaceNotFound: "org.varlink.service.InterfaceNotFound"
    case .methodNotFound: "org.varlink.service.MethodNotFound"
    case .invalidParameter: "org.varlink.service.InvalidParameter"
    case .expectedMore: "org.varlink.service.ExpectedMore"
    case .control(let error): "\(ControlInterface.name).\(error.code.rawValue)"
    }
  }

  /// Runs `body`, whose errors are those of the daemon's interface.
  static func translating<Result>(_ body: () throws(ControlError) -> Result) throws(VarlinkError) -> Result {
    do throws(ControlError) { return try body() } catch { throw .control(error) }
  }

  /// The message that tells it.
  var reply: [UInt8] { VarlinkReply(parameters, error: name).encoded() }

  var parameters: [String: String] {
    switch self {
    case .interfaceNotFound(let name): ["interface": name]
    case .methodNotFound(let name): ["method": name]
    case .invalidParameter(let name): ["parameter": name]
    case .expectedMore: [:]
    case .control(let error): ["message": error.message]
    }
  }
}

extension VarlinkReply where Parameters: Encodable {
  /// The message, its NUL included.
  func encoded() -> [UInt8] {
    guard let data = try? JSONEncoder().encode(self) else {
      preconditionFailure("replies hold no value that JSON cannot express")
    }
    return Array(data) + [0]
  }
}
