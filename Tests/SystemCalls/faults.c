#define _GNU_SOURCE
#include "CFaults.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct faults *faults_open(const char *path, const char *backing) {
  struct faults *faults = MAP_FAILED;
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return NULL;
  if (ftruncate(fd, sizeof *faults) == 0)
    faults = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (faults == MAP_FAILED) return NULL;
  strncpy(faults->backing, backing, sizeof faults->backing - 1);
  return faults;
}

void faults_close(struct faults *faults) { munmap(faults, sizeof *faults); }

void faults_arm(struct faults *faults, uint32_t kinds, uint32_t action, uint32_t at, uint32_t error) {
  faults_disarm(faults);
  memset(faults->hit, 0, sizeof faults->hit);
  faults->kinds = kinds;
  faults->action = action;
  faults->at = at;
  faults->error = error;
  faults->pending = 0;
  __atomic_store_n(&faults->seen, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&faults->armed, 1, __ATOMIC_SEQ_CST);
}

void faults_disarm(struct faults *faults) { __atomic_store_n(&faults->armed, 0, __ATOMIC_SEQ_CST); }

uint32_t faults_hanging(const struct faults *faults) { return __atomic_load_n(&faults->hanging, __ATOMIC_SEQ_CST); }

uint32_t faults_seen(const struct faults *faults) { return __atomic_load_n(&faults->seen, __ATOMIC_SEQ_CST); }
