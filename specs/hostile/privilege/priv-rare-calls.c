// priv-rare-calls  [privilege]
// Tries: calls that ordinary programs never make and kernel exploits do: notification of
// foreign files, user fault handling, handles, memory policies of others, old asynchronous
// I/O, local descriptor tables
// Must hold afterwards: each gives EPERM or ENOSYS before its arguments are looked at
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
static void t(const char *n, long r) {
    if (r >= 0) ESC("%s succeeded", n);
    else if (errno != EPERM && errno != ENOSYS) ESC("%s was let in (errno %d)", n, errno);
}
int main(void) {
    t("fanotify_init", syscall(SYS_fanotify_init, 0x200 /* FAN_REPORT_FID */, 0));
    t("fanotify_mark", syscall(SYS_fanotify_mark, -1, 1, 1, -1, "."));
    t("userfaultfd", syscall(SYS_userfaultfd, 1));
    t("memfd_secret", syscall(447, 0));
    t("io_setup", syscall(SYS_io_setup, 1, (void *)8));
    t("io_uring_setup", syscall(425, 0, 0));
    t("io_uring_enter", syscall(426, -1, 0, 0, 0, 0));
    t("io_uring_register", syscall(427, -1, 0, 0, 0));
    t("kcmp", syscall(SYS_kcmp, getpid(), getpid(), 0, 0, 0));
    t("modify_ldt", syscall(SYS_modify_ldt, 0, 0, 0));
    t("lookup_dcookie", syscall(212, 0, 0, 0));
    t("uselib", syscall(134, "/nonexistent"));
    t("ustat", syscall(136, 0, 0));
    t("move_pages", syscall(SYS_move_pages, 0, 0, 0, 0, 0, 0));
    t("migrate_pages", syscall(SYS_migrate_pages, 0, 0, 0, 0));
    t("mbind", syscall(SYS_mbind, 0, 0, 0, 0, 0, 0));
    t("set_mempolicy", syscall(SYS_set_mempolicy, 0, 0, 0));
    t("process_madvise", syscall(440, -1, 0, 0, 0, 0));
    t("process_mrelease", syscall(448, -1, 0));
    t("process_vm_writev", syscall(SYS_process_vm_writev, getpid(), 0, 0, 0, 0, 0));
    t("pidfd_getfd", syscall(438, -1, 0, 0));
    t("quotactl_fd", syscall(443, -1, 0, 0, 0));
    t("lsm_set_self_attr", syscall(460, 0, 0, 0, 0));
    t("clock_adjtime", syscall(SYS_clock_adjtime, 0, (void *)8));
    t("adjtimex", syscall(SYS_adjtimex, (void *)8));
    t("clock_settime", syscall(SYS_clock_settime, 0, (void *)8));
    t("nfsservctl", syscall(180, 0, 0, 0));
    t("kexec_file_load", syscall(320, -1, -1, 0, 0, 0));
    t("finit_module", syscall(SYS_finit_module, -1, "", 0));
    t("setdomainname", syscall(SYS_setdomainname, "x", 0));
    t("perf_event_open", syscall(SYS_perf_event_open, 0, 0, -1, -1, 0));
    t("bpf", syscall(SYS_bpf, -1, 0, 0));
    t("ptrace", syscall(SYS_ptrace, 0 /* TRACEME */, 0, 0, 0));
    t("listmount", syscall(458, 0, 0, 0, 0));
    t("statmount", syscall(457, 0, 0, 0, 0));
    t("remap_file_pages", syscall(SYS_remap_file_pages, 0, 0, 0, 0, 0));
    t("vmsplice", syscall(SYS_vmsplice, -1, 0, 0, 0));
    return done();
}
