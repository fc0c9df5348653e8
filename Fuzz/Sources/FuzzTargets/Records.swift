import ProtectfsPolicy
import StoreFormat

@testable import KeyManagement

func fuzzRecords(_ bytes: [UInt8]) {
  if let record = try? FileRecord(parsing: bytes, length: 1) {
    precondition(record.bytes == bytes, "a record has one form")
    let hasMark = (try? FileRecord(parsing: bytes)) == nil
    precondition(hasMark == (record.clean != nil), "marks are only in stores that have them")
    precondition(record.wrappedKey.count == FileRecord.wrappedKeySize(in: record.fileClass))
    precondition(bytes.count <= FileRecord.longest)
    let isLong = record.fileClass == .completeUnlessOpen
    precondition(bytes.count == (isLong ? 96 : 64) + (record.pending == nil ? 0 : 48))
    if let pending = record.pending { precondition(pending.boundary <= PendingRekey.highestBoundary) }
  }
  if let record = try? DirectoryRecord(parsing: bytes) {
    precondition(record.bytes == bytes, "a record has one form")
    precondition(bytes.count == DirectoryRecord.size)
    precondition(record.directoryID.count == DirectoryRecord.identifierSize)
    precondition((try? FileRecord(parsing: bytes, length: 1)) == nil, "no bytes are both records")
  }
}

/// What hosts have outside the keybag.
func fuzzHostRecords(_ bytes: [UInt8]) {
  if let request = try? HostRequestRecord(parsing: bytes) {
    precondition(request.bytes == bytes, "a request has one form")
    precondition(bytes.count <= HostRequestRecord.longest)
    precondition(!request.classes.isEmpty && !request.classes.contains(.none))
  }
  if let host = try? HostRecord(parsing: bytes) {
    precondition(host.bytes == bytes, "a host's file has one form")
    precondition(bytes.count == HostRecord.size && host.derivation.salt.count == 32)
  }
  if let lock = try? HostLockRecord(parsing: bytes) {
    precondition(lock.bytes == bytes, "a lock of hosts has one form")
    precondition(bytes.count == HostLockRecord.size && lock.request != 0)
  }
}

func fuzzRekeyBatches(_ bytes: [UInt8]) {
  guard let batch = try? RekeyBatch(parsing: bytes) else { return }
  precondition(batch.bytes == bytes, "a batch has one form")
  precondition(RekeyBatch.chunkCount.contains(batch.chunks.count) && batch.number > 0)
  for chunk in batch.chunks {
    precondition(chunk.boundary <= chunk.firstUnit && chunk.firstUnit < chunk.nextBoundary)
    precondition(
      chunk.range.upperBound <= chunk.nextBoundary * 4096 && chunk.nextBoundary <= PendingRekey.highestBoundary)
  }
}

func fuzzAttempts(_ bytes: [UInt8]) {
  guard let record = try? AttemptsRecord(parsing: bytes) else { return }
  precondition(record.bytes == bytes, "a record has one form")
  precondition(bytes.count == AttemptsRecord.size)

  var attempts = PasscodeAttempts(record)
  let longest = PasscodeDelay.seconds(after: .max)
  for now in [0, record.lastTime, record.lastTime &+ 1, .max] {
    precondition(attempts.delay(at: now) <= PasscodeDelay.seconds(after: record.count))
    precondition(attempts.delay(at: now) <= longest)
  }
  precondition(attempts.delay(at: record.lastTime) == PasscodeDelay.seconds(after: record.count))

  // Another wrong passcode: counted once, and what is written then is read back.
  let fingerprint = UInt16(record.tag[0]) | UInt16(record.tag[1]) << 8
  attempts.note(fingerprint, at: record.lastTime)
  precondition(attempts.count >= record.count && (attempts.count == record.count) == (record.count == .max))
  let noted = attempts
  attempts.note(fingerprint, at: record.lastTime)
  precondition(attempts == noted, "the same passcode does not count again")
  guard let written = attempts.record else { preconditionFailure("there was a wrong passcode") }
  precondition(written == must("parsing a record just made") { try AttemptsRecord(parsing: written.bytes) })
}
