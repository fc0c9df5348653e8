import CFUSE
import Glibc

// Answers in place of workers that are stuck.
extension Session {
  /// The requests on contents that have no answer yet. The kernel knows their nodes as long as ``refuse(_:)`` finds
  /// them unanswered.
  package var unanswered: [UnansweredRequest] {
    let served = served.enumerated().compactMap { (worker, served) in
      served.current.map { UnansweredRequest(header: $0, worker: worker) }
    }
    let throughRings = (rings?.workers ?? []).compactMap { worker in
      worker.served.current.map { UnansweredRequest(header: $0, worker: nil, ringWorker: worker) }
    }
    let deferred = backlog.all.filter { $0.contents != nil }.map { UnansweredRequest(header: $0, worker: nil) }
    return served + throughRings + deferred
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
}
