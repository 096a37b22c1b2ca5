"""The version of farm, for the build and for `farm --version` alike.

Asking for the metadata of the installed package takes longer than all else that command does.
"""

from __future__ import annotations

VERSION = "0.1.0"
