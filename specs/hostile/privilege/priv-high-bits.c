// priv-high-bits  [privilege]
// Tries: put junk into the upper half of arguments that the kernel reads as 32 bits, which a
// filter that compares 64 bits lets pass: ioctl requests, socket families, prctl and
// personality values, file modes
// Must hold afterwards: an argument with junk above is refused just like the same argument
// without
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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#define JUNK 0x5a5a5a5a00000000ul
/* refused by the filter, not by the object: pipes know no terminal calls */
static void same(const char *what, int plain, int junk) {
    if (plain != junk) ESC("%s: errno %d plain, %d with upper bits", what, plain, junk);
}
static int err(long r) { return r < 0 ? errno : 0; }
int main(void) {
    int p[2];
    if (pipe(p)) return 1;
    unsigned long req[] = {0x5412, 0x541c, 0x541d, 0x5423, 0x40086602, 0x401c5820, 0xc0045877, 0xc0185879};
    for (unsigned i = 0; i < 8; i++)
        same("ioctl", err(syscall(SYS_ioctl, p[0], req[i], 0)), err(syscall(SYS_ioctl, p[0], req[i] | JUNK, 0)));
    long families[][3] = {{17, 3, 0x300}, {40, 1, 0}, {16, 3, 12}, {16, 3, 9}, {38, 5, 0}, {2, 3, 1}, {2, 1, 132}, {2, 2, 1}, {44, 3, 0}};
    for (unsigned i = 0; i < 9; i++) {
        long *f = families[i];
        int a = err(syscall(SYS_socket, f[0], f[1], f[2]));
        same("socket family", a, err(syscall(SYS_socket, f[0] | JUNK, f[1], f[2])));
        same("socket type", a, err(syscall(SYS_socket, f[0], f[1] | JUNK, f[2])));
        same("socket type flags", a, err(syscall(SYS_socket, f[0], f[1] | SOCK_CLOEXEC | SOCK_NONBLOCK, f[2])));
        same("socket protocol", a, err(syscall(SYS_socket, f[0], f[1], f[2] | JUNK)));
        if (!a) ESC("socket %ld %ld %ld", f[0], f[1], f[2]);
    }
    same("personality", err(syscall(SYS_personality, 0x0400000)), err(syscall(SYS_personality, 0x0400000 | JUNK)));
    same("PR_SET_MM", err(syscall(SYS_prctl, PR_SET_MM, 99, 0, 0, 0)), err(syscall(SYS_prctl, PR_SET_MM | JUNK, 99, 0, 0, 0)));
    same("mknod", err(syscall(SYS_mknod, "dev", S_IFCHR | 0600, 0x103)), err(syscall(SYS_mknod, "dev", S_IFCHR | 0600 | JUNK, 0x103)));
    struct stat st;
    if (stat("dev", &st) == 0) ESC("a device was made");
    return done();
}
