import FlyingFox
import Foundation
import GRDB
import ServiceLifecycle

/// Serves the notes: `GET /notes` and `POST /notes`, with 503 while they are locked.
struct WebServer: Service {
  let database: NotesDatabase
  let report: @Sendable (UInt16) -> Void

  func run() async throws {
    let server = HTTPServer(address: try .inet(ip4: "127.0.0.1", port: 0))
    await server.appendRoute("GET /notes") { _ in
      try await answer {
        HTTPResponse(statusCode: .ok, body: Data(try await database.notes().joined(separator: "\n").utf8))
      }
    }
    await server.appendRoute("POST /notes") { request in
      let text = String(decoding: try await request.bodyData, as: UTF8.self)
      return try await answer {
        try await database.add(text)
        return HTTPResponse(statusCode: .created)
      }
    }
    try await withGracefulShutdownHandler {
      try await withThrowingDiscardingTaskGroup { group in
        group.addTask {
          // It ends with an error when it is stopped.
          do { try await server.run() } catch  where Task.isShuttingDownGracefully {}
        }
        try await server.waitUntilListening()
        if case .ip4(_, let port) = await server.listeningAddress { report(port) }
      }
    } onGracefulShutdown: {
      Task { await server.stop(timeout: 1) }
    }
  }

  /// What is locked is not there now, but it will be: 503, and when to ask again.
  private func answer(_ body: () async throws -> HTTPResponse) async throws -> HTTPResponse {
    do {
      return try await body()
    } catch is NotesDatabase.Locked {
      return locked
    } catch let error as DatabaseError where error.resultCode == .SQLITE_MISUSE {
      // Closed between the look and the use.
      return locked
    }
  }

  private var locked: HTTPResponse {
    HTTPResponse(statusCode: .serviceUnavailable, headers: HTTPHeaders([HTTPHeader("Retry-After"): "30"]))
  }
}
