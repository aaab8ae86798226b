// mem-burst  [memory]
// Tries: four processes that touch 230 MB each as fast as they can, faster than a watch that
// looks now and then
// Must hold afterwards: the sum is stopped near the limit
// Expected: status killed:memory|exit|signal, survivors 0, wall <= 14 s
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
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
int main(void) {
    pid_t kids[4];
    for (int k = 0; k < 4; k++) {
        kids[k] = fork();
        if (kids[k] == 0) {
            size_t n = 230ul << 20;
            char *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (p == MAP_FAILED) _exit(1);
            for (size_t i = 0; i < n; i += 4096) p[i] = 1;
            pause();
        }
    }
    sleep(3);
    int alive = 0;
    for (int k = 0; k < 4; k++) alive += kids[k] > 0 && waitpid(kids[k], 0, WNOHANG) == 0;
    if (alive == 4) ESC("four processes of 230 MB");
    return done();
}
