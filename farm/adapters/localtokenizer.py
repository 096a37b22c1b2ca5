"""Count tokens with a tokenizer that lies on this disk: nothing is fetched, no code of it runs.

The library is optional; it is imported when a configuration asks for this counter.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from farm.errors import SpecError


class LocalTokenizer:
    """A tokenizer with its own chat template, from a directory in the format of Transformers."""

    def __init__(self, path: str, *, template_options: Mapping[str, Any]) -> None:
        """Load it; raises `SpecError` when the library or the files are not there."""
        if not os.path.isdir(path):
            raise SpecError(f"tokenizer {path!r} is no directory: give one with tokenizer.json")
        try:
            from transformers import AutoTokenizer
        except ImportError as error:
            raise SpecError(
                "token_counter 'tokenizer' needs the library transformers: "
                "pip install 'farm[tokenizer]'"
            ) from error
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(
                os.path.abspath(path), local_files_only=True, trust_remote_code=False
            )
        except (OSError, ValueError, KeyError) as error:
            raise SpecError(f"tokenizer {path!r} cannot be loaded: {error}") from error
        if not self._tokenizer.chat_template:
            raise SpecError(f"tokenizer {path!r} has no chat template: it cannot count a request")
        self._options = dict(template_options)

    def count(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> int:
        """Count the tokens of a conversation with its tools and the start of an answer.

        Raises `SpecError` when the template refuses the conversation.
        """
        from jinja2.exceptions import TemplateError  # beside its only use

        try:
            text = self._tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tools=[dict(tool) for tool in tools] or None,
                add_generation_prompt=True,
                tokenize=False,
                **self._options,
            )
        except (TemplateError, TypeError, ValueError) as error:
            raise SpecError(f"the tokenizer's template refuses the task: {error}") from error
        # the template writes the special tokens itself
        return len(self._tokenizer.encode(text, add_special_tokens=False))
