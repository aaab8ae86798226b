// priv-namespace-parents  [privilege]
// Tries: ask a namespace for its parent or owner by ioctl, and enter the namespaces of process
// 1 by descriptors of its process
// Must hold afterwards: no parent is given and nothing can be entered
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
#include <sys/ioctl.h>
#include <sys/stat.h>
int main(void) {
    const char *k[] = {"mnt", "net", "pid", "user", "ipc", "uts", "cgroup", "time", "pid_for_children"};
    char path[64];
    for (unsigned i = 0; i < 9; i++) {
        snprintf(path, sizeof path, "/proc/self/ns/%s", k[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        int parent = ioctl(fd, 0xb702 /* NS_GET_PARENT */);
        if (parent >= 0) ESC("parent of the %s namespace", k[i]);
        if (!strcmp(k[i], "user") && ioctl(fd, 0xb701 /* NS_GET_USERNS */) >= 0) ESC("owner of the user namespace");
        if (syscall(SYS_setns, fd, 0) == 0) ESC("setns to its own %s namespace", k[i]);
        if (ioctl(fd, 0x8010b70b /* NS_MNT_GET_NEXT */, path) >= 0) ESC("the next mount namespace");
        close(fd);
    }
    int pf = syscall(434, 1, 0);
    if (pf >= 0) {
        int flags[] = {0x20000, 0x40000000, 0x20000000, 0x10000000, 0x8000000, 0x4000000, 0x2000000, 0x7e020000};
        for (unsigned i = 0; i < 8; i++)
            if (syscall(SYS_setns, pf, flags[i]) == 0) ESC("setns %x by the descriptor of process 1", flags[i]);
        for (unsigned n = 1; n <= 10; n++) {  /* PIDFD_GET_*_NAMESPACE */
            int ns = ioctl(pf, 0xff00 | n, 0);
            if (ns >= 0 && syscall(SYS_setns, ns, 0) == 0) ESC("entered namespace %u of process 1", n);
        }
    }
    return done();
}
