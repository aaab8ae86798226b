// proc-no-core  [process]
// Tries: crash in every usual way, hoping for core files or a crash helper of the host
// Must hold afterwards: no core file appears, the crashes are seen as signals by the parent
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
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
int main(void) {
    int sigs[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGQUIT, SIGSYS};
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY}, now;
    if (setrlimit(RLIMIT_CORE, &all) == 0) ESC("core limit raised");
    getrlimit(RLIMIT_CORE, &now);
    for (unsigned i = 0; i < 8; i++) {
        pid_t p = fork();
        if (p == 0) {
            signal(sigs[i], SIG_DFL);
            raise(sigs[i]);
            _exit(0);
        }
        int st = 0;
        waitpid(p, &st, 0);
        if (!WIFSIGNALED(st)) printf("signal %d did not end it\n", sigs[i]);
        else if (WCOREDUMP(st)) ESC("core dumped by signal %d", sigs[i]);
    }
    DIR *d = opendir(".");
    for (struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, "core", 4)) ESC("%s was left", e->d_name);
    return done();
}
