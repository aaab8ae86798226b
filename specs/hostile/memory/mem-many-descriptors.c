// mem-many-descriptors  [memory]
// Tries: open as many descriptors as it can in several processes
// Must hold afterwards: each process stops at a limit of some thousands
// Expected: status exit|signal|killed:seccomp, survivors 0, wall <= 14 s
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
#include <sys/resource.h>
int main(void) {
    struct rlimit r;
    getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    long n = 0;
    while (n < 200000 && dup(0) >= 0) n++;
    printf("%ld descriptors\n", n);
    fflush(stdout);
    if (n > 65536) ESC("%ld descriptors in one process", n);
    return done();
}
