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
    int ready[2];
    if (pipe(ready)) return 1;
    for (int k = 0; k < 4; k++) {
        if (fork() == 0) {
            close(ready[0]);
            size_t n = 230ul << 20;
            char *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (p == MAP_FAILED) _exit(1);
            for (size_t i = 0; i < n; i += 4096) p[i] = 1;
            if (write(ready[1], "k", 1) != 1) _exit(1);
            pause();
        }
    }
    /* Ends at the fourth word, or when the last of those that did not get there is gone. */
    close(ready[1]);
    char word;
    int holding = 0;
    while (holding < 4 && read(ready[0], &word, 1) == 1) holding++;
    if (holding == 4) ESC("four processes of 230 MB");
    return done();
}
