// priv-int80  [privilege]
// Tries: call the kernel by int 0x80: the 32-bit table has other numbers, so a filter that
// does not look at the ABI checks the wrong call
// Must hold afterwards: each such call kills the process (SIGSYS) or gives ENOSYS; none is
// carried out
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
#include <sys/wait.h>
static long int80(long nr, long a, long b, long c) {
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(nr), "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11");
    return r;
}
/* 0: carried out, 1: ENOSYS, 2: another refusal, else a signal */
static int attempt(long nr, long a) {
    fflush(stdout);
    pid_t p = fork();
    if (p == 0) {
        long r = int80(nr, a, 0, 0);
        _exit(r >= 0 ? 0 : r == -ENOSYS ? 1 : 2);
    }
    int st = 0;
    waitpid(p, &st, 0);
    return WIFSIGNALED(st) ? 100 + WTERMSIG(st) : WEXITSTATUS(st);
}
int main(void) {
    struct { const char *name; long nr, arg; } calls[] = {
        {"getpid", 20, 0}, {"unshare user", 310, 0x10000000}, {"keyctl", 288, 0}, {"personality", 136, 0x0400000}, {"chroot /", 61, 0}, {"bpf", 357, -1}};
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        int r = attempt(calls[i].nr, calls[i].arg);
        if (r == 0) ESC("32-bit %s was carried out", calls[i].name);
        else if (r == 2) ESC("32-bit %s reached the kernel", calls[i].name);
    }
    return done();
}
