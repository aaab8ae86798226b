// proc-sibling-forging  [process]
// Tries: start a sibling instead of a child (CLONE_PARENT), which its parent will reap and may
// take for the main program; the sibling exits with 0, this program later with 7
// Must hold afterwards: the run ends when this program ends, with 7
// Expected: status exit, exit code 7, survivors 0, wall <= 14 s
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
#include <signal.h>
int main(void) {
    for (int i = 0; i < 3; i++) {
        long p = syscall(SYS_clone, 0x8000 /* CLONE_PARENT */ | SIGCHLD, 0, 0, 0, 0);
        if (p == 0) _exit(0);
        printf("sibling %s\n", p > 0 ? "made" : "refused");
    }
    fflush(stdout);
    usleep(800000);
    puts("MAIN-ENDED");
    return 7;
}
