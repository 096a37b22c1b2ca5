"""Worked examples in a prompt's body are found; prompts that only look like it are not."""

from __future__ import annotations

import pytest

from farm.core.fewshot import embedded_example

EXAMPLES = [
    "Q: 1+1?\nA: 2\n\nQ: 2+2?\nA:",
    "Question: capital of Italy?\nAnswer: Rome\nQuestion: capital of Chad?\nAnswer:",
    "**Q1:** one?\n**A1:** 1\n**Q2:** two?",
    "Input: good film\nLabel: positive\nInput: bad film\nLabel:",
    "User: hi\nAssistant: hello\nUser: bye",
    "Q: 1+1?\nA:\n2\nQ: 2+2?\nA:",
    "Q: 1+1?\nA: 2\n\nNow tell me what 2+2 is.",
    "Example 1: 3 becomes 9\nExample 2: 4 becomes 16\nWhat does 5 become?",
    "Example:\nInput: 3\nOutput: 9\n\nSquare 5.",
    "Q: 1+1? A: 2 Q: 2+2? A:",
    "otter => loutre\ncheese =>",
    "cold -> hot\nup ->",
]
PLAIN = [
    "What is 2 plus 2?",
    "Q: What is 2 plus 2?\nA:",
    "Question: Which colour?\nA: red\nB: blue\nAnswer:",
    "Which colour?\nA) red\nB) blue",
    "Give an example: a sentence with 'although'.",
    "Write a program.\nInput: an integer n\nOutput: its factorial",
    "Translate: Answer: yes",
    "def f(x):\n    # f(2) -> 4\n    return",
    "Explain what a => b means.",
    "Text: I like it.\nSentiment:",
    "",
]


@pytest.mark.parametrize("prompt", EXAMPLES)
def test_an_answered_example_is_found(prompt: str) -> None:
    assert embedded_example(prompt)


@pytest.mark.parametrize("prompt", PLAIN)
def test_a_prompt_without_an_answered_example_is_left_alone(prompt: str) -> None:
    assert embedded_example(prompt) is None
