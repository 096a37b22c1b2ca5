"""`farm init`: bind dataset, shard count and scorer to a store."""

from __future__ import annotations

from typing import Unpack

import click

from farm.cli import again, options
from farm.config import read_environment
from farm.log import Log
from farm.runtime.standing import report_of
from farm.wiring import InitOptions, ensure_store, open_store


class InitFlags(options.SourceFlags, options.LogFlags):
    """Everything but the store."""


@click.command()
@options.store
@options.source
@options.log
@click.pass_context
def command(ctx: click.Context, /, store: str, **given: Unpack[InitFlags]) -> None:
    """Bind a prediction file to a store.

    The same call again keeps all progress; another dataset, shard count or scorer is refused.
    Prints what `farm status` prints.
    """
    again.remember(ctx)
    if given["input"] is None:
        raise click.UsageError("Missing option '--input'.")
    environment = read_environment()
    with Log(
        environment=environment,
        log_format=given["log_format"],
        quiet=given["quiet"],
        file=options.log_path(
            given["log_file"], environment, store, inputs={"--input": given["input"]}
        ),
    ) as log:
        ensure_store(store, init_options(given), on_events=log.write)
    with open_store(store) as opened:
        options.print_json(report_of(opened))


def init_options(given: options.SourceFlags) -> InitOptions:
    """Gather the options that describe a store."""
    return InitOptions(
        input=given["input"],
        shards=given["shards"],
        scorer=given["scorer"],
        name=given["name"],
        max_text_bytes=given["max_text_bytes"],
        map=given["mapping"],
        ignore_extra=given["ignore_extra"],
        auto_id=given["auto_id"],
        coerce=given["coerce"],
    )
