// priv-each-namespace  [privilege]
// Tries: make each kind of namespace alone by clone, vfork-like clone and clone3, without a
// user namespace and with junk in the upper half of the flags
// Must hold afterwards: none is made
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
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
struct ca { uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup; };
static void reap(long p, const char *how, const char *kind) {
    if (p == 0) _exit(0);
    if (p > 0) {
        ESC("%s made a %s namespace", how, kind);
        waitpid(p, 0, 0);
    }
}
int main(void) {
    struct { const char *name; uint64_t flag; } kinds[] = {{"mount", 0x20000}, {"cgroup", 0x2000000}, {"uts", 0x4000000}, {"ipc", 0x8000000},
                                                         {"user", 0x10000000}, {"pid", 0x20000000}, {"net", 0x40000000}};
    for (unsigned i = 0; i < 7; i++) {
        uint64_t f = kinds[i].flag;
        reap(syscall(SYS_clone, f | SIGCHLD, 0, 0, 0, 0), "clone", kinds[i].name);
        reap(syscall(SYS_clone, f | SIGCHLD | (1ull << 40), 0, 0, 0, 0), "clone with upper bits", kinds[i].name);
        reap(syscall(SYS_clone, f | SIGCHLD | 0x8000 /* CLONE_PARENT */, 0, 0, 0, 0), "clone as a sibling", kinds[i].name);
        struct ca a = {.flags = f, .exit_signal = SIGCHLD};
        reap(syscall(435, &a, sizeof a), "clone3", kinds[i].name);
        a.flags |= 0x10000000;
        reap(syscall(435, &a, sizeof a), "clone3 with a user namespace", kinds[i].name);
        if (syscall(SYS_unshare, f | (1ull << 40)) == 0) ESC("unshare with upper bits made a %s namespace", kinds[i].name);
    }
    struct ca t = {.flags = 0x80, .exit_signal = SIGCHLD};
    reap(syscall(435, &t, sizeof t), "clone3", "time");
    if (syscall(SYS_unshare, 0x80) == 0) ESC("unshare made a time namespace");
    return done();
}
