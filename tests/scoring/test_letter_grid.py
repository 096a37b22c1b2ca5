"""A claim stands whatever a reply goes on to say of the other options.

Replies as models write them: a head that claims, and an explanation behind it. Each is
spelled out with the letter it claims, and read for every letter.
"""

from __future__ import annotations

import itertools

import pytest

from farm.scoring.letter import read_letter

# {L} is the claimed letter, {X} {Y} {Z} are the other three in order
HEADS = [
    "The answer is {L}",
    "The answer is {L}.",
    "The answer is ({L})",
    "The correct answer is ({L}).",
    "The answer is {L}. foo",
    "The answer is ({L}) foo",
    "The correct answer is: {L}",
    "The correct answer is **{L}) foo**.",
    "**Answer: {L}**",
    "**Answer:** {L}",
    "Answer: ({L})",
    "Answer: {L}.",
    "Answer: \\boxed{{{L}}}",
    "\\boxed{{{L}}}",
    "I choose {L}.",
    "I would go with ({L}).",
    "Answer \u2192 {L}",
    "My answer is option {L}.",
    "<answer>{L}</answer>",
    "The most likely answer is {L}.",
    "Therefore, the best answer is {L}: foo.",
    "So the final answer is **{L}**",
    "The answer must be option {L}.",
    "### Answer\n\n{L}",
]
# behind "Answer:" these look like the options of a question if the letter is the first one
HEADS_OF_TEXT = ["Answer: {L}) foo", "**Answer: {L}. foo**", "Answer: ({L}) foo"]
EXPLANATIONS = [
    "\n\nExplanation:\n{X}) is wrong.\n{Y}) is wrong.\n{Z}) is wrong.",
    "\n\n({X}) foo is incorrect.\n({Y}) foo is incorrect.\n({Z}) foo is incorrect.",
    "\n- **{X}.** This is incorrect.\n- **{Y}.** Not correct.\n- **{Z}.** Incorrect: no.",
    "\n\nWhy not the others?\n\n{X}. Too small.\n{Y}. Too big.\n{Z}. Not real.",
    "\n\n{X}) London is in the UK.\n{Y}) Rome is in Italy.\n{Z}) Bonn is in Germany.",
    "\n\n**{X}**: wrong\n**{Y}**: wrong\n**{Z}**: wrong",
    "\n\n1. {X} is wrong.\n2. {Y} is wrong.\n3. {Z} is wrong.",
    "\nThe answer is not {X}, and not {Y}.",
    "\n\nOption {X} is incorrect. Option {Y} is incorrect. Option {Z} is incorrect.",
    "\n\nAnswer choice {X} describes a cell. Answer choice {Y} refers to a virus.",
]
# these go on in the line of the claim
GOING_ON = [
    " It is not {X}. It is not {Y}. It is not {Z}.",
    " Options ({X}), ({Y}), ({Z}) are wrong.",
    " ({X}) is too small, ({Y}) is too large, and ({Z}) is not a prime.",
    " {X}, {Y} and {Z} are wrong.",
    " It cannot be {X}. Many students choose {Y}, but that is a trap.",
    " The other options, {X}, {Y} and {Z}, are wrong, unlike {X}.",
]
# these go on in its sentence
CLAUSES = [
    ("The answer is ({L}) because ({X}) is false.", ""),
    ("The answer is {L} because {X}, {Y} and {Z} are false.", ""),
    ("The answer is ({L}), ({X}) is too small.", ""),
    ("The answer is {L}, {X} is too small.", ""),
    ("The answer is {L}, {X} and {Y} are wrong.", ""),
    ("The answer is {L}) foo, not {X}) bar.", ""),
    ("The answer is {L}) foo. Bar is option {X}) and baz {Y}).", ""),
    ("The correct answer is ({L}) foo, since ({X}) and ({Y}) are bar.", ""),
    ("The answer is {L}, not {X} or {Y}", ""),
    ("The answer is {L} not {X}", ""),
    ("The answer is {L} rather than {X}", ""),
    ("({L}) is correct. ({X}) is too small.", ""),
    ("Answer: {L}; {X} is wrong.", ""),
    ("{{'choice': '{L}'}}", ""),
    ('{{"answer": "{L}", "why": "{X}) is wrong"}}', ""),
    ("The answer is {L}.", "\n\nAnswer {X}: too small\nAnswer {Y}: too big\nAnswer {Z}: no"),
    ("The answer is {L}.", " Answers {X} and {Y} are too small."),
    ("The answer is {L}.", " The other answers ({X}, {Y}, {Z}) are wrong."),
    ("The answer is {L}.", " The second best choice is {X}."),
    ("The answer is {L}.", " It is tempting to choose {X}. You may have picked {Y} by mistake."),
    ("The answer is {L}.", " The wrong answers {X}, {Y} and {Z} are distractors."),
    ("The answer is {L}, whereas ({X}), ({Y}) and ({Z}) are cold.", ""),
    ("The answer is {L}, not ({X}), ({Y}), or ({Z}).", ""),
    ("Answer choice {L} is correct.", " Answer choice {X} is not."),
    ("**Answer {L} is correct.**", " Answer {X} is wrong."),
    ("We choose ({L}).", " ({X}) and ({Y}) fail."),
    ("My final choice is {L}) foo; {X}) is not.", ""),
    ("Answer {L}: foo", ""),
    ("{L}", "\n\n({X}) is wrong.\n({Y}) is wrong."),
    ("The final answer is {L}", "\n\nSome might pick {X} here, and others would choose {Y}."),
]
PAIRS = [
    *itertools.product(HEADS, EXPLANATIONS + GOING_ON),
    *itertools.product(HEADS_OF_TEXT, EXPLANATIONS),
    *CLAUSES,
]
OTHERS = {
    "A": ("B", "C", "D"),
    "B": ("A", "C", "D"),
    "C": ("A", "B", "D"),
    "D": ("A", "B", "C"),
}


@pytest.mark.parametrize("letter", ["A", "B", "C", "D"])
def test_what_is_said_of_the_other_options_takes_no_claim_away(letter: str) -> None:
    x, y, z = OTHERS[letter]
    wrong = {}
    for head, explanation in PAIRS:
        reply = (head + explanation).format(L=letter, X=x, Y=y, Z=z)
        found = read_letter(reply, letters="ABCDE")
        if found.text != letter:
            wrong[reply] = found.text or found.rule
    assert wrong == {}


CUES = [
    "", "Answer:", "The answer:", "Choose the answer:", "The correct answer is:\n", "Answer",
    "Select:", "Choose", "Pick the best option:", "Which answer is right?", "\u7b54\u6848:",
]  # fmt: skip
LISTS = [
    "\nA) red\nB) blue\nC) green",
    "\nA. red\nB. blue\nC. green\nD. none",
    "\n\n(A) red\n(B) blue\n(C) green",
    "\n\n(A) red\n\n(B) blue\n\n(C) green",
    "\n- A: red\n- B: blue",
    "\n**A.** red\n**B.** blue\n**C.** green",
    "\n[A] red\n[B] blue",
    "\na) red\nb) blue\nc) green",
    "\nA.red\nB.blue\nC.green",
    "\nF. red\nG. blue\nH. green\nJ. grey",
    "\nA) True\nB) False",
    "\nA) It is wrong\nB) It is right\nC) It is incorrect",
    " A) red B) blue C) green",
    " (A) red, (B) blue, (C) green",
    " (A) red (B) blue",
    " A) red\nB) blue\nC) green",
    " A. Paris is large\nB. Rome is old\nC. Bonn is small",
    "\nA\nB\nC",
]


@pytest.mark.parametrize("cue", CUES, ids=ascii)
def test_the_options_of_a_question_are_no_answer(cue: str) -> None:
    read = {cue + options: read_letter(cue + options).text for options in LISTS}
    assert {reply: letter for reply, letter in read.items() if letter} == {}


@pytest.mark.parametrize(
    "reply",
    [
        "The answer is B) red or C) green",
        "The answer is (A) red, (B) blue, or (C) green",
        "The answer is (C) red and (A) blue.",
        "Answer: A, B and C are correct.",
        "Answer: A and B are both right.",
        "The answer is C and also D",
    ],
)
def test_several_options_claimed_together_are_no_answer(reply: str) -> None:
    assert read_letter(reply).text == ""
