// priv-chroot-walk  [privilege]
// Tries: the classic way out of a chroot: keep a directory descriptor, chroot below it, and
// climb by .. and fchdir; also from the descriptors of /proc/self
// Must hold afterwards: chroot is refused and .. above the root stays at the root
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
#include <sys/stat.h>
static void look(const char *how) {
    char p[256] = "";
    for (int i = 0; i < 40; i++) strcat(p, "../");
    strcat(p, "var/tmp/hostile-canary/secret.txt");
    int fd = open(p, O_RDONLY);
    if (fd >= 0) ESC("read the canary %s", how);
}
int main(void) {
    struct stat root, up;
    mkdir("jail", 0755);
    int here = open(".", O_RDONLY | O_DIRECTORY), top = open("/", O_RDONLY | O_DIRECTORY);
    if (chroot("jail") == 0) {
        ESC("chroot");
        if (fchdir(here) == 0) look("after chroot");
    }
    const char *links[] = {"/proc/self/root", "/proc/self/cwd", "/proc/thread-self/root", "/proc/1/root", "/proc/1/cwd"};
    for (unsigned i = 0; i < 5; i++)
        if (chdir(links[i]) == 0) look(links[i]);
    if (fchdir(top) == 0) look("from the root's descriptor");
    if (stat("/", &root) == 0 && stat("/..", &up) == 0 && (root.st_ino != up.st_ino || root.st_dev != up.st_dev)) ESC(".. of the root is another directory");
    char cwd[4096];
    if (fchdir(here) == 0 && getcwd(cwd, sizeof cwd) && cwd[0] != '/') ESC("the work directory is %s", cwd);
    return done();
}
