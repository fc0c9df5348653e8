import CProtectfsIndexStore

/// The index that the compiler writes while it builds.
@safe
struct IndexStore: ~Copyable {
  private let functions: index_functions
  private let store: UnsafeMutableRawPointer

  /// - Parameters:
  ///   - path: the directory that the compiler's `-index-store-path` names.
  ///   - library: the toolchain's libIndexStore.
  init(path: String, library: String) throws(LintError) {
    let functions = try index_functions(library: library)
    var error: UnsafeMutableRawPointer?
    guard let store = unsafe functions.store_create(path, &error) else {
      throw unsafe LintError("cannot read the index: \(functions.describe(error)). \(LintError.howToIndex)")
    }
    self.functions = functions
    unsafe self.store = store
  }

  deinit { unsafe functions.store_dispose(store) }

  /// The Swift files that were compiled, each with the occurrences of symbols whose name is wanted.
  func files(wanted: @escaping (_ name: String) -> Bool) throws(LintError) -> [IndexedFile] {
    var names: [String] = []
    _ = unsafe withUnsafeMutablePointer(to: &names) { names in
      unsafe functions.store_units_apply_f(store, 1, names) { context, name in
        unsafe context!.assumingMemoryBound(to: [String].self).pointee.append(String(name))
        return true
      }
    }
    var files: [IndexedFile] = []
    for name in names where !Self.isModule(name) {
      guard let (unread, records) = try file(ofUnit: name) else { continue }
      var file = unread
      for record in records { file.occurrences += try occurrences(inRecord: record, wanted: wanted) }
      files.append(file)
    }
    return files
  }

  /// Units of modules that came compiled, which are many and not read.
  private static func isModule(_ unit: String) -> Bool {
    [".pcm-", ".swiftmodule-", ".swiftinterface-"].contains { unit.contains($0) }
  }

  /// A unit's file, and the names of its records.
  private func file(ofUnit name: String) throws(LintError) -> (IndexedFile, records: [String])? {
    var error: UnsafeMutableRawPointer?
    guard let unit = unsafe functions.unit_reader_create(store, name, &error) else {
      throw unsafe LintError("cannot read \(name) in the index: \(functions.describe(error))")
    }
    defer { unsafe functions.unit_reader_dispose(unit) }
    let path = unsafe String(functions.unit_reader_get_main_file(unit))
    guard unsafe !functions.unit_reader_is_system_unit(unit), path.hasSuffix(".swift") else { return nil }
    var (seconds, nanoseconds): (Int64, Int64) = (0, 0)
    unsafe functions.unit_reader_get_modification_time(unit, &seconds, &nanoseconds)
    let module = unsafe String(functions.unit_reader_get_module_name(unit))

    var records = UnitRecords(functions: functions, path: path)
    _ = unsafe withUnsafeMutablePointer(to: &records) { records in
      unsafe functions.unit_reader_dependencies_apply_f(unit, records) { context, dependency in
        let records = unsafe context!.assumingMemoryBound(to: UnitRecords.self)
        let functions = unsafe records.pointee.functions
        // Other records of a unit are those of macros' expansions, which are no files.
        if unsafe functions.unit_dependency_get_kind(dependency) == INDEX_DEPENDENCY_RECORD,
          unsafe String(functions.unit_dependency_get_filepath(dependency)) == records.pointee.path
        {
          unsafe records.pointee.names.append(String(functions.unit_dependency_get_name(dependency)))
        }
        return true
      }
    }
    return (IndexedFile(path: path, module: module, compiled: (seconds, nanoseconds)), records.names)
  }

  private func occurrences(
    inRecord name: String, wanted: @escaping (String) -> Bool
  ) throws(LintError) -> [Occurrence] {
    var error: UnsafeMutableRawPointer?
    guard let record = unsafe functions.record_reader_create(store, name, &error) else {
      throw unsafe LintError("cannot read \(name) in the index: \(functions.describe(error))")
    }
    defer { unsafe functions.record_reader_dispose(record) }
    var found = RecordOccurrences(functions: functions, wanted: wanted)
    _ = unsafe withUnsafeMutablePointer(to: &found) { found in
      unsafe functions.record_reader_occurrences_apply_f(record, found) { context, handle in
        let found = unsafe context!.assumingMemoryBound(to: RecordOccurrences.self)
        guard let occurrence = unsafe found.pointee.occurrence(handle) else { return true }
        unsafe found.pointee.occurrences.append(occurrence)
        _ = unsafe found.pointee.functions.occurrence_relations_apply_f(handle, context) { context, relation in
          unsafe context!.assumingMemoryBound(to: RecordOccurrences.self).pointee.relate(relation)
          return true
        }
        return true
      }
    }
    return found.occurrences
  }
}
