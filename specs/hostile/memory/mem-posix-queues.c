// mem-posix-queues  [memory]
// Tries: reserve kernel memory by POSIX message queues
// Must hold afterwards: stopped at the limit on such queues
// Expected: status killed:memory|exit|signal|killed:seccomp, survivors 0, wall <= 14 s
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
#include <mqueue.h>
#include <sys/stat.h>
int main(void) {
    char name[32];
    long total = 0;
    for (int i = 0; i < 2000; i++) {
        struct mq_attr a = {.mq_maxmsg = 10, .mq_msgsize = 8192};
        snprintf(name, sizeof name, "/hostile-%d", i);
        mqd_t q = mq_open(name, O_CREAT | O_RDWR | O_NONBLOCK, 0600, &a);
        if (q < 0) break;
        char buf[8192] = {0};
        while (mq_send(q, buf, sizeof buf, 0) == 0) total += sizeof buf;
    }
    printf("%ld KB\n", total >> 10);
    if (total > 64l << 20) ESC("%ld MB in queues", total >> 20);
    return done();
}
