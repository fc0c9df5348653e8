import Foundation
import Testing

@testable import ProtectfsLint

/// Arguments are found past whatever a call may have among them.
struct SourceTextTests {
  @Test(arguments: [
    ("f()", []),
    ("f(1)", ["1"]),
    ("f (a: 1, b: [2, 3],)", ["a=1", "b=[2, 3]"]),
    ("f(a ? b : c, d: { $0, $1 })", ["a ? b : c", "d={ $0, $1 }"]),
    (#"f("),", x: "\(g(")"))")"#, [#""),""#, #"x="\(g(")"))""#]),
    ("f(#\"\"\"\n\"), \\(\n\"\"\"#, x: 1)", ["#\"\"\"\n\"), \\(\n\"\"\"#", "x=1"]),
    ("f(/* ), /* */ */ 1, // )\n `in`: 2)", ["1", "`in`=2"]),
    ("f(#selector(g(a:b:)), ä: 1)", ["#selector(g(a:b:))", "ä=1"]),
  ])
  func arguments(_ text: String, _ expected: [String]) throws {
    let source = SourceText(text)
    let list = try #require(source.arguments(ofCallAt: 0))
    let found = list.arguments.map { argument in
      (argument.label.map { "\($0)=" } ?? "") + source.text(argument.range)
    }
    #expect(found == expected)
    #expect(list.range.upperBound == text.utf8.count)
  }

  @Test(arguments: ["f", "f(", "f(]", "f(\"", "f { 1 }", "f(\"\\(\")"])
  func whatIsNoCallHasNoArguments(_ text: String) {
    #expect(SourceText(text).arguments(ofCallAt: 0) == nil)
  }

  @Test(arguments: [
    ("(to:options:)", ["to", "options"]), ("( _: b : )", ["_", "b"]), ("()", nil), ("(to: options)", nil), ("(a)", nil),
  ])
  func labelsOfAFullName(_ text: String, _ labels: [String]?) {
    #expect(SourceText(text).labels(0..<text.utf8.count)?.map { $0 ?? "_" } == labels)
  }

  @Test func stringsOfClasses() {
    let source = SourceText(
      """
      // "NSFileProtectionKey"
      static let a = K("NSFileProtectionKey"), b = #"NSFileProtectionComplete"#
      func f() { g("\\(x)", "x NSFileProtectionKey", "NSPersistentStoreFileProtectionKey"); h(.a, x.a, y.ab) }
      let c = "NSURLFileProtectionKey"
      """)
    let strings = source.classStrings()
    #expect(strings.map(\.carrier) == [.attributes, .file, .resources])
    #expect(strings.map(\.member) == ["a", "a", nil])
    #expect(source.uses(of: ["a": .attributes]).count == 2)
    #expect(SourceText("\"").classStrings().isEmpty && SourceText("#if a\n#").classStrings().isEmpty)
  }

  @Test(arguments: [
    ("[]", true), (".atomic", true), ("[.atomic, Data.WritingOptions.withoutOverwriting]", true), ("options", false),
    (".mine", false), ("[.atomic, mine]", false), (".atomic.union(mine)", false),
  ])
  func plainOptions(_ text: String, _ isPlain: Bool) {
    #expect(SourceText(text).isPlainOptions(0..<text.utf8.count) == isPlain)
  }

  @Test(arguments: [
    ("nil", true), ("[:]", true), ("[.size: f(1, 2), FileAttributeKey.type: x]", true), ("attributes", false),
    ("[.size: 1, key: 2]", false), ("[.size: 1].merging(x)", false),
  ])
  func plainAttributes(_ text: String, _ isPlain: Bool) {
    #expect(SourceText(text).isPlainAttributes(0..<text.utf8.count) == isPlain)
  }

  @Test(arguments: [
    ("[]", true), ("[:]", true), (".nameKey", true), ("[.nameKey, URLResourceKey.isHiddenKey,]", true),
    ("[.nameKey: f(1, 2)]", true), ("key", false), ("myKey", false), ("[.nameKey, key]", false), ("[.mine]", false),
    ("[.nameKey].union(x)", false),
  ])
  func plainResourceKeys(_ text: String, _ isPlain: Bool) {
    #expect(SourceText(text).isPlainResourceKeys(0..<text.utf8.count) == isPlain)
  }

  @Test(arguments: [
    ("a[.key] ", true), ("a?[FileAttributeKey.key] as? B", true), ("a[.key] == b", true), ("a[.key] = b", false),
    ("[.key]", false), ("[.key: b]", false), ("f([.key])", false),
  ])
  func keysThatAreRead(_ text: String, _ isRead: Bool) throws {
    let key = try #require(text.range(of: "key"))
    #expect(SourceText(text).isRead(text.utf8.distance(from: text.startIndex, to: key.lowerBound)) == isRead)
  }
}
