// mem-deep-recursion  [memory]
// Tries: recurse until the stack ends
// Must hold afterwards: a plain SIGSEGV of the program, reported as that signal and not as a
// limit
// Expected: status signal, survivors 0, wall <= 8 s
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
static volatile char sink;
static int deeper(int n) {
    volatile char pad[4096];
    pad[n % 4096] = (char)n;
    sink = pad[0];
    return deeper(n + 1) + pad[1];
}
int main(int argc, char **argv) {
    (void)argv;
    return deeper(argc) + done();
}
