#ifndef PROTECTFS_CINDEXSTORE_H
#define PROTECTFS_CINDEXSTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What is used of libIndexStore, which comes with Swift's toolchains and reads what compilers write about symbols. Its
// functions are C and stay; not every toolchain installs the header indexstore.h (LLVM, Apache License 2.0 with LLVM
// exceptions), so the functions are declared here anew. All handles are pointers to what only the library knows.

/// `indexstore_string_ref_t`: bytes without a zero at the end, which live as long as the reader that they are from.
struct index_string {
  const char *_Nullable data;
  size_t length;
};

/// Returns false to stop.
typedef bool (*index_name_callback)(void *_Nullable context, struct index_string name);
typedef bool (*index_handle_callback)(void *_Nullable context, void *_Nonnull handle);

enum { INDEX_DEPENDENCY_RECORD = 2 };

// F(result, name, parameters), without the prefix `indexstore_`.
#define INDEX_FUNCTIONS(F) \
  F(const char *_Nullable, error_get_description, (void *_Nonnull error)) \
  F(void, error_dispose, (void *_Nonnull error)) \
  F(void *_Nullable, store_create, (const char *_Nonnull path, void *_Nullable *_Nonnull error)) \
  F(void, store_dispose, (void *_Nonnull store)) \
  F(bool, store_units_apply_f, \
    (void *_Nonnull store, unsigned sorted, void *_Nullable context, index_name_callback _Nonnull callback)) \
  F(void *_Nullable, unit_reader_create, \
    (void *_Nonnull store, const char *_Nonnull name, void *_Nullable *_Nonnull error)) \
  F(void, unit_reader_dispose, (void *_Nonnull unit)) \
  F(bool, unit_reader_is_system_unit, (void *_Nonnull unit)) \
  F(struct index_string, unit_reader_get_main_file, (void *_Nonnull unit)) \
  F(struct index_string, unit_reader_get_module_name, (void *_Nonnull unit)) \
  F(void, unit_reader_get_modification_time, \
    (void *_Nonnull unit, int64_t *_Nonnull seconds, int64_t *_Nonnull nanoseconds)) \
  F(bool, unit_reader_dependencies_apply_f, \
    (void *_Nonnull unit, void *_Nullable context, index_handle_callback _Nonnull callback)) \
  F(int, unit_dependency_get_kind, (void *_Nonnull dependency)) \
  F(struct index_string, unit_dependency_get_name, (void *_Nonnull dependency)) \
  F(struct index_string, unit_dependency_get_filepath, (void *_Nonnull dependency)) \
  F(void *_Nullable, record_reader_create, \
    (void *_Nonnull store, const char *_Nonnull name, void *_Nullable *_Nonnull error)) \
  F(void, record_reader_dispose, (void *_Nonnull record)) \
  F(bool, record_reader_occurrences_apply_f, \
    (void *_Nonnull record, void *_Nullable context, index_handle_callback _Nonnull callback)) \
  F(void *_Nonnull, occurrence_get_symbol, (void *_Nonnull occurrence)) \
  F(uint64_t, occurrence_get_roles, (void *_Nonnull occurrence)) \
  F(void, occurrence_get_line_col, \
    (void *_Nonnull occurrence, unsigned *_Nonnull line, unsigned *_Nonnull column)) \
  F(bool, occurrence_relations_apply_f, \
    (void *_Nonnull occurrence, void *_Nullable context, index_handle_callback _Nonnull callback)) \
  F(uint64_t, symbol_relation_get_roles, (void *_Nonnull relation)) \
  F(void *_Nonnull, symbol_relation_get_symbol, (void *_Nonnull relation)) \
  F(struct index_string, symbol_get_name, (void *_Nonnull symbol)) \
  F(struct index_string, symbol_get_usr, (void *_Nonnull symbol))

struct index_functions {
#define INDEX_MEMBER(result, name, parameters) result(*_Nonnull name) parameters;
  INDEX_FUNCTIONS(INDEX_MEMBER)
#undef INDEX_MEMBER
};

/// Loads libIndexStore from a path. Returns false, and why, if there is none or a function is missing.
bool index_load(
    const char *_Nonnull path, struct index_functions *_Nonnull functions, const char *_Nullable *_Nonnull error);

/// The path of Swift's run time, as it was loaded into this process.
const char *_Nullable index_path_of_runtime(void);

#endif
