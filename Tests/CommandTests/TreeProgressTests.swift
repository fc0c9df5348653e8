import Testing

@testable import protectfs

struct TreeProgressTests {
  @Test(arguments: [
    (5, 0, 0.1, "5 entries checked"), (5, 20, 0.1, "5 of 20 entries checked"),
    (5, 20, 2, "5 of 20 entries checked, 6 s left"), (20, 20, 2, "20 of 20 entries checked, 0 s left"),
    (21, 20, 2, "21 entries checked"), (0, 20, 2, "0 of 20 entries checked"),
  ])
  func theRestIsEstimated(_ done: Int, _ total: Int, _ seconds: Double, _ text: String) {
    #expect(TreeProgress.text(done, of: total, "entries checked", after: .seconds(seconds)) == text)
  }

  @Test func whatElseThereIsIsSaid() {
    let text = TreeProgress.text(5, of: 20, "files looked at", ", 3 wrapped anew", after: .seconds(2))
    #expect(text == "5 of 20 files looked at, 3 wrapped anew, 6 s left")
  }
}
