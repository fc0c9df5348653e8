// Keeps a file open and mapped, and reports how it can be read: holder FILE REQUESTS REPLY
//
// Each time that something is written to the fifo REQUESTS, a line is written to REPLY. The file begins with "text".

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static sigjmp_buf fault;

static void fail(int number) { siglongjmp(fault, number); }

static const char *result(int file) {
  char bytes[4];
  ssize_t count = file < 0 ? -1 : pread(file, bytes, sizeof bytes, 0);
  return count < 0 ? strerror(errno) : count == 4 && memcmp(bytes, "text", 4) == 0 ? "ok" : "other bytes";
}

int main(int count, char **arguments) {
  struct sigaction action = {.sa_handler = fail, .sa_flags = SA_NODEFER};
  int file = count == 4 ? open(arguments[1], O_RDONLY) : -1;
  volatile char *map = mmap(NULL, 4, PROT_READ, MAP_SHARED, file, 0);
  if (map == MAP_FAILED || sigaction(SIGBUS, &action, NULL) != 0) return perror(arguments[1]), 1;
  for (;;) {
    char request[16];
    int requests = open(arguments[2], O_RDONLY);
    if (requests < 0) return perror(arguments[2]), 1;
    if (read(requests, request, sizeof request) > 0) {
      const char *mapped = sigsetjmp(fault, 1) == 0 ? (map[0] == 't' ? "ok" : "other bytes") : "SIGBUS";
      int another = open(arguments[1], O_RDONLY);
      FILE *reply = fopen(arguments[3], "w");
      if (reply == NULL) return perror(arguments[3]), 1;
      fprintf(reply, "new open: %s; ", result(another));
      fprintf(reply, "open descriptor: %s; mapping: %s\n", result(file), mapped);
      fclose(reply);
      if (another >= 0) close(another);
    }
    close(requests);
  }
}
