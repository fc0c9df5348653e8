// A web service whose database is locked with the device. usage: NotesServer DATABASE; prints its port.
import Foundation
import Logging
import ServiceLifecycle

LoggingSystem.bootstrap(StreamLogHandler.standardError)
let logger = Logger(label: "notes")
let database = NotesDatabase(url: URL(fileURLWithPath: CommandLine.arguments[1]), logger: logger)
let server = WebServer(database: database) { port in
  FileHandle.standardOutput.write(Data("\(port)\n".utf8))
}
// They end in the other order: the database outlives the last request.
try await ServiceGroup(services: [database, server], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger).run()
