// ok-self-restrict  [benign]
// Tries: nothing hostile: a program that restricts itself further by its own seccomp filter
// and landlock rules, as browsers, ssh and man do
// Must hold afterwards: works
// Expected: status exit, exit code 0, survivors 0, wall <= 14 s
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    struct { uint64_t fs, net, scoped; } rules = {1ull << 2 | 1ull << 1, 0, 0}; /* reading and writing files */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 1;
    int rs = syscall(444, &rules, 8, 0);
    if (rs >= 0 && syscall(446, rs, 0)) return 2;
    if (rs >= 0 && open("/etc/passwd", O_RDONLY) >= 0) return 3;
    struct sock_filter no_getppid[] = {{0x20, 0, 0, offsetof(struct seccomp_data, nr)}, {0x15, 0, 1, SYS_getppid}, {6, 0, 0, SECCOMP_RET_ERRNO | 77}, {6, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog prog = {4, no_getppid};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog)) return 4;
    if (syscall(SYS_getppid) != -1 || errno != 77) return 5;
    puts("BENIGN-OK");
    return 0;
}
