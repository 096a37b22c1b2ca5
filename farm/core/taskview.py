"""The task views of a whole block of records at once; the same as `canonical.task_view`.

Apart from it because it needs numpy, which workers must not load. It costs more processor time
than cutting line by line, and nearly all of it is spent where other threads can run, so a
thread that hashes can do it while another one decodes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from farm.core.canonical import TARGETS, task_view

_COMMA, _QUOTE, _R, _NEWLINE, _CLOSE = b',"r\n}'
_COMMA_BYTE: Final = np.uint8(_COMMA)


def digest_views(block: bytes) -> tuple[bytes, bytes]:
    """Give a block of canonical records joined by commas, and their task views likewise.

    `block` holds whole records, each ended by a newline.
    """
    text = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(text == _NEWLINE)
    records = text.copy()
    records[ends] = _COMMA_BYTE
    if TARGETS in block:  # they stand behind the response and have to be put back
        return records[:-1].tobytes(), task_view(block[:-1].split(b"\n"))
    # `,"` starts a member, since inside a string every quote has a backslash before it; and of
    # all members only the response begins with an r
    starts = np.flatnonzero((text[:-2] == _COMMA) & (text[1:-1] == _QUOTE) & (text[2:] == _R))
    views = records.copy()
    views[starts] = _CLOSE
    edges = np.zeros(len(text), dtype=np.int8)
    edges[starts + 1] = 1
    edges[ends] = -1
    kept = np.cumsum(edges, dtype=np.int8) == 0
    return records[:-1].tobytes(), views[kept][:-1].tobytes()
