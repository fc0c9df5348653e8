extension String {
  /// The text with its control characters escaped, as `\u{…}`: a name may have them, and a terminal would obey them.
  package var printable: String {
    var result = ""
    for scalar in unicodeScalars {
      if scalar.properties.generalCategory == .control {
        result += scalar.escaped(asASCII: true)
      } else {
        result.unicodeScalars.append(scalar)
      }
    }
    return result
  }
}
