"""Where a run lives: one protocol, and the doors that keep it."""
