// proc-leader-exits  [process]
// Tries: end the first thread only; another goes on, prints and ends the program with 4
// Must hold afterwards: the run lasts until the whole program has ended, with 4
// Expected: status exit, exit code 4, survivors 0, wall <= 14 s
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
#include <pthread.h>
static void *rest(void *a) {
    (void)a;
    usleep(700000);
    puts("LAST-THREAD");
    fflush(stdout);
    exit(4);
}
int main(void) {
    pthread_t t;
    if (pthread_create(&t, 0, rest, 0)) return 1;
    pthread_exit(0);
}
