// priv-file-handles  [privilege]
// Tries: open files by handle instead of by path (the shocker class): the host's root by inode
// 2, processes and namespaces by the handle file systems of newer kernels
// Must hold afterwards: no handle can be asked for and none opened
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
struct fh { unsigned bytes; int type; unsigned char h[128]; };
static void t(const char *what, long r) {
    if (r >= 0) ESC("%s", what);
    else if (errno != EPERM && errno != ENOSYS) ESC("%s was let in (errno %d)", what, errno);
}
int main(void) {
    struct fh h = {.bytes = 128};
    int mount_id;
    const char *paths[] = {"/", "/usr", ".", "/proc/self", "/proc/self/ns/mnt"};
    for (unsigned i = 0; i < 5; i++) {
        h.bytes = 128;
        t("name_to_handle_at", syscall(SYS_name_to_handle_at, AT_FDCWD, paths[i], &h, &mount_id, 0));
        h.bytes = 128;
        t("name_to_handle_at of an identifier", syscall(SYS_name_to_handle_at, AT_FDCWD, paths[i], &h, &mount_id, 0x200));
    }
    int roots[] = {AT_FDCWD, open("/", O_RDONLY | O_DIRECTORY), open("/usr", O_RDONLY | O_DIRECTORY), open("/proc", O_RDONLY | O_DIRECTORY), -10002, -10003};
    for (unsigned i = 0; i < 6; i++) {
        struct fh two = {.bytes = 8, .type = 1, .h = {2}};
        t("open_by_handle_at", syscall(SYS_open_by_handle_at, roots[i], &two, O_RDONLY | O_NONBLOCK));
        struct fh kernfs = {.bytes = 8, .type = 0xfe, .h = {1}};
        t("open_by_handle_at of a kernel object", syscall(SYS_open_by_handle_at, roots[i], &kernfs, O_RDONLY | O_NONBLOCK));
        struct fh ns = {.bytes = 16, .type = 0xf1};
        t("open_by_handle_at of a namespace", syscall(SYS_open_by_handle_at, roots[i], &ns, O_RDONLY | O_NONBLOCK));
    }
    return done();
}
