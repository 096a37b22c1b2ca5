"""`farm events`: the event stream of a run."""

from __future__ import annotations

import sys

import click

from farm.cli import options
from farm.core.event import encode_event
from farm.files.stream import reader_left
from farm.wiring import open_store

_LOOK_S = 0.2  # how often a followed file is looked at
_LAST = {"run.completed", "run.partial", "run.pending", "run.interrupted", "run.failed"}


@click.command()
@options.store
@click.option("--follow", is_flag=True, help="Wait for more, until the run ends.")
@options.quiet
def command(store: str, follow: bool, quiet: bool) -> None:
    """Print the events of a run, one JSON object a line."""
    with open_store(store, qualification=True) as opened:
        seen, size = 0, -1
        last = ""
        while True:
            lines = []
            before, size = size, opened.events_size()
            for event in opened.events() if size != before else ():
                if event.seq > seen:
                    lines.append(encode_event(event))
                    seen, last = event.seq, event.event
            ends = not follow or last in _LAST
            if not options.write_out(b"".join(lines), last=ends) or ends:
                return
            # a run may be idle for long: nothing would be written, and nobody missed
            if reader_left(sys.stdout.fileno(), within_s=_LOOK_S):
                return
