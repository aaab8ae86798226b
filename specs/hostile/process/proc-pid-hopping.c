// proc-pid-hopping  [process]
// Tries: a chain of processes in which each starts the next in a new session and exits, so
// that a killer that walks process ids is always late
// Must hold afterwards: the chain is dead when the run is
// Expected: status exit, exit code 0, survivors 0, wall <= 6 s
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
#include <sys/wait.h>
#include <time.h>
int main(void) {
    time_t end = time(0) + 30;
    if (fork() == 0) {
        while (time(0) < end) {
            setsid();
            pid_t p = fork();
            if (p > 0) _exit(0);
            if (p < 0) usleep(1000);
        }
        _exit(0);
    }
    usleep(1500000);
    return done();
}
