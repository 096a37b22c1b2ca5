"""The system calls a candidate may make, by name and number.

The list is an allow-list: what a Python program with threads, files in its scratch directory,
asyncio and numpy needs, and nothing that reaches another process, the network, a namespace, a
mount, a key, a module or the mode and owner of a file. A call that is not here fails with EPERM
(or ENOSYS where the C library must fall back). Rules that look at arguments are in `seccomp`.

Numbers: the kernel's `unistd_64.h` for x86_64, `asm-generic/unistd.h` for aarch64. None where
the machine has no such call. The aarch64 column has not been run.
"""

from __future__ import annotations

# fmt: off
PLAIN: dict[str, tuple[int, int | None]] = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62),
    "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "pread64": (17, 67), "pwrite64": (18, 68), "readv": (19, 65), "writev": (20, 66),
    "access": (21, None), "pipe": (22, None), "select": (23, None), "sched_yield": (24, 124),
    "mremap": (25, 216), "msync": (26, 227), "mincore": (27, 232), "madvise": (28, 233),
    "dup": (32, 23), "dup2": (33, None), "pause": (34, None), "nanosleep": (35, 101),
    "getitimer": (36, 102), "alarm": (37, None), "setitimer": (38, 103), "getpid": (39, 172),
    "sendfile": (40, 71), "recvfrom": (45, 207), "recvmsg": (47, 212), "shutdown": (48, 210),
    "getsockname": (51, 204), "getpeername": (52, 205), "getsockopt": (55, 209),
    "exit": (60, 93), "wait4": (61, 260), "waitid": (247, 95), "uname": (63, 160),
    "flock": (73, 32), "fsync": (74, 82), "fdatasync": (75, 83), "truncate": (76, 45),
    "ftruncate": (77, 46), "getdents": (78, None), "getcwd": (79, 17), "chdir": (80, 49),
    "fchdir": (81, 50), "rename": (82, None), "mkdir": (83, None), "rmdir": (84, None),
    "creat": (85, None), "link": (86, None), "unlink": (87, None), "symlink": (88, None),
    "readlink": (89, None), "umask": (95, 166), "gettimeofday": (96, 169),
    "getrlimit": (97, 163), "setrlimit": (160, 164), "getrusage": (98, 165),
    "sysinfo": (99, 179), "times": (100, 153), "getuid": (102, 174), "getgid": (104, 176),
    "geteuid": (107, 175), "getegid": (108, 177), "getppid": (110, 173), "getpgrp": (111, None),
    "getgroups": (115, 158), "getresuid": (118, 148), "getresgid": (120, 150),
    "getpgid": (121, 155), "getsid": (124, 156), "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137), "rt_sigsuspend": (130, 133), "sigaltstack": (131, 132),
    "statfs": (137, 43), "fstatfs": (138, 44), "getpriority": (140, 141),
    "sched_getparam": (143, 121), "sched_getscheduler": (145, 120),
    "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126),
    "gettid": (186, 178), "time": (201, None), "futex": (202, 98),
    "sched_getaffinity": (204, 123), "epoll_create": (213, None), "getdents64": (217, 61),
    "set_tid_address": (218, 96), "restart_syscall": (219, 128), "timer_create": (222, 107),
    "timer_settime": (223, 110), "timer_gettime": (224, 108), "timer_getoverrun": (225, 109),
    "timer_delete": (226, 111), "fadvise64": (221, 223), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "exit_group": (231, 94),
    "epoll_wait": (232, None), "epoll_ctl": (233, 21), "open": (2, None), "openat": (257, 56),
    "stat": (4, None), "lstat": (6, None), "newfstatat": (262, 79), "mkdirat": (258, 34),
    "unlinkat": (263, 35), "renameat": (264, 38), "linkat": (265, 37), "symlinkat": (266, 36),
    "readlinkat": (267, 78), "faccessat": (269, 48), "poll": (7, None), "pselect6": (270, 72),
    "ppoll": (271, 73), "set_robust_list": (273, 99), "get_robust_list": (274, 100),
    "epoll_pwait": (281, 22), "timerfd_create": (283, 85), "eventfd": (284, None),
    "fallocate": (285, 47), "timerfd_settime": (286, 86), "timerfd_gettime": (287, 87),
    "signalfd4": (289, 74), "eventfd2": (290, 19), "epoll_create1": (291, 20), "dup3": (292, 24),
    "pipe2": (293, 59), "preadv": (295, 69), "pwritev": (296, 70), "preadv2": (327, 286),
    "pwritev2": (328, 287), "renameat2": (316, 276), "getrandom": (318, 278),
    "copy_file_range": (326, 285), "statx": (332, 291), "rseq": (334, 293),
    "close_range": (436, 436), "openat2": (437, 437), "faccessat2": (439, 439),
    "epoll_pwait2": (441, 441), "membarrier": (324, 283), "arch_prctl": (158, None),
    "getcpu": (309, 168), "futex_waitv": (449, 449),
}
# Calls judged by their arguments; the rules stand in `seccomp`.
JUDGED: dict[str, tuple[int, int | None]] = {
    "clone": (56, 220), "clone3": (435, 435), "kill": (62, 129), "tgkill": (234, 131),
    "prlimit64": (302, 261), "socketpair": (53, 199), "sendto": (44, 206), "fcntl": (72, 25),
    "ioctl": (16, 29), "prctl": (157, 167),
}
# What a nursery needs to shut in what it forks, and no program may call.
TO_SHUT_IN: dict[str, tuple[int, int | None]] = {
    "seccomp": (317, 277), "landlock_restrict_self": (446, 446),
}
# Without Landlock nothing may change the file system, wherever the path leads.
CHANGES_FILES = frozenset({
    "truncate", "rename", "mkdir", "rmdir", "creat", "link", "unlink", "symlink", "mkdirat",
    "unlinkat", "renameat", "linkat", "symlinkat", "renameat2", "openat2",
})
# fmt: on
COLUMN = {"x86_64": 0, "aarch64": 1}
# The first number neither table knows: newer calls must look absent, not forbidden.
FIRST_UNKNOWN = 463


def numbers(names: dict[str, tuple[int, int | None]], machine: str) -> dict[str, int]:
    """Return the numbers of `names` on `machine`, leaving out calls it does not have."""
    column = COLUMN[machine]
    found = {name: row[column] for name, row in names.items()}
    return {name: number for name, number in found.items() if number is not None}
