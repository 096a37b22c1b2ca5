"""Import first in a process whose start must be quick: keeps `inspect` out of it.

msgspec asks for typing_extensions when it is imported, only to recognise its types, and takes
`typing` instead when there is none. Loading it costs a third of a worker's start. It is hidden
for the length of that one import; whoever needs it later finds it as always.
"""

from __future__ import annotations

import sys

if "typing_extensions" not in sys.modules:
    # None is how the import system is told that there is no such module
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]
