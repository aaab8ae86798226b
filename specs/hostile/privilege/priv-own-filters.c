// priv-own-filters  [privilege]
// Tries: install its own seccomp filter that allows everything and its own landlock rules that
// allow everything, then try again what was refused
// Must hold afterwards: rules can only be added: what was refused stays refused
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
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <stdint.h>
int main(void) {
    int before_unshare = syscall(SYS_unshare, 0x10000000), before_ptrace = syscall(SYS_ptrace, 0, 0, 0, 0);
    struct sock_filter all[] = {{6, 0, 0, 0x7fff0000}};
    struct sock_fprog prog = {1, all};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    syscall(SYS_seccomp, 1, 0, &prog);
    syscall(SYS_seccomp, 1, 1 /* TSYNC */, &prog);
    if (prctl(PR_SET_SECCOMP, 0, 0, 0, 0) == 0) ESC("seccomp switched off");
    if (prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0) ESC("no_new_privs switched off");
    struct { uint64_t fs, net, scoped; } rules = {1, 0, 0};
    int rs = syscall(444, &rules, sizeof rules, 0);
    struct __attribute__((packed)) { uint64_t allowed; int32_t fd; } below = {1, open("/", O_PATH)};
    if (rs >= 0) {
        syscall(445, rs, 1, &below, 0);
        syscall(446, rs, 0);
    }
    if (before_unshare == 0 || syscall(SYS_unshare, 0x10000000) == 0) ESC("unshare");
    if (before_ptrace == 0 || syscall(SYS_ptrace, 0, 0, 0, 0) == 0) ESC("ptrace");
    if (open("/var/tmp/hostile-canary/secret.txt", O_RDONLY) >= 0) ESC("canary opened");
    if (open("/usr/hostile_dropped", O_CREAT | O_WRONLY, 0600) >= 0) ESC("file made in /usr");
    return done();
}
