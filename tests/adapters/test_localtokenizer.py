"""A tokenizer from a local directory counts; nothing else is looked at.

The counts are of the library's own word tokenizer, so they can be checked by eye.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from farm.adapters.localtokenizer import LocalTokenizer
from farm.errors import SpecError

needs_library = pytest.mark.skipif(
    find_spec("transformers") is None, reason="the extra tokenizer is not installed"
)
TEMPLATE = (
    "{% for m in messages %}<s> {{ m.content }} {% endfor %}"
    "{% if tools %}{{ tools | length }} tools {% endif %}"
    "{% if add_generation_prompt %}{{ start | default('go') }}{% endif %}"
)


def tokenizer_in(folder: Path, *, template: str | None = TEMPLATE) -> str:
    """Write a tokenizer of words: every word it does not know is one token as well."""
    words = {"[UNK]": 0, "<s>": 1}
    whole: dict[str, object] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(whole), "utf-8")
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    if template is not None:
        settings["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    return str(folder)


@needs_library
def test_the_template_of_the_tokenizer_is_counted_with_tools_and_start(tmp_path: Path) -> None:
    """`<s> one two <s> three 1 tools go` is eight words."""
    tokenizer = LocalTokenizer(tokenizer_in(tmp_path), template_options={})
    messages = [{"role": "user", "content": "one two"}, {"role": "user", "content": "three"}]
    assert tokenizer.count(messages, [{"type": "function"}]) == 8
    assert tokenizer.count(messages, []) == 6


@needs_library
def test_options_reach_the_template(tmp_path: Path) -> None:
    """`<s> one a b c` is five words."""
    tokenizer = LocalTokenizer(tokenizer_in(tmp_path), template_options={"start": "a b c"})
    assert tokenizer.count([{"role": "user", "content": "one"}], []) == 5


@needs_library
def test_a_tokenizer_without_a_template_is_refused(tmp_path: Path) -> None:
    """Its tokens would not be those of a request."""
    with pytest.raises(SpecError, match="no chat template"):
        LocalTokenizer(tokenizer_in(tmp_path, template=None), template_options={})


@needs_library
def test_a_template_that_refuses_the_task_is_a_refusal(tmp_path: Path) -> None:
    """Some templates raise for a system turn or for tools; it is the operator's to mend."""
    template = "{{ raise_exception('no system turn') }}"
    tokenizer = LocalTokenizer(tokenizer_in(tmp_path, template=template), template_options={})
    with pytest.raises(SpecError, match="refuses the task: no system turn"):
        tokenizer.count([{"role": "system", "content": "one"}], [])


def test_a_name_is_not_a_directory(tmp_path: Path) -> None:
    """A model's name on a hub is never looked up."""
    with pytest.raises(SpecError, match="is no directory"):
        LocalTokenizer(str(tmp_path / "org" / "model"), template_options={})
