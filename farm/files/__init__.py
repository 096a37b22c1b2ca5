"""Doors to the file system: the snapshot commit, locks, record readers."""
