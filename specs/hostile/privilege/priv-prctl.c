// priv-prctl  [privilege]
// Tries: prctl switches that loosen things: keeping capabilities, raising ambient ones, moving
// its own memory areas, choosing who may trace it, speculation and securebits
// Must hold afterwards: all that would give something are refused
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
#ifndef PR_CAP_AMBIENT
#define PR_CAP_AMBIENT 47
#endif
int main(void) {
    for (int cap = 0; cap < 41; cap++) {
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) > 0) ESC("capability %d is in the bounding set", cap);
        if (prctl(PR_CAP_AMBIENT, 2 /* RAISE */, cap, 0, 0) == 0) ESC("ambient capability %d", cap);
    }
    if (prctl(PR_SET_SECUREBITS, 0, 0, 0, 0) == 0) ESC("securebits cleared");
    if (prctl(PR_SET_MM, 99, 0, 0, 0) == 0 || (errno != EPERM && errno != ENOSYS)) ESC("PR_SET_MM was let in");
    if (prctl(PR_SET_PTRACER, -1, 0, 0, 0) == 0) ESC("anybody may trace");
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) ESC("no_new_privs is off");
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2) ESC("no seccomp filter");
    if (prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) != 0) puts("note: timer slack refused");
    return done();
}
