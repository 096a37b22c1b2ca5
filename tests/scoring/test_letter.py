"""A letter is read where it is claimed, and nowhere else."""

from __future__ import annotations

import time

import pytest

from farm.scoring.letter import read_letter, target_letter
from farm.scoring.postprocess import post_process
from farm.scoring.score import score

CLAIMS = [
    ("A", "A"),
    ("b", "B"),
    ("(C)", "C"),
    ("$A$", "A"),
    ("**A**", "A"),
    ("`D`", "D"),
    ("A.", "A"),
    ("\uff21", "A"),
    ("B) Paris", "B"),
    ("**B**: Paris", "B"),
    ("Answer: B", "B"),
    ("answer is (b).", "B"),
    ("The correct answer is d.", "D"),
    ("The best option is C because it floats.", "C"),
    ("Option C is correct.", "C"),
    ("**Answer: B**", "B"),
    ("Final Answer: \\(B\\)", "B"),
    ("Answer: $\\boxed{D}$", "D"),
    ("\\boxed{\\text{(E)}}", "E"),
    ("Answer:\n\nB", "B"),
    ("\u7b54\u6848\u662fA\u3002", "A"),
    ("Antwort: C", "C"),
    ("I choose B", "B"),
    ("Let me think about cats.\n\nD.", "D"),
    ("The answer is A. No, wait: the answer is B.", "B"),
    ("The incorrect answer is A. The answer is C.", "C"),
    ("The answer is A, not B.", "A"),
    ("Answer: B, since A is too small", "B"),
    ("Answer: B and C is wrong", "B"),
    ("<think>the answer is A</think>The answer is B", "B"),
    ("Which answer is right?\nA) red\nB) blue\nAnswer: B", "B"),
    ("Answer: B.\r\n", "B"),
    ("Answer:B", "B"),
    ("Answer \u2013 B", "B"),
    ("Answer: B) Paris", "B"),
    ("<answer>C</answer>", "C"),
    ("The answer is <b>C</b>", "C"),
    ('{"answer": "C"}', "C"),
    ("[[C]]", "C"),
    ("I would go with C.", "C"),
    ("Answer: D. None of the above", "D"),
    # what is called the answer outranks what is only called correct
    ("Answer: B. Statement A is correct.", "B"),
    ("The answer is B. Vitamin C is the best antioxidant.", "B"),
    ("Answer: B. A is correct only if x>0.", "B"),
    ("If A were chosen, the answer is B", "B"),
    ("B is correct because it floats", "B"),
    # ordinary markup
    ("\u201cC\u201d", "C"),
    ("\u2018C\u2019", "C"),
    ("\u00abC\u00bb", "C"),
    ("<b>A</b>", "A"),
    ("A</s>", "A"),
    ("A\u3002", "A"),
    ("\u3010A\u3011", "A"),
    ("\u300cA\u300d", "A"),
    ("A,", "A"),
    ("A;", "A"),
    ("\u200bA\u200b", "A"),
    ("Answer: \u200bA\ufeff", "A"),
    ("\\fbox{A}", "A"),
    ("\\boxed{\\textit{A}}", "A"),
    ("It is C.", "C"),
    ("Option C", "C"),
    ("The answer to the question is A.", "A"),
    # a correction, and the same again
    ("A\n\nWait, actually:\n\nB", "B"),
    ("Answer: B\n\n**B**", "B"),
    ("B\nB", "B"),
    ("Options:\nA\nB\nC\nAnswer:\nC", "C"),
    ("I think B is correct.", "B"),
    ("1. B is correct", "B"),
    ("Answer: B \u2705", "B"),
]
NO_CLAIMS = [
    "",
    " \n",
    "Answer: None of the above",
    "Answer: A or B",
    "Answer: A and C",
    "Answer: A, B",
    "Answer: A/B",
    "answer is AB",
    "The answer is a dog.",
    "The answer is not A.",
    "The answer A is wrong.",
    "The wrong answer is A, clearly.",
    "I think so.",
    "A or B",
    "A) red\nB) blue",
    "Choose the answer:\nA) red\nB) blue\nC) green",
    "Answer: C++",
    "Answer: A's",
    "<think>The answer is A",
    "The answer is A. Final answer: none",
    "Anna ate an apple",
    "Answer: 42",
    "Answer: All of the above",
    "The answer is A. Answer: all of the above",
    "Answer: both A and B",
    "Answer: x = 5",
    "Answer: E = mc^2",
    # denied, supposed, asked
    "I don't think B is correct.",
    "Neither A nor B is correct.",
    "It is not true that A is correct.",
    "I don't think the answer is B.",
    "I don't choose A.",
    "If B is correct",
    "C is correct? No.",
    "A is correct only if x>0.",
    "Is the answer B?",
    # two at once
    "Both A and B is correct",
    "A or B is the answer.",
    "Answer: A or option B",
    "A; B",
    "Answer: A; B",
    "A|B",
    "Answer: A|B",
    "(A)(B)",
    "Answer: (A)(B)",
    "Answer: A as well as B",
    "A (or B)",
    "Answer: A (or B)",
    "\\boxed{A \\text{ or } B}",
    # part of something else
    "Vitamin C is the best antioxidant.",
    "The answer is U.S.",
    "Answer: D.C.",
    "Answer: e.g. a cat",
    "Answer: E. coli",
    "E. coli",
    "Answer: O'Brien",
    "Answer: H\u2082O",
    "Answer: f(x)=2",
    "Answer: x > 3",
    "Answer: C(n,k)",
    "Vitamin C is the answer",
    "vitamin C is the answer.",
    "Malcolm X is the answer",
    "5 C is the answer",
    "25 \u00b0C is the answer",
    "The answer is C\u00b0",
    "The answer is C \u00b0",
    "C\u00b0",
    "The answer is C\u266f",
    "The answer is K\u00b7m",
    "The answer is C major",
    "The answer is B vitamins",
    # two lines, and nothing between them
    "A\nB",
    "A\n\nB",
    "(A)\n(B)",
    "A\nB\nC",
    "A\nB\nOne of these.",
    "Answer: A\nB",
    "Answer: A\n\n**B**",
]


@pytest.mark.parametrize(("reply", "letter"), CLAIMS, ids=ascii)
def test_a_claimed_letter_is_read(reply: str, letter: str) -> None:
    found = read_letter(reply)
    assert (found.found, found.text) == (True, letter)


@pytest.mark.parametrize("reply", NO_CLAIMS, ids=ascii)
def test_no_claim_or_two_at_once_are_no_answer(reply: str) -> None:
    found = read_letter(reply)
    assert (found.found, found.text) == (False, "")
    assert found.rule


def test_the_post_process_knows_the_five_letters_of_a_choice_only() -> None:
    assert post_process("extract_letter", "Answer: E").text == "E"
    beyond = post_process("extract_letter", "Answer: F")
    assert not beyond.found
    assert beyond.rule == "the letter F is not one of A-E"


@pytest.mark.parametrize(
    ("opens", "closes"),
    [("<THINK>", "</THINK>"), ("<Thinking>", "</thinking>"), ("[THINK]", "[/THINK]"),
     ("", "</Think>"), ("", "[/THINK]"), ("<reasoning>", "</REASONING>")],
)  # fmt: skip
def test_thinking_is_not_read_whatever_the_case_of_its_tags(opens: str, closes: str) -> None:
    found = read_letter(f"{opens}The answer is A.{closes}B")
    assert (found.text, found.start) == ("B", len(opens) + 16 + len(closes))
    if opens:
        assert read_letter(f"{opens}The answer is A.").rule == "the thinking never ends"


def test_the_place_is_that_of_the_letter() -> None:
    found = read_letter("So: the answer is (c).")
    assert (found.start, found.end, found.rule) == (19, 20, "behind 'answer'")


def test_a_target_is_a_letter_bare_or_wrapped() -> None:
    assert [target_letter(text) for text in ("A", "a", "(B)", "C.", "Paris", "", "AB")] == [
        "A", "A", "B", "C", None, None, None,
    ]  # fmt: skip
    assert score("letter", "Answer: B", ["(B)"]) == 1.0
    assert score("letter", "Answer: B", ["A", "b"]) == 1.0


@pytest.mark.parametrize(
    "reply",
    ["answer " * 14_000, "\\boxed{" * 14_000, " \r" * 50_000, "(" * 100_000, "A," * 50_000,
     "answer is " + " " * 99_990, "answer: A) " * 9_000, "A is correct " * 7_000,
     "answer A if " * 8_000, "\u200bA\n" * 30_000, "[/think]" * 12_000],
    ids=lambda reply: ascii(reply[:12]),
)  # fmt: skip
def test_hostile_texts_of_100_kb_are_read_in_linear_time(reply: str) -> None:
    """CPU time, generous for a busy machine: going back and forth would take minutes."""
    start = time.process_time()
    read_letter(reply)
    assert time.process_time() - start < 5
