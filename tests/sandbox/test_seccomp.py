"""The filter, run by an interpreter of its own: what gets through and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.sandbox import seccomp, syscalls

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x50001, 0x50026
X86_64, AARCH64 = 0xC000003E, 0xC00000B7
OWN = 0x5AFE1234


def answer(
    number: int,
    *arguments: int,
    machine: str = "x86_64",
    arch: int = X86_64,
    guarded: bool = True,
    part: seccomp.Part = "whole",
) -> int:
    """Run the program on one call, as the kernel's classic BPF machine would."""
    words = [number & 0xFFFFFFFF, arch, 0, 0]
    for index in range(6):
        value = arguments[index] if index < len(arguments) else 0
        words += [value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF]
    steps = seccomp.assemble(machine, files_guarded=guarded, part=part)
    at = register = 0
    while True:
        code, yes, no, operand = steps[at]
        at += 1
        if code == 0x06:
            return operand
        if code == 0x20:
            register = words[operand // 4]
        elif code == 0x05:
            at += operand
        else:
            test = {0x15: register == operand, 0x35: register >= operand}
            at += yes if test.get(code, bool(register & operand)) else no


def number(name: str, machine: str = "x86_64") -> int:
    return syscalls.numbers(syscalls.PLAIN | syscalls.JUDGED, machine)[name]


@given(st.integers(0, 0x3FFFFFFF))
def test_a_call_that_is_not_listed_is_refused(call: int) -> None:
    """Law: the list is an allow-list; what neither table knows yet looks absent."""
    listed = syscalls.numbers(syscalls.PLAIN | syscalls.JUDGED, "x86_64").values()
    if call >= 463:
        assert answer(call) == ENOSYS
    elif call not in listed:
        assert answer(call) == EPERM


def test_plain_calls_are_allowed_whatever_their_arguments() -> None:
    """Every number of the plain table, on both machines."""
    for machine, arch in (("x86_64", X86_64), ("aarch64", AARCH64)):
        for call in syscalls.numbers(syscalls.PLAIN, machine).values():
            assert answer(call, 2**64 - 1, machine=machine, arch=arch) == ALLOW


# Numbers of the kernel's unistd_64.h, written down again so that the table is not its own judge.
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (41, "socket"), (42, "connect"), (43, "accept"), (46, "sendmsg"), (49, "bind"),
        (50, "listen"), (57, "fork"), (58, "vfork"), (59, "execve"), (90, "chmod"), (91, "fchmod"),
        (92, "chown"), (101, "ptrace"), (105, "setuid"), (126, "capset"), (129, "rt_sigqueueinfo"),
        (133, "mknod"), (141, "setpriority"), (155, "pivot_root"), (161, "chroot"), (165, "mount"),
        (166, "umount2"), (200, "tkill"), (203, "sched_setaffinity"), (235, "utimes"),
        (248, "add_key"), (250, "keyctl"), (268, "fchmodat"), (272, "unshare"), (275, "splice"),
        (280, "utimensat"), (297, "rt_tgsigqueueinfo"), (298, "perf_event_open"),
        (304, "open_by_handle_at"), (308, "setns"), (310, "process_vm_readv"), (317, "seccomp"),
        (319, "memfd_create"), (321, "bpf"), (322, "execveat"), (323, "userfaultfd"),
        (424, "pidfd_send_signal"), (425, "io_uring_setup"), (426, "io_uring_enter"),
        (428, "open_tree"), (434, "pidfd_open"), (438, "pidfd_getfd"), (444, "landlock"),
        (452, "fchmodat2"),
    ],
)  # fmt: skip
def test_what_reaches_outside_is_refused(call: int, name: str) -> None:
    """The calls by which programs reach the network, other processes, mounts and modes."""
    assert answer(call) == EPERM, name


def test_rules_about_arguments() -> None:
    """Threads but no processes, signals to itself only, no addresses, no signal by fcntl."""
    thread, plain_fork, new_user = 0x3D0F00, 17, 0x10000000
    assert answer(56, thread) == ALLOW
    assert answer(56, plain_fork) == EPERM
    assert answer(56, thread | new_user) == EPERM
    assert answer(435) == ENOSYS  # clone3
    for call in (62, 234):  # kill, tgkill
        assert answer(call, OWN) == ALLOW
        assert answer(call, OWN + 1) == EPERM
        assert answer(call, 2**64 - 1) == EPERM  # -1: everybody
        assert answer(call, 0) == EPERM  # the group
    assert answer(302, 0) == ALLOW  # prlimit64 of itself
    assert answer(302, 1) == EPERM
    assert answer(53, 1) == ALLOW  # socketpair, AF_UNIX
    assert answer(53, 2) == EPERM
    assert answer(44, 3, 0, 0, 0, 0) == ALLOW  # sendto without an address
    assert answer(44, 3, 0, 0, 0, 1 << 40) == EPERM  # an address above the low half
    assert answer(72, 3, 1030) == ALLOW  # F_DUPFD_CLOEXEC
    for command in (8, 10, 15, 1024, 1026):  # owner, signal, owner_ex, lease, notify
        assert answer(72, 3, command) == EPERM
    assert answer(16, 0, 0x5412) == 0x50019  # TIOCSTI: ENOTTY
    assert answer(157, 15) == ALLOW  # PR_SET_NAME
    assert answer(157, 1) == EPERM  # PR_SET_PDEATHSIG


def test_another_calling_convention_ends_the_process() -> None:
    """i386 numbers mean other calls, and so do x32 ones: no list covers them."""
    assert answer(number("read"), arch=0x40000003) == KILL
    assert answer(0x40000000 | number("read")) == KILL


def test_without_landlock_nothing_on_disk_can_be_changed() -> None:
    """Opening to read stays; opening to write, making, moving and removing are refused."""
    assert answer(257, 0, 0, 0, guarded=False) == ALLOW  # openat, O_RDONLY
    for flags in (1, 2, 0o100, 0o1000):
        assert answer(257, 0, 0, flags, guarded=False) == EPERM
        assert answer(2, 0, flags, guarded=False) == EPERM
    for name in syscalls.CHANGES_FILES:
        assert answer(number(name), guarded=False) == EPERM


@given(
    st.integers(0, 0x3FFFFFFF) | st.integers(0, 500),
    st.lists(st.sampled_from([0, 1, 2, 15, 17, 0x3D0F00, 0x10000000, OWN, OWN + 1, 2**64 - 1])),
    st.booleans(),
)
def test_a_nursery_and_its_program_together_refuse_what_the_whole_refuses(
    call: int, arguments: list[int], guarded: bool
) -> None:
    """Law: the kernel asks both filters and takes the stricter answer; it is the whole one's."""
    for machine, arch in (("x86_64", X86_64), ("aarch64", AARCH64)):

        def asked(part: seccomp.Part, machine: str = machine, arch: int = arch) -> int:
            return answer(
                call, *arguments[:6], machine=machine, arch=arch, guarded=guarded, part=part
            )

        nursery, program = asked("nursery"), asked("program")
        together = program if nursery == ALLOW else nursery
        assert together == asked("whole")


def test_a_nursery_may_fork_and_shut_in_and_no_more() -> None:
    """Every call number without arguments: what it may and a program may not is seven calls."""
    more = {
        call
        for call in range(500)
        for first in (0, 1, 17, OWN + 1)
        if answer(call, first, part="nursery") == ALLOW and answer(call, first) != ALLOW
    }
    # clone, kill, prctl, tgkill, prlimit64, seccomp, landlock_restrict_self
    assert more == {56, 62, 157, 234, 302, 317, 446}
    assert answer(56, 17 | 0x10000000, part="nursery") == EPERM  # a user namespace of its own
