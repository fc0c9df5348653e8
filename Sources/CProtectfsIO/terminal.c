// The terminal while a secret is typed: what is typed is not shown, until this is over or a signal ends the process.
#include "calls.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/// Signals that end the process unless it has arranged for something else.
static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
enum { ENDING_COUNT = sizeof ending / sizeof *ending };

/// The terminal on which nothing is shown, or -1; its attributes, and the actions for signals, from before.
static volatile sig_atomic_t hidden_on = -1;
static struct termios attributes;
static struct sigaction actions[ENDING_COUNT];

/// What was typed of a secret is dropped, not left for the next program.
static void restore(int terminal) {
  tcflush(terminal, TCIFLUSH);
  tcsetattr(terminal, TCSANOW, &attributes);
}

/// Calls only what a signal handler may call (signal-safety(7)). In the background the terminal is another program's,
/// and changing it would stop this process (SIGTTOU).
void linux_show_typing_at_end(void) {
  int terminal = hidden_on;
  if (terminal >= 0 && tcgetpgrp(terminal) == getpgrp()) restore(terminal);
}

static void show_and_end(int number) {
  linux_show_typing_at_end();
  for (int i = 0; i < ENDING_COUNT; i++) {
    if (ending[i] == number) sigaction(number, &actions[i], NULL);
  }
  // Delivered when this returns.
  raise(number);
}

int linux_hide_typing(int terminal) {
  REQUIRE_CALLS_ALLOWED();
  static int is_registered;
  if (!is_registered && atexit(linux_show_typing_at_end) != 0) return -ENOMEM;
  is_registered = 1;
  if (tcgetattr(terminal, &attributes) < 0) return -errno;
  hidden_on = terminal;
  for (int i = 0; i < ENDING_COUNT; i++) {
    struct sigaction action = {.sa_handler = show_and_end};
    sigfillset(&action.sa_mask);
    sigaction(ending[i], NULL, &actions[i]);
    if (actions[i].sa_handler == SIG_DFL) sigaction(ending[i], &action, NULL);
  }
  // It does not wait for the end of a line, and sends no signals for keys (termios(3)).
  struct termios silent = attributes;
  silent.c_lflag &= ~(tcflag_t)(ECHO | ICANON | ISIG);
  int result = (int)RESULT(tcsetattr(terminal, TCSAFLUSH, &silent));
  if (result < 0) linux_show_typing();
  return result;
}

void linux_show_typing(void) {
  if (hidden_on < 0) return;
  restore(hidden_on);
  hidden_on = -1;
  for (int i = 0; i < ENDING_COUNT; i++) sigaction(ending[i], &actions[i], NULL);
}

int linux_terminal_columns(int stream) {
  struct winsize size;
  return ioctl(stream, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}
