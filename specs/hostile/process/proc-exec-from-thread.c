// proc-exec-from-thread  [process]
// Tries: execute another program from a thread that is not the first, which makes process
// descriptors and waits report an early end on some kernels
// Must hold afterwards: the run ends with the new program, with 5
// Expected: status exit, exit code 5, survivors 0, wall <= 14 s
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/types.h>
static int bad;
#define ESC(...) do { bad = 1; printf("ESCAPED:" __VA_ARGS__); puts(""); fflush(stdout); } while (0)
__attribute__((unused)) static int done(void) { puts(bad ? "NOT-CONTAINED" : "CONTAINED"); fflush(stdout); return 0; }
#include <pthread.h>
static void *run(void *a) {
    (void)a;
    usleep(200000);
    execl("/bin/sh", "sh", "-c", "sleep 0.7; echo NEW-PROGRAM; exit 5", (char *)0);
    return 0;
}
int main(void) {
    pthread_t t;
    if (pthread_create(&t, 0, run, 0)) return 1;
    for (;;) pause();
}
