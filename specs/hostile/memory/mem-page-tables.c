// mem-page-tables  [memory]
// Tries: read one byte in every 2 MB of a huge mapping: the data is one shared zero page, the
// page tables are real memory that no figure of the program shows
// Must hold afterwards: page tables count: stopped before 600 MB of them
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
#include <sys/mman.h>
int main(void) {
    size_t step = 2ul << 20, n = 150000;
    volatile char sum = 0;
    for (size_t done_ = 0; done_ < n; done_ += 1000) {
        char *p = mmap(0, 1000 * step, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) return done();
        madvise(p, 1000 * step, MADV_NOHUGEPAGE);
        for (size_t i = 0; i < 1000; i++) sum += p[i * step];
    }
    ESC("600 MB of page tables");
    return done();
}
