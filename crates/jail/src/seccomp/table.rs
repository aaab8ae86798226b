//! Which system calls a run may make.
//!
//! The lists start from Docker's default profile, less what a program under test has no use for. One table serves both
//! processors; names that only x86_64 has are apart.

use libc::c_long;

/// Allowed with any arguments.
pub(super) const ALLOW: &[c_long] = &[
    libc::SYS_accept, libc::SYS_accept4, libc::SYS_bind, libc::SYS_brk, libc::SYS_capget, libc::SYS_capset,
    libc::SYS_chdir, libc::SYS_clock_getres, libc::SYS_clock_gettime, libc::SYS_clock_nanosleep,
    libc::SYS_close, libc::SYS_close_range, libc::SYS_connect, libc::SYS_copy_file_range, libc::SYS_dup,
    libc::SYS_dup3, libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2, libc::SYS_execve, libc::SYS_execveat, libc::SYS_exit, libc::SYS_exit_group,
    libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_fadvise64, libc::SYS_fallocate, libc::SYS_fchdir,
    libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fchown, libc::SYS_fchownat, libc::SYS_fcntl,
    libc::SYS_fdatasync, libc::SYS_fgetxattr, libc::SYS_flistxattr, libc::SYS_flock, libc::SYS_fremovexattr,
    libc::SYS_fsetxattr, libc::SYS_fstat, libc::SYS_fstatfs, libc::SYS_fsync, libc::SYS_ftruncate,
    libc::SYS_futex, libc::SYS_futex_waitv, libc::SYS_get_robust_list, libc::SYS_getcpu, libc::SYS_getcwd,
    libc::SYS_getdents64, libc::SYS_getegid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getgroups,
    libc::SYS_getitimer, libc::SYS_getpeername, libc::SYS_getpgid, libc::SYS_getpid, libc::SYS_getppid,
    libc::SYS_getpriority, libc::SYS_getrandom, libc::SYS_getresgid, libc::SYS_getresuid, libc::SYS_getrusage,
    libc::SYS_getsid, libc::SYS_getsockname, libc::SYS_getsockopt, libc::SYS_gettid, libc::SYS_gettimeofday,
    libc::SYS_getuid, libc::SYS_getxattr, libc::SYS_inotify_add_watch, libc::SYS_inotify_init1,
    libc::SYS_inotify_rm_watch, libc::SYS_ioprio_get, libc::SYS_kill, libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset, libc::SYS_landlock_restrict_self, libc::SYS_lgetxattr, libc::SYS_linkat,
    libc::SYS_listen, libc::SYS_listxattr, libc::SYS_llistxattr, libc::SYS_lremovexattr, libc::SYS_lseek,
    libc::SYS_lsetxattr, libc::SYS_madvise, libc::SYS_membarrier, libc::SYS_memfd_create, libc::SYS_mincore,
    libc::SYS_mkdirat, libc::SYS_mlock, libc::SYS_mlock2, libc::SYS_mlockall, libc::SYS_mmap,
    libc::SYS_mprotect, libc::SYS_mq_getsetattr, libc::SYS_mq_notify, libc::SYS_mq_open,
    libc::SYS_mq_timedreceive, libc::SYS_mq_timedsend, libc::SYS_mq_unlink, libc::SYS_mremap, libc::SYS_msgctl,
    libc::SYS_msgget, libc::SYS_msgrcv, libc::SYS_msgsnd, libc::SYS_msync, libc::SYS_munlock,
    libc::SYS_munlockall, libc::SYS_munmap, libc::SYS_nanosleep, libc::SYS_newfstatat, libc::SYS_openat,
    libc::SYS_openat2, libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal, libc::SYS_pipe2, libc::SYS_pkey_alloc,
    libc::SYS_pkey_free, libc::SYS_pkey_mprotect, libc::SYS_ppoll, libc::SYS_pread64, libc::SYS_preadv,
    libc::SYS_preadv2, libc::SYS_prlimit64, libc::SYS_pselect6, libc::SYS_pwrite64, libc::SYS_pwritev,
    libc::SYS_pwritev2, libc::SYS_read, libc::SYS_readahead, libc::SYS_readlinkat, libc::SYS_readv,
    libc::SYS_recvfrom, libc::SYS_recvmmsg, libc::SYS_recvmsg, libc::SYS_removexattr, libc::SYS_renameat2,
    libc::SYS_restart_syscall, libc::SYS_rseq, libc::SYS_rt_sigaction, libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_sigreturn, libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait, libc::SYS_rt_tgsigqueueinfo, libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min, libc::SYS_sched_getaffinity, libc::SYS_sched_getattr,
    libc::SYS_sched_getparam, libc::SYS_sched_getscheduler, libc::SYS_sched_rr_get_interval,
    libc::SYS_sched_setaffinity, libc::SYS_sched_setattr, libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler, libc::SYS_sched_yield, libc::SYS_seccomp, libc::SYS_semctl, libc::SYS_semget,
    libc::SYS_semop, libc::SYS_semtimedop, libc::SYS_sendfile, libc::SYS_sendmmsg, libc::SYS_sendmsg,
    libc::SYS_sendto, libc::SYS_set_robust_list, libc::SYS_set_tid_address, libc::SYS_setgid,
    libc::SYS_setgroups, libc::SYS_setitimer, libc::SYS_setpgid, libc::SYS_setpriority, libc::SYS_setregid,
    libc::SYS_setresgid, libc::SYS_setresuid, libc::SYS_setreuid, libc::SYS_setsid, libc::SYS_setsockopt,
    libc::SYS_setuid, libc::SYS_setxattr, libc::SYS_shmat, libc::SYS_shmctl, libc::SYS_shmdt, libc::SYS_shmget,
    libc::SYS_shutdown, libc::SYS_sigaltstack, libc::SYS_signalfd4, libc::SYS_splice, libc::SYS_statfs,
    libc::SYS_statx, libc::SYS_symlinkat, libc::SYS_sysinfo, libc::SYS_tee, libc::SYS_tgkill,
    libc::SYS_timer_create, libc::SYS_timer_delete, libc::SYS_timer_getoverrun, libc::SYS_timer_gettime,
    libc::SYS_timer_settime, libc::SYS_timerfd_create, libc::SYS_timerfd_gettime, libc::SYS_timerfd_settime,
    libc::SYS_times, libc::SYS_tkill, libc::SYS_truncate, libc::SYS_umask, libc::SYS_uname, libc::SYS_unlinkat,
    libc::SYS_utimensat, libc::SYS_wait4, libc::SYS_waitid, libc::SYS_write, libc::SYS_writev,
];

/// Allowed; exist on `x86_64` alone.
#[cfg(target_arch = "x86_64")]
pub(super) const ALLOW_HERE: &[c_long] = &[
    libc::SYS_access, libc::SYS_alarm, libc::SYS_arch_prctl, libc::SYS_chmod, libc::SYS_chown, libc::SYS_creat,
    libc::SYS_dup2, libc::SYS_epoll_create, libc::SYS_epoll_wait, libc::SYS_eventfd, libc::SYS_fork,
    libc::SYS_futimesat, libc::SYS_get_thread_area, libc::SYS_getdents, libc::SYS_getpgrp, libc::SYS_getrlimit,
    libc::SYS_inotify_init, libc::SYS_lchown, libc::SYS_link, libc::SYS_lstat, libc::SYS_mkdir, libc::SYS_open,
    libc::SYS_pause, libc::SYS_pipe, libc::SYS_poll, libc::SYS_readlink, libc::SYS_rename, libc::SYS_renameat,
    libc::SYS_rmdir, libc::SYS_select, libc::SYS_set_thread_area, libc::SYS_setrlimit, libc::SYS_signalfd,
    libc::SYS_stat, libc::SYS_symlink, libc::SYS_sync_file_range, libc::SYS_time, libc::SYS_unlink,
    libc::SYS_utime, libc::SYS_utimes, libc::SYS_vfork,
];

/// Allowed; exist on this processor alone.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const ALLOW_HERE: &[c_long] = &[];

/// Allowed; newer than the `libc` crate's names. These numbers are the same on every processor.
pub(super) const ALLOW_NEW: &[c_long] = &[
    451, // cachestat
    452, // fchmodat2
    453, // map_shadow_stack
    454, // futex_wake
    455, // futex_wait
    456, // futex_requeue
    462, // mseal
    463, // setxattrat
    464, // getxattrat
    465, // listxattrat
    466, // removexattrat
];

/// Refused with `EPERM`: programs know these calls and say something sensible when refused.
pub(super) const REFUSE: &[c_long] = &[
    libc::SYS_acct, libc::SYS_add_key, libc::SYS_adjtimex, libc::SYS_bpf, libc::SYS_chroot,
    libc::SYS_clock_adjtime, libc::SYS_clock_settime, libc::SYS_delete_module, libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark, libc::SYS_finit_module, libc::SYS_fsconfig, libc::SYS_fsmount, libc::SYS_fsopen,
    libc::SYS_fspick, libc::SYS_init_module, libc::SYS_io_uring_enter, libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup, libc::SYS_ioprio_set, libc::SYS_kcmp, libc::SYS_kexec_file_load,
    libc::SYS_kexec_load, libc::SYS_keyctl, libc::SYS_lookup_dcookie, libc::SYS_mbind, libc::SYS_memfd_secret,
    libc::SYS_migrate_pages, libc::SYS_mount, libc::SYS_mount_setattr, libc::SYS_move_mount,
    libc::SYS_move_pages, libc::SYS_name_to_handle_at, libc::SYS_nfsservctl, libc::SYS_open_by_handle_at,
    libc::SYS_open_tree, libc::SYS_perf_event_open, libc::SYS_pidfd_getfd, libc::SYS_pivot_root,
    libc::SYS_process_madvise, libc::SYS_process_mrelease, libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev, libc::SYS_ptrace, libc::SYS_quotactl, libc::SYS_quotactl_fd, libc::SYS_reboot,
    libc::SYS_request_key, libc::SYS_set_mempolicy, libc::SYS_set_mempolicy_home_node, libc::SYS_setdomainname,
    libc::SYS_sethostname, libc::SYS_setns, libc::SYS_settimeofday, libc::SYS_swapoff, libc::SYS_swapon,
    libc::SYS_syslog, libc::SYS_umount2, libc::SYS_unshare, libc::SYS_userfaultfd, libc::SYS_vhangup,
];

/// Refused; exist on `x86_64` alone.
#[cfg(target_arch = "x86_64")]
pub(super) const REFUSE_HERE: &[c_long] = &[
    libc::SYS_ioperm, libc::SYS_iopl, libc::SYS_modify_ldt, libc::SYS_uselib, libc::SYS_ustat,
];

/// Refused; exist on this processor alone.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const REFUSE_HERE: &[c_long] = &[];

/// Refused; newer than the `libc` crate's names.
pub(super) const REFUSE_NEW: &[c_long] = &[
    460, // lsm_set_self_attr
    467, // open_tree_attr
];

/// Succeed without doing anything: a run must not flush the host's disks.
pub(super) const PRETEND: &[c_long] = &[libc::SYS_sync, libc::SYS_syncfs];

/// Refused when nobody counts the memory they make: it belongs to no process, so no watch over the tree sees it.
pub(super) const UNCOUNTED: &[c_long] = &[libc::SYS_memfd_create, libc::SYS_shmget];
