// mem-shared-anon  [memory]
// Tries: touch 700 MB of shared anonymous memory, which limits on private data do not count
// Must hold afterwards: the run is ended for memory and this is reported
// Expected: status killed:memory, survivors 0, wall <= 14 s
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
#include <sys/mman.h>
int main(void) {
    size_t n = 700ul << 20;
    char *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        puts("refused");
        return done();
    }
    for (size_t i = 0; i < n; i += 4096) p[i] = 1;
    sleep(2);
    ESC("700 MB are there");
    return done();
}
