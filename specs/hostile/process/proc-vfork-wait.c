// proc-vfork-wait  [process]
// Tries: a child of vfork that never executes anything: its parent sleeps where only fatal
// signals reach it
// Must hold afterwards: the wall clock ends both
// Expected: status killed:timeout, survivors 0, wall <= 6 s
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
int main(void) {
    for (int i = 0; i < 4; i++)
        if (fork() == 0 && vfork() == 0)
            for (;;) pause();
    if (vfork() == 0)
        for (;;) pause();
    return done();
}
