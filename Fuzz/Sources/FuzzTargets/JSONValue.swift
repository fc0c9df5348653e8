import ProtectfsClient

/// Any JSON, as a decoder understands it.
enum JSONValue: Decodable, Equatable {
  case null
  case truth(Bool)
  case number(Double)
  case text(String)
  case array([JSONValue])
  case object([String: JSONValue])

  init(from decoder: any Decoder) throws {
    if let container = try? decoder.container(keyedBy: Name.self) {
      var members: [String: JSONValue] = [:]
      for key in container.allKeys { members[key.stringValue] = try container.decode(JSONValue.self, forKey: key) }
      self = .object(members)
    } else if var container = try? decoder.unkeyedContainer() {
      var values: [JSONValue] = []
      while !container.isAtEnd { values.append(try container.decode(JSONValue.self)) }
      self = .array(values)
    } else {
      let container = try decoder.singleValueContainer()
      if container.decodeNil() {
        self = .null
      } else if let value = try? container.decode(Bool.self) {
        self = .truth(value)
      } else if let value = try? container.decode(String.self) {
        self = .text(value)
      } else {
        self = .number(try container.decode(Double.self))
      }
    }
  }

  /// Whether another value is this one with asterisks for the texts that are secrets. How many is not compared, as
  /// escapes have some each.
  func isHidden(in other: JSONValue) -> Bool {
    switch (self, other) {
    case (.object(let members), .object(let others)):
      members.count == others.count
        && members.allSatisfy { name, value in
          guard let other = others[name] else { return false }
          guard Self.secretNames.contains(Array(name.utf8)), case .text = value else {
            return value.isHidden(in: other)
          }
          if case .text(let text) = other { return text.utf8.allSatisfy { $0 == UInt8(ascii: "*") } }
          return false
        }
    case (.array(let values), .array(let others)):
      values.count == others.count && zip(values, others).allSatisfy { $0.isHidden(in: $1) }
    default: self == other
    }
  }

  private static let secretNames = Set(ControlInterface.SecretMember.allCases.map { Array($0.rawValue.utf8) })

  private struct Name: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init?(stringValue: String) {
      self.stringValue = stringValue
    }

    init?(intValue: Int) { nil }
  }
}
