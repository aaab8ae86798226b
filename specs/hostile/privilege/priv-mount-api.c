// priv-mount-api  [privilege]
// Tries: the newer mount calls one by one, with every file system that could show the host,
// then see whether anything read-only has become writable
// Must hold afterwards: all are refused and the root is still read-only
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
#include <sys/mount.h>
#include <sys/stat.h>
static void t(const char *what, long r) {
    if (r >= 0) ESC("%s", what);
}
int main(void) {
    const char *kinds[] = {"tmpfs", "proc", "sysfs", "cgroup", "cgroup2", "overlay", "bpf", "devpts", "mqueue", "fuse", "ext4", "debugfs", "securityfs", "devtmpfs", "ramfs"};
    mkdir("m", 0700);
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        t(kinds[i], syscall(430, kinds[i], 0));
        if (mount("none", "m", kinds[i], 0, 0) == 0) {
            ESC("mount %s", kinds[i]);
            umount2("m", MNT_DETACH);
        }
    }
    t("fspick", syscall(433, AT_FDCWD, "/", 0));
    t("fsconfig", syscall(431, -1, 0, 0, 0, 0));
    t("fsmount", syscall(432, -1, 0, 0));
    t("open_tree", syscall(428, AT_FDCWD, "/", 0));
    t("open_tree recursive clone", syscall(428, AT_FDCWD, "/", 1 | 0x8000));
    t("open_tree_attr", syscall(467, AT_FDCWD, "/", 1, 0, 0));
    unsigned long attr[4] = {0, 1 /* clear RDONLY */, 0, 0};
    t("mount_setattr /", syscall(442, AT_FDCWD, "/", 0x8000, attr, sizeof attr));
    t("mount_setattr /usr", syscall(442, AT_FDCWD, "/usr", 0x8000, attr, sizeof attr));
    t("remount", mount(0, "m", 0, MS_REMOUNT | MS_BIND, 0));
    t("shared", mount(0, "m", 0, MS_SHARED, 0));
    /* MNT_EXPIRE only marks at the first call: permitted means EAGAIN or EBUSY, and nothing is unmounted */
    const char *points[] = {"/", "/usr", "/proc", "/work", "/tmp", "/dev"};
    for (unsigned i = 0; i < 6; i++)
        if (umount2(points[i], MNT_EXPIRE) == 0 || errno == EAGAIN || errno == EBUSY) ESC("umount %s", points[i]);
    const char *fixed[] = {"/hostile_dropped", "/usr/hostile_dropped", "/etc/hostile_dropped", "/dev/hostile_dropped", "/proc/hostile_dropped"};
    for (unsigned i = 0; i < 5; i++) {
        int fd = open(fixed[i], O_CREAT | O_WRONLY, 0600);
        if (fd >= 0) {
            unlink(fixed[i]);
            ESC("made %s", fixed[i]);
        }
    }
    return done();
}
