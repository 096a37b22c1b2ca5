"""What a node has to offer and who computes on it, asked of the node itself.

One small script runs on each node, here or through ssh; what it prints is read by pure functions.
Where a device is there and cannot be looked into, exclusive use is not confirmed.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from farm.errors import NotPermitted
from farm.qualify.config import Config
from farm.qualify.devicelease import DeviceLease
from farm.qualify.ports import Commands

_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_KIB_PER_GIB: Final = 1024 * 1024
# $1 is the path whose disk counts; every line begins with a word of ours
_SCRIPT: Final = r"""
if [ -r /proc/meminfo ]; then
  sed -n 's/^MemAvailable: *\([0-9]*\) kB$/farm-memory \1/p' /proc/meminfo
fi
df -Pk -- "$1" 2>/dev/null | tail -n 1 | sed 's/^/farm-disk /'
if command -v nvidia-smi >/dev/null 2>&1; then
  if pids=$(nvidia-smi --query-compute-apps=pid --format=csv,noheader 2>/dev/null); then
    echo farm-gpu seen
    for pid in $pids; do echo "farm-pid $pid"; done
  else
    echo farm-gpu unreadable
  fi
elif [ -e /dev/nvidia0 ] || [ -e /dev/kfd ] || [ -e /proc/driver/nvidia ]; then
  echo farm-gpu unreadable
else
  echo farm-gpu none
fi
"""


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a node; None is "not seen". `gpu` is seen, none, unreadable or told."""

    node: str
    mem_available_gib: float | None = None
    disk_free_gib: float | None = None
    gpu: str = "told"  # a hook of the operator vouched for it
    compute_pids: tuple[int, ...] = ()


async def state_of_node(
    node: str, *, commands: Commands, disk_path: str, timeout_s: float
) -> NodeState:
    """Ask a node; raises `NotPermitted` when it cannot be reached."""
    argv: tuple[str, ...] = ("sh", "-c", _SCRIPT, "farm", disk_path)
    if not is_local(node):
        if node.startswith("-"):
            raise NotPermitted(f"node {node!r} is no host name: name it as ssh knows it")
        remote = f"sh -c {_quoted(_SCRIPT)} farm {_quoted(disk_path)}"
        argv = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", node, remote)
    return read_state(node, await commands.run(argv, timeout_s=timeout_s))


def is_local(node: str) -> bool:
    """Tell whether a node is this machine, by its name."""
    return node in _LOCAL or node in (socket.gethostname(), socket.gethostname().split(".")[0])


def read_state(node: str, printed: str) -> NodeState:
    """Read what the script printed; lines that are not its own are passed over."""
    memory: float | None = None
    disk: float | None = None
    gpu, pids = "unreadable", []
    for line in printed.splitlines():
        word, _, rest = line.partition(" ")
        fields = rest.split()
        if word == "farm-memory" and rest.isdigit():
            memory = int(rest) / _KIB_PER_GIB
        elif word == "farm-disk" and len(fields) >= 6 and fields[3].isdigit():
            disk = int(fields[3]) / _KIB_PER_GIB
        elif word == "farm-gpu":
            gpu = rest
        elif word == "farm-pid":
            if not rest.isdigit():
                gpu = "unreadable"
                continue
            pids.append(int(rest))
    return NodeState(
        node=node,
        mem_available_gib=memory,
        disk_free_gib=disk,
        gpu=gpu,
        compute_pids=tuple(sorted(set(pids))),
    )


def check_nodes(
    states: Sequence[NodeState], *, config: Config, lease: DeviceLease
) -> Mapping[str, Any]:
    """Refuse nodes that are missing, too small or used by others; give what was seen."""
    seen = {state.node: state for state in states}
    for node in config.nodes:
        if node not in seen:
            raise NotPermitted(f"node {node!r}: the resource hook says nothing of it")
        state = seen[node]
        _check_enough(
            node, "memory available", state.mem_available_gib, config.min_mem_available_gib
        )
        _check_enough(node, "disk free", state.disk_free_gib, config.min_disk_free_gib)
        if state.gpu not in ("seen", "none", "told"):
            raise NotPermitted(
                f"node {node!r} has a device that cannot be looked into: exclusive use is not "
                "confirmed, give a resource_check command that can tell"
            )
        others = sorted(set(state.compute_pids) - set(lease.allowed_gpu_pids))
        if others:
            raise NotPermitted(
                f"node {node!r}: processes {others} compute on its GPU and are not in "
                "allowed_gpu_pids: end them, or enter the server's own in the lease"
            )
    return {node: msgspec.to_builtins(seen[node]) for node in config.nodes}


def _check_enough(node: str, what: str, found: float | None, least: float) -> None:
    if found is None and least > 0:
        raise NotPermitted(f"node {node!r}: {what} is not known, {least:g} GiB are asked for")
    if found is not None and found < least:
        raise NotPermitted(
            f"node {node!r}: {what} is {found:.2f} GiB, {least:g} are asked for: free some, "
            "then run the same command again"
        )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
