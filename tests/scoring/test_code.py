"""Programs are taken out of replies as a reader would take them."""

from __future__ import annotations

import time

import pytest

from farm.scoring.code import extract_code, read_code
from farm.scoring.postprocess import post_process

DEF = "def f(x):\n    return x + 1\n"


@pytest.mark.parametrize(
    "reply",
    [
        f"~~~python\n{DEF}~~~",
        f"~~~~ py title=x\n{DEF}~~~~",
        f"```{{.python .numberLines}}\n{DEF}```",
        f"``` Python\n{DEF}```",
        f"```python\n{DEF}",
        f"Here it is:\n\n{DEF}\nThis adds one.",
        DEF,
        DEF.replace("\n", "\r\n"),
        f"<think>```python\ndef f(x): return x\n```</think>\n```python\n{DEF}```",
        f"```python\n{DEF}```\nUse it:\n```python\nprint(f(1))\n```\nwhich prints\n```\n2\n```",
        f"```json\n{{}}\n```\n```python\n{DEF}```\n```text\nok\n```",
        f"```python\ndef f(x): retur x\n```\nfixed\n```python\n{DEF}```",
        f"The call `f(1)` and ```x``` inline.\n```py\n{DEF}```",
        ">>> def f(x):\n...     return x + 1\n...\n>>> f(1)\n2",
        f"- ```python\n{''.join('  ' + line for line in DEF.splitlines(keepends=True))}  ```",
        f"\ufeff```python\n{DEF}```",
        f"\u200b```python\n{DEF}```\nDone.",
        f"```text\n{DEF}```",
        f"```plaintext\n{DEF}```",
        f"```txt\n{DEF}```",
        f"```none\n{DEF}```",
        f"```python3.11\n{DEF}```",
        f"```solution.py\n{DEF}```",
        "```python-repl\n>>> def f(x):\n...     return x + 1\n...\n>>> f(1)\n2\n```",
        "".join(f"> {line}\n" for line in ("```python", *DEF.splitlines(), "```")) + "Done.",
        f"```python\n{DEF.rstrip()}```\nThis adds one.",
        f"```python\n{DEF}``` This adds one.\nReally.",
        f"<pre><code>{DEF}</code></pre>",
        f"See <code>f</code>:\n<pre><code class='x'>\n{DEF}</code>\n</pre> done",
        f"```\n```\n{DEF}",
        f"```c\n{DEF}```",
        # the prompt has opened the block, the reply closes it
        f"{DEF}```",
        f"{DEF}```\n\nThis function adds one.",
        f"{DEF}```\n```python\nprint(f(1))\n```",
        f"{DEF}```\nwhich prints\n```\n2\n```",
        # a fence at the end of a sentence, or behind a token of the template
        f"Here is the code: ```python\n{DEF}```\nDone.",
        f"Here is the code: ```\n{DEF}```\nDone.",
        f"<|channel|>final<|message|>```python\n{DEF}```",
        f"Put it into ```python\nas I do:\n```python\n{DEF}```",
        # marks of prompts and tokenizers
        f"[BEGIN]\n{DEF}[DONE]",
        f"[BEGIN]\n{DEF}[DONE]\nYou are an expert.\n[BEGIN]\ndef g():\n    pass\n[DONE]",
        f"{DEF}[DONE]\n",
        f"[PYTHON]\n{DEF}[/PYTHON]",
        f"<answer>\n{DEF}</answer>",
        f"{DEF.rstrip()}</s>",
        f"{DEF}<|im_end|><|endoftext|>\n",
        f"```python\n[BEGIN]\n{DEF}[DONE]\n```",
        f"```python\n{DEF}<|endoftext|>",
        # a test or an example of it
        f"```python\n{DEF}```\n```python\nfrom solution import f\ndef test_f(): assert f(1)\n```",
        "10. So:\n    ```python\n    def f(x):\n        return x + 1\n    ```\n",
        "10. ```python\n    def f(x):\n        return x + 1\n    ```\n",
    ],
    ids=range(51),
)
def test_the_program_is_found(reply: str) -> None:
    assert extract_code(reply) == DEF


def test_a_fence_inside_a_docstring_does_not_close_its_block() -> None:
    """CommonMark: a closing fence stands at most three spaces further in than the opening one."""
    code = "def f():\n    '''Doc.\n\n    ```\n    f()\n    ```\n    '''\n    return 1\n"
    assert extract_code(f"```python\n{code}```\n") == code
    indented = "".join(f"  {line}" for line in code.splitlines(keepends=True))
    assert extract_code(f"- ```python\n{indented}  ```\n") == code


def test_text_that_looks_like_a_mark_inside_a_program_stays() -> None:
    code = "END = '<|endoftext|>'\ndef f(x):\n    return x[DONE]\n"
    assert extract_code(code) == code
    assert extract_code(f"```python\n{code}```") == code


def test_a_block_that_needs_an_earlier_one_comes_behind_it() -> None:
    helper, old = "def helper(x):\n    return x\n", "def f(x):\n    return helper(x) - 1\n"
    new = "def f(x):\n    return helper(x) + 1\n"
    reply = "".join(f"```python\n{code}```\n" for code in (helper, old, new))
    found = read_code(reply)
    assert found.text == f"{helper}\n{new}"
    assert found.rule == "block 3 of 3, behind 1 it needs"


def test_a_helper_behind_the_function_that_uses_it_is_put_before_it() -> None:
    main, helper = "def f(x):\n    return helper(x)\n", "def helper(x):\n    return x\n"
    reply = f"```python\n{main}```\nwith\n```python\n{helper}```"
    assert extract_code(reply) == f"{helper}\n{main}"
    assert extract_code(reply, entry_point="f") == f"{helper}\n{main}"


def test_the_entry_point_decides_between_blocks() -> None:
    reply = f"```python\n{DEF}```\n```python\ndef g():\n    pass\n```"
    assert extract_code(reply) == "def g():\n    pass\n"
    assert extract_code(reply, entry_point="f") == DEF


@pytest.mark.parametrize(
    "reply",
    ["", " \n", "I cannot help with that.", "No", "42", "x, y", "```js\nlet x\n```", "```\n```",
     "from here on, think", "class is over"],
)  # fmt: skip
def test_prose_is_no_program(reply: str) -> None:
    found = read_code(reply)
    assert (found.text, found.found) == ("", False)
    assert not post_process("extract_code_block", reply).found


def test_a_broken_program_is_handed_on_to_be_judged_as_broken() -> None:
    assert extract_code("```python\ndef f(x:\n  return\n```") == "def f(x:\n  return\n"
    assert extract_code("Sure!\ndef f(x:\n  return") == "def f(x:\n  return\n"


def test_the_place_is_that_of_the_block() -> None:
    reply = f"Look:\n```python\n{DEF}```\n"
    found = read_code(reply)
    assert reply[found.start : found.end] == DEF


@pytest.mark.parametrize(
    "reply",
    ["`" * 100_000, "```\nx\n" * 15_000, "-" * 100_000 + "1", "```python\n" + "(" * 90_000,
     "import x\n\n" * 9_000 + "and prose", "x=" + "1+" * 45_000 + "1", "x\x00=1", "x='\ud800'",
     "\n" * 100_000, ">>> " * 20_000, "```python\n" + "x=1```\n" * 14_000, "<pre>" * 20_000,
     "```python\n" + "(```\n" * 18_000, "x: ```py\n" * 12_000, "x" + " " * 100_000 + "```",
     ("a " * 900 + "``` b\n") * 60, "x=1\n" * 20_000 + "```", "[BEGIN]\n" * 12_000,
     "<|x|>" * 20_000, " " * 100_000 + "[DONE]"],
    ids=range(20),
)  # fmt: skip
def test_hostile_replies_are_read_without_a_crash_and_in_time(reply: str) -> None:
    """CPU time, generous for a busy machine."""
    start = time.process_time()
    read_code(reply)
    assert time.process_time() - start < 10
