#define _GNU_SOURCE
#include "CProtectfsIO.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

void linux_reset_signals(void) {
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, NULL);
}

static sigset_t ending_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  return set;
}

void linux_block_ending_signals(void) {
  sigset_t set = ending_signals();
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
}

int linux_wait_for_ending_signal(void) {
  sigset_t set = ending_signals();
  int number = 0;
  sigwait(&set, &number);
  return number;
}
