// net-families  [network]
// Tries: make a socket of every family, type and protocol that the kernel might know
// Must hold afterwards: only unix sockets, TCP and UDP, and netlink for routes exist
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
#include <sys/socket.h>
int main(void) {
    int types[] = {1, 2, 3, 4, 5, 6, 10}, protocols[] = {0, 1, 2, 6, 17, 33, 58, 115, 132, 136, 255, 256, 262};
    for (int family = 0; family < 64; family++)
        for (unsigned t = 0; t < 7; t++)
            for (unsigned p = 0; p < 13; p++) {
                int fd = socket(family, types[t], protocols[p]);
                if (fd < 0) continue;
                close(fd);
                int plain = (types[t] == 1 || types[t] == 2) && (protocols[p] == 0 || protocols[p] == 6 || protocols[p] == 17);
                if (family == 1 || ((family == 2 || family == 10) && plain) || (family == 16 && protocols[p] == 0)) continue;
                ESC("socket family %d type %d protocol %d", family, types[t], protocols[p]);
            }
    for (int protocol = 1; protocol < 32; protocol++) {
        int fd = socket(16, 3, protocol);
        if (fd >= 0) {
            close(fd);
            ESC("netlink protocol %d", protocol);
        }
    }
    int sv[2];
    for (int family = 2; family < 64; family++)
        if (socketpair(family, 1, 0, sv) == 0 || socketpair(family, 5, 0, sv) == 0) ESC("pair of family %d", family);
    return done();
}
