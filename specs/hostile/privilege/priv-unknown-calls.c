// priv-unknown-calls  [privilege]
// Tries: call numbers that the filter's author may not know: gaps, the newest calls, the
// x32-only range, negative numbers
// Must hold afterwards: every one gives ENOSYS (or kills), so that a newer kernel does not
// open a hole
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
int main(void) {
    for (long nr = 335; nr < 1200; nr++) {
        if (nr >= 424 && nr < 470) continue;
        errno = 0;
        long r = syscall(nr, 0, 0, 0, 0, 0, 0);
        if (r >= 0 || errno != ENOSYS) ESC("number %ld gave %ld, errno %d", nr, r, errno);
    }
    long odd[] = {-1, -2, 0x7fffffff, 0x3fffffff, 0x40000000 | 512, 0x40000000 | 520, 0x40000000 | 547};
    for (unsigned i = 0; i < sizeof odd / sizeof *odd; i++) {
        errno = 0;
        long r = syscall(odd[i], 0, 0, 0, 0, 0, 0);
        if (r >= 0 || errno != ENOSYS) ESC("number %lx gave %ld, errno %d", odd[i], r, errno);
    }
    return done();
}
