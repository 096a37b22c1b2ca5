"""What the value of an option must be, where click's own kinds take too much."""

from __future__ import annotations

import math
from typing import Any

import click

_NAME_BYTES = 256


class FilledPath(click.Path):
    """A path that is not empty, as that of an unset variable in a script is."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401  click's own signature
        """Give the path; an empty one is a usage error."""
        if not value:
            self.fail("the path is empty.", param, ctx)
        return super().convert(value, param, ctx)


class Name(click.types.StringParamType):
    """A name of a person's choice that stands in files and logs: printable, not blank, bounded."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401  click's own signature
        """Give the name; anything else is a usage error."""
        text = str(value)
        if not text.strip():
            self.fail("a name is needed.", param, ctx)
        if not text.isprintable():  # bytes that are no UTF-8 come as surrogates, which are not
            self.fail(f"{text!r} holds characters that cannot be printed.", param, ctx)
        size = len(text.encode())
        if size > _NAME_BYTES:
            self.fail(f"the name has {size} bytes, the limit is {_NAME_BYTES}.", param, ctx)
        return text


class Seconds(click.FloatRange):
    """A number of seconds; infinity is as good as any, but what is no number is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401  click's own signature
        """Give the number; NaN is a usage error."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number
