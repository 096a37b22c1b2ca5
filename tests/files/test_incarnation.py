"""Which process this is: only what is provably gone is called gone.

To call a living supervisor gone would hand its leases to another; to call a dead one alive only
makes its leases wait for their expiry.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from farm.files import incarnation
from farm.files.incarnation import current_incarnation, is_alive, is_gone

OWN = current_incarnation()
OTHER_BOOT = "00000000-0000-0000-0000-000000000000"
SAY = """
import sys
from farm.files.incarnation import current_incarnation
print(current_incarnation(), flush=True)
sys.stdin.read()
"""


def child() -> tuple[subprocess.Popen[bytes], str]:
    """A living process and its incarnation."""
    process = subprocess.Popen(
        [sys.executable, "-c", SAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    return process, process.stdout.readline().decode().strip()


def test_this_process_is_named_by_boot_id_and_start_and_is_not_gone() -> None:
    boot, pid, start = OWN.split(":")
    assert len(boot) == 36
    assert pid == str(os.getpid())
    assert start
    assert current_incarnation() == OWN
    assert not is_gone(OWN)


def test_a_child_is_there_while_it_lives_and_gone_once_it_is_dead() -> None:
    process, named = child()
    assert not is_gone(named)
    process.kill()
    process.communicate()
    assert is_gone(named)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ps does not tell a zombie's end")
def test_a_dead_process_that_nobody_has_looked_after_is_gone() -> None:
    """The first process of a container often never reaps: a killed supervisor stays a zombie."""
    process, named = child()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has exited; it is not reaped
    assert is_gone(named)
    process.communicate()


def test_a_process_that_got_the_id_of_a_dead_one_is_not_that_one() -> None:
    boot, pid, _ = OWN.split(":")
    assert is_gone(f"{boot}:{pid}:1")


def test_every_process_of_another_boot_is_gone() -> None:
    _, pid, start = OWN.split(":")
    assert is_gone(f"{OTHER_BOOT}:{pid}:{start}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "::",
        "garbage",
        "garbage:1:2",
        f"{OTHER_BOOT}:1",
        f"{OTHER_BOOT}:1:",
        f"{OTHER_BOOT}::2",
        f"{OTHER_BOOT}:x:2",
        f"{OTHER_BOOT}:-1:2",
        f"{OTHER_BOOT}:²:2",  # a digit for isdigit, none for int
        f"{OTHER_BOOT}:{'9' * 5000}:2",
        f" {OTHER_BOOT}:1:2",
    ],
)
def test_text_of_another_shape_proves_nothing(text: str) -> None:
    assert not is_gone(text)


def test_a_process_that_hides_from_us_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc may be mounted so that the processes of others cannot be seen; they can be asked for.

    The first process lives for as long as we do; its file is kept from us here.
    """
    boot = OWN.partition(":")[0]
    monkeypatch.setattr(incarnation, "_start_of", lambda pid: "")
    assert not is_gone(f"{boot}:1:5")
    assert is_gone(f"{boot}:9999999999:5")


def test_a_process_id_that_nobody_can_have_is_not_alive() -> None:
    """Such an id may stand in the name of a hostile temporary file."""
    assert is_alive(os.getpid())
    assert is_alive(1)
    assert not is_alive(2**31)
    assert not is_alive(10**30)
