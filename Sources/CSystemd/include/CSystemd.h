#ifndef PROTECTFS_CSYSTEMD_H
#define PROTECTFS_CSYSTEMD_H

#include <systemd/sd-bus.h>

// What is used of libsystemd. No program is linked with it: each daemon would have it in its memory, and seven other
// libraries that it needs.
#define SYSTEMD_FUNCTIONS(F) \
  F(bus_add_match) \
  F(bus_call) \
  F(bus_call_async) \
  F(bus_error_free) \
  F(bus_flush_close_unref) \
  F(bus_get_fd) \
  F(bus_message_append_basic) \
  F(bus_message_at_end) \
  F(bus_message_close_container) \
  F(bus_message_enter_container) \
  F(bus_message_exit_container) \
  F(bus_message_get_path) \
  F(bus_message_get_sender) \
  F(bus_message_is_method_error) \
  F(bus_message_new_method_call) \
  F(bus_message_open_container) \
  F(bus_message_read_basic) \
  F(bus_message_ref) \
  F(bus_message_set_auto_start) \
  F(bus_message_skip) \
  F(bus_message_unref) \
  F(bus_open_system) \
  F(bus_open_user) \
  F(bus_process) \
  F(bus_slot_unref)

/// Functions of sd-bus(3), without their prefix `sd_`.
struct systemd_functions {
#define SYSTEMD_MEMBER(name) __typeof__(sd_##name) *_Nonnull name;
  SYSTEMD_FUNCTIONS(SYSTEMD_MEMBER)
#undef SYSTEMD_MEMBER
};

/// Loads libsystemd. Where that fails, returns NULL, and in `error` why. Not to be called by two threads at once.
const struct systemd_functions *_Nullable systemd_load(const char *_Nullable *_Nonnull error);

#endif
