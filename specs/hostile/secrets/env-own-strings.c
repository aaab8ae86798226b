// env-own-strings  [secrets]
// Tries: read what the kernel keeps about its start: arguments, environment, program name,
// auxiliary vector, and the strings on the stack above them
// Must hold afterwards: no path or secret of the host is there
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
#include <sys/auxv.h>
extern char **environ;
int main(int argc, char **argv) {
    char *low = argv[0], *high = low;
    for (int i = 0; i < argc; i++) high = argv[i] + strlen(argv[i]);
    for (char **e = environ; *e; e++) high = *e + strlen(*e);
    char *exec = (char *)getauxval(AT_EXECFN);
    if (exec) high = exec + strlen(exec);
    const char *words[] = {"CANARY", "HOSTILE_SECRET", "/var/tmp/hostile", "SAGGAR_HOME", "SAGGAR_API_KEY", "SUDO_", "SSH_"};
    for (char *p = low; p < high; p++)
        for (unsigned i = 0; i < 7; i++)
            if (!strncmp(p, words[i], strlen(words[i]))) ESC("%s on the stack: %.60s", words[i], p);
    return done();
}
