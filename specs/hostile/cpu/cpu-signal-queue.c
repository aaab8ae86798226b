// cpu-signal-queue  [cpu]
// Tries: queue signals and make timers without end, to fill kernel memory that belongs to its
// user
// Must hold afterwards: both stop at a limit of a few thousand
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
#include <time.h>
int main(void) {
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &s, 0);
    union sigval v = {0};
    long n = 0, t = 0;
    while (n < 300000 && sigqueue(getpid(), SIGRTMIN, v) == 0) n++;
    struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    timer_t id;
    while (t < 300000 && timer_create(CLOCK_MONOTONIC, &ev, &id) == 0) t++;
    if (n + t > 100000) ESC("%ld signals queued, %ld timers", n, t);
    return done();
}
