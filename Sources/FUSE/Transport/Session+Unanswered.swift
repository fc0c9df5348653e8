import CFUSE
import Glibc

// Answers in place of workers that are stuck.
extension Session {
  /// The requests on contents that have no answer yet. The kernel knows their nodes as long as ``refuse(_:)`` finds
  /// them unanswered.
  package var unanswered: [UnansweredRequest] {
    // First, since it is from there to a worker that a request goes.
    let deferred = backlog.all.filter { $0.contents != nil }.map { UnansweredRequest(header: $0, worker: nil) }
    let deferredInRings = (rings?.deferred ?? []).filter { $0.contents != nil }.map {
      UnansweredRequest(header: $0, worker: nil, isInRing: true)
    }
    let served = served.enumerated().compactMap { (worker, served) in
      served.current.map { UnansweredRequest(header: $0, worker: worker) }
    }
    let throughRings = (rings?.workers ?? []).compactMap { worker in
      worker.served.current.map { UnansweredRequest(header: $0, worker: nil, ringWorker: worker) }
    }
    return served + throughRings + deferred + deferredInRings
  }

  /// The nodes of files for which workers serve requests that the kernel may have sent with the inode's lock held,
  /// other than those of a write(2): fsync(2), fallocate(2), changes of inode attributes and of extended ones.
  package var nodesHeldByRequests: Set<NodeID> {
    Set((served + (rings?.workers ?? []).map(\.served)).compactMap(\.nodeHeld))
  }

  /// Refuses a request in place of its worker, which finds that out when it is done. A change that may have been made,
  /// or that will be made when the store responds, is answered with EIO, anything else with EACCES. Returns `false` if
  /// the request was answered already.
  package func refuse(_ request: UnansweredRequest) -> Bool {
    let error = request.mayBeMade ? EIO : EACCES
    if let worker = request.ringWorker {
      guard worker.served.claim(for: request.header) else { return false }
      rings?.refuse(error, request.header.unique, of: worker)
      return true
    }
    if request.isInRing { return rings?.refuseDeferred(error, request.header) ?? false }
    let isOurs =
      if let worker = request.worker {
        served[worker].claim(for: request.header)
      } else {
        backlog.remove(request.header)
      }
    guard isOurs else { return false }
    unsafe sendError(error, to: request.header.unique, session)
    return true
  }

  /// Refuses what a lock refuses of files that the kernel knows, of the requests that hang in the rings' workers or
  /// were deferred there. What may have changed something is left to the lock.
  func refuseWithoutStore(_ hanging: [RingWorker], _ deferred: [RequestHeader]) {
    for worker in hanging {
      guard let header = worker.served.current, !header.isChange, target.fileSystem.refuses(header),
        worker.served.claim(for: header)
      else { continue }
      rings?.refuse(EACCES, header.unique, of: worker)
    }
    for header in deferred where header.contents != nil && target.fileSystem.refuses(header) {
      _ = rings?.refuseDeferred(EACCES, header)
    }
  }
}

extension RequestHeader {
  /// Whether it changes contents.
  fileprivate var isChange: Bool {
    switch contents {
    case .attributes, .open, .read: false
    case .resize, .write, .allocate, .copyRange, nil: true
    }
  }
}
