"""What holds for all tests: laws are judged by what they find, not by how long an example takes.

The first example of a law may load a library, and machines are busy; a test that hangs is ended
by its timeout.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("farm", deadline=None)
settings.load_profile("farm")
