"""Which system calls get through, as a BPF program the kernel runs before each of them.

`syscalls` says which calls are harmless as they are; here stand the rules about arguments and
the assembly of both into one program: a binary tree over call numbers, so that a call costs
about eight comparisons. Leaves the paths a call may name to `landlock`.

A program's filter is the `whole` one. Assembling it in the kernel costs a tenth of a millisecond,
so a nursery wears nearly all of it and what it forks inherits that: `nursery` lets through a few
calls more, and `program`, which is short, takes those away again. The kernel asks both.
"""

from __future__ import annotations

import ctypes
import struct
from functools import lru_cache
from typing import Literal

from farm.sandbox import kernel, syscalls

Step = tuple[int, int, int, int]  # code, jump if true, jump if false, operand
Part = Literal["whole", "nursery", "program"]
_PARTS: tuple[Part, ...] = ("whole", "nursery", "program")

_LOAD, _JUMP, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_EPERM, _ENOSYS, _ENOTTY = 1, 38, 25
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_SOCKETPAIR_UNIX = 1
# Stands for the process's own id until the filter is installed.
_OWN_PID = 0x5AFE1234

_CLONE_THREAD = 0x10000
_CLONE_NEW_ANYTHING = 0x7E020080
# F_DUPFD..F_SETLKW, F_GETOWN, the open-file-description locks, F_DUPFD_CLOEXEC, F_GETPIPE_SZ:
# none of them can aim a signal (F_SETOWN, F_SETSIG, F_NOTIFY, F_SETLEASE can).
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 9, 36, 37, 38, 1030, 1032)
# TCGETS, TIOCGPGRP, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_IOCTL = (0x5401, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME: a candidate that cleared its
# death signal would outlive its zygote.
_PRCTL = (2, 3, 15, 16)
_PR_SET_PDEATHSIG = 1
# O_WRONLY, O_RDWR, O_CREAT, O_TRUNC: the flags of an open that changes something.
_OPEN_FOR_CHANGE = 0o1103


def _allow() -> Step:
    return (_RETURN, 0, 0, _ALLOW)


def _refuse(errno: int) -> Step:
    return (_RETURN, 0, 0, 0x00050000 | errno)


def _argument(index: int, *, high: bool = False) -> Step:
    """Load the low (or high) half of an argument; both machines are little-endian."""
    return (_LOAD, 0, 0, 16 + 8 * index + (4 if high else 0))


def _only(index: int, values: tuple[int, ...], errno: int = _EPERM) -> list[Step]:
    """Allow the call when the argument is one of `values`."""
    tests: list[Step] = [(_EQUAL, len(values) - n, 0, value) for n, value in enumerate(values)]
    return [_argument(index), *tests, _refuse(errno), _allow()]


def _judged() -> dict[str, list[Step]]:
    """Return the rules about arguments, each ending in an answer."""
    no_address: list[Step] = [
        _argument(4),
        (_EQUAL, 0, 3, 0),
        _argument(4, high=True),
        (_EQUAL, 0, 1, 0),
        _allow(),
        _refuse(_EPERM),
    ]
    return {
        # its flags lie in memory, out of a filter's sight: absent, so that glibc uses clone
        "clone3": [_refuse(_ENOSYS)],
        "socketpair": _only(0, (_SOCKETPAIR_UNIX,)),
        "sendto": no_address,
        "fcntl": _only(1, _FCNTL),
        "ioctl": _only(1, _IOCTL, _ENOTTY),
        **_of_a_program(),
    }


def _of_a_program() -> dict[str, list[Step]]:
    """Return the rules that a nursery is free of: no process but this one is in reach."""
    threads_only: list[Step] = [
        _argument(0),
        (_ANY_BIT, 1, 0, _CLONE_THREAD),
        _refuse(_EPERM),
        (_ANY_BIT, 0, 1, _CLONE_NEW_ANYTHING),
        _refuse(_EPERM),
        _allow(),
    ]
    return {
        "clone": threads_only,
        "kill": _only(0, (_OWN_PID,)),
        "tgkill": _only(0, (_OWN_PID,)),
        "prlimit64": _only(0, (0, _OWN_PID)),
        "prctl": _only(0, _PRCTL),
        **{name: [_refuse(_EPERM)] for name in syscalls.TO_SHUT_IN},
    }


def _of_a_nursery() -> dict[str, list[Step]]:
    """Return what a nursery needs beyond a program's calls: to fork, and to shut in and end."""
    return {
        "clone": [
            _argument(0),
            (_ANY_BIT, 0, 1, _CLONE_NEW_ANYTHING),
            _refuse(_EPERM),
            _allow(),
        ],
        "kill": [_allow()],  # Landlock lets it reach what it forked, nobody else
        "tgkill": [_allow()],
        "prlimit64": [_allow()],
        "prctl": _only(0, (*_PRCTL, _PR_SET_PDEATHSIG)),
        **{name: [_allow()] for name in syscalls.TO_SHUT_IN},
    }


def _read_only_open(index: int) -> list[Step]:
    return [_argument(index), (_ANY_BIT, 0, 1, _OPEN_FOR_CHANGE), _refuse(_EPERM), _allow()]


def rules(machine: str, *, files_guarded: bool, part: Part = "whole") -> dict[int, list[Step]]:
    """Return, per call number, the steps that answer it.

    `files_guarded` says that Landlock decides about paths; without it every call that could
    change the file system is refused, so a candidate can still do no harm there.
    """
    numbers = syscalls.numbers(syscalls.JUDGED | syscalls.TO_SHUT_IN, machine)
    if part == "program":
        return {numbers[name]: steps for name, steps in _of_a_program().items()}
    by_number = {
        number: [_allow()]
        for name, number in syscalls.numbers(syscalls.PLAIN, machine).items()
        if files_guarded or name not in syscalls.CHANGES_FILES
    }
    judged = _judged() | (_of_a_nursery() if part == "nursery" else {})
    by_number |= {numbers[name]: steps for name, steps in judged.items()}
    if not files_guarded:
        opens = syscalls.numbers(syscalls.PLAIN, machine)
        by_number[opens["openat"]] = _read_only_open(2)
        if "open" in opens:
            by_number[opens["open"]] = _read_only_open(1)
    return by_number


def _tree(leaves: list[tuple[int, list[Step]]]) -> list[Step]:
    """Choose between `leaves`, each good from its number up to the next one's."""
    if len(leaves) == 1:
        return leaves[0][1]
    middle = len(leaves) // 2
    below, above = _tree(leaves[:middle]), _tree(leaves[middle:])
    pivot = leaves[middle][0]
    if len(below) <= 255:  # a conditional jump has eight bits
        return [(_AT_LEAST, len(below), 0, pivot), *below, *above]
    return [(_AT_LEAST, 0, 1, pivot), (_JUMP, 0, 0, len(below)), *below, *above]


def _leaves(
    by_number: dict[int, list[Step]], *, gap: list[Step], unknown: list[Step]
) -> list[tuple[int, list[Step]]]:
    """Cut the number line where the answer changes; `gap` answers between known calls."""
    leaves: list[tuple[int, list[Step]]] = []
    for number in range(syscalls.FIRST_UNKNOWN + 1):
        steps = by_number.get(number, gap if number < syscalls.FIRST_UNKNOWN else unknown)
        if not leaves or leaves[-1][1] != steps:
            leaves.append((number, steps))
    return leaves


def assemble(machine: str, *, files_guarded: bool, part: Part = "whole") -> list[Step]:
    """Return the whole program or a part, with `_OWN_PID` where the process id belongs."""
    by_number = rules(machine, files_guarded=files_guarded, part=part)
    load_number: Step = (_LOAD, 0, 0, 0)
    if part == "program":  # comes on top of a nursery's, which knows the machine and all the rest
        return [load_number, *_tree(_leaves(by_number, gap=[_allow()], unknown=[_allow()]))]
    head: list[Step] = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL),
        load_number,
    ]
    if machine == "x86_64":
        head += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)]
    return head + _tree(_leaves(by_number, gap=[_refuse(_EPERM)], unknown=[_refuse(_ENOSYS)]))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


class _Filter:
    """The program as the kernel takes it, in memory that a forked child only fills in."""

    def __init__(self, machine: str, files_guarded: bool, part: Part) -> None:
        steps = assemble(machine, files_guarded=files_guarded, part=part)
        code = b"".join(struct.pack("=HBBI", *step) for step in steps)
        self._steps = ctypes.create_string_buffer(code, len(code))
        self._places = [
            ctypes.c_uint32.from_buffer(self._steps, 8 * at + 4)
            for at, step in enumerate(steps)
            if step[0] != _RETURN and step[3] == _OWN_PID
        ]
        self._program = _Program(len(steps), ctypes.addressof(self._steps))
        self._call = (kernel.SECCOMP_NUMBER[machine], 1, 0, ctypes.addressof(self._program))

    def install(self, pid: int) -> None:
        for place in self._places:
            place.value = pid
        kernel.syscall(*self._call)


@lru_cache(maxsize=8)
def _ready(machine: str, files_guarded: bool, part: Part) -> _Filter:
    return _Filter(machine, files_guarded, part)


def prepare(*, files_guarded: bool) -> None:
    """Assemble the programs once, so that forked children only fill in their process id."""
    for part in _PARTS:
        _ready(kernel.machine(), files_guarded, part)


def install(pid: int, *, files_guarded: bool, part: Part = "whole") -> None:
    """Filter this process's calls from now on and for good; needs NO_NEW_PRIVS."""
    _ready(kernel.machine(), files_guarded, part).install(pid)
