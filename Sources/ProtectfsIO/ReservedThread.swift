import SystemPackage

extension Thread {
  /// Starts threads for the next calls of ``init(name:stackSize:_:)``, which then cannot fail: the system may have too
  /// many later. Each calls `prepare` first: what a thread drops later, such as capabilities, these would keep.
  ///
  /// - Returns: how many there are; if they are fewer than `count`, they have ended again.
  package static func reserve(_ count: Int, _ prepare: @escaping @Sendable () -> Void) -> Int {
    var threads: [ReservedThread] = []
    while threads.count < count, let thread = try? ReservedThread(prepare) { threads.append(thread) }
    guard threads.count == count else {
      for thread in threads { thread.end() }
      return threads.count
    }
    ReservedThread.all.withLock { $0 += threads }
    return count
  }

  /// Starts the threads of a command in the same way, before it does anything.
  ///
  /// - Throws: `EAGAIN` if not all of them can be started.
  package static func require(_ count: Int) throws(Errno) {
    if reserve(count, {}) < count { throw .resourceTemporarilyUnavailable }
  }

  /// Ends the threads that are in reserve still.
  package static func endReserve() {
    while let thread = ReservedThread.take() { thread.end() }
  }
}

/// A thread that was started before there is anything to do for it.
struct ReservedThread: Sendable {
  static let all = RankedMutex(.idleWorkers, [ReservedThread]())

  let thread: Thread
  private let body: Monitor<(@Sendable () -> Void)?>

  fileprivate init(_ prepare: @escaping @Sendable () -> Void) throws(Errno) {
    let body = Monitor<(@Sendable () -> Void)?>(.idleWorkers, nil)
    thread = try Thread(starting: "reserved", stackSize: 1 << 20) {
      prepare()
      body.wait { (body, _) in body }()
    }
    self.body = body
  }

  static func take() -> ReservedThread? { all.withLock { $0.popLast() } }

  /// Returns when the thread has its name, and has begun.
  func start(_ name: String, _ body: @escaping @Sendable () -> Void) {
    let state = self.body
    state.update {
      $0 = {
        Thread.setName(name)
        state.update { $0 = nil }
        body()
      }
    }
    state.wait { (body, _) in body == nil ? () : nil }
  }

  fileprivate func end() {
    body.update { $0 = {} }
    thread.join()
  }
}
