"""Numbers are located, read exactly, and never guessed."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest

from farm.errors import SpecError
from farm.scoring.number import read_number
from farm.scoring.score import score

READ = [
    ("42", "42"),
    ("It is 42.", "42"),
    ("(42).", "42"),
    ("42!", "42"),
    ("-5", "-5"),
    ("\u22125", "-5"),
    ("\u20135", "-5"),
    ("x=-5", "-5"),
    ("x = - 5", "-5"),
    ("- 5 apples", "5"),
    ("10 - 3 = 7", "7"),
    ("+5", "5"),
    ("3.14", "157/50"),
    (".5", "1/2"),
    ("1.0", "1"),
    ("1,000", "1000"),
    ("1,234,567.5", "2469135/2"),
    ("1{,}000", "1000"),
    ("1\\,000", "1000"),
    ("1\u202f000", "1000"),
    ("1'000", "1000"),
    ("1,00,000", "100000"),
    ("1/2", "1/2"),
    ("-1/2", "-1/2"),
    ("1 1/2", "3/2"),
    ("\u00bd", "1/2"),
    ("2\u2153", "7/3"),
    ("\\frac{3}{4}", "3/4"),
    ("-\\dfrac12", "-1/2"),
    ("1e3", "1000"),
    ("1.5E-3", "3/2000"),
    ("1.2 \u00d7 10^3", "1200"),
    ("1.2\\times 10^{-1}", "3/25"),
    ("10\u00b3", "1000"),
    ("2^10", "1024"),
    ("$1,234.50", "2469/2"),
    ("-$5", "-5"),
    ("$-5", "-5"),
    ("5 million", "5000000"),
    ("\uff14\uff12", "42"),
    ("\u0664\u0662", "42"),
    ("1, 2, 3", "3"),
    ("5km", "5"),
    ("The answer is 42. I checked it 3 times.", "42"),
    ("The answer is 12 + 5 = 17.", "17"),
    ("Answer:\n42", "42"),
    ("The answer is obvious: 42", "42"),
    ("The answer is 5. Answer: 6", "6"),
    ("so 7\n#### 18", "18"),
    ("\\boxed{42} in 3 steps", "42"),
    ("\\boxed{1} \\boxed{\\frac{1}{2}}", "1/2"),
    ("\u7b54\u6848\u662f42", "42"),
    ("<think>1</think>2", "2"),
    ("$42$", "42"),
    ("\\boxed{x = 42}", "42"),
    ("\\boxed{\\text{42 apples}}", "42"),
    ("Answer: 7, or so", "7"),
    # emphasis is no power
    ("**72**", "72"),
    ("**$72**", "72"),
    ("__72__", "72"),
    ("_5_", "5"),
    ("#### **72**", "72"),
    ("\\boxed{**72**}", "72"),
    ("**Answer:** **2** 3 apples", "2"),
    ("-**5**", "-5"),
    # signs, groups and fractions as TeX and prose write them
    ("minus 5", "-5"),
    ("-\u200b5", "-5"),
    ("\\boxed{-\\,7}", "-7"),
    ("1,\\!000", "1000"),
    ("1\\!,\\!000", "1000"),
    ("1~000", "1000"),
    ("1\\ 000", "1000"),
    ("1.0 \\times 10^{\\,3}", "1000"),
    ("\\frac{1,000}{2}", "500"),
    ("\\frac{1.5}{2}", "3/4"),
    # a unit's exponent belongs to the unit
    ("72^\\circ", "72"),
    ("90^{\\circ}", "90"),
    ("\\boxed{72\\text{ cm}^2}", "72"),
    ("72 cm^2", "72"),
    ("5 m/s^2", "5"),
    # an equation's whole number answers, on whichever side it stands
    ("The answer is 7 = 3 + 4", "7"),
    ("The answer is 3 + 4 = 7", "7"),
    ("The answer is **7** = 3 + 4", "7"),
    ("The answer is $7 = 3 \\times 4 - 5$.", "7"),
    ("The answer is x = 7 = 3 + 4", "7"),
    ("The answer is 10 = 7 + 3", "10"),
    ("The answer is -7=3-10", "-7"),
    ("x = 7", "7"),
    ("so 3 + 4 = 7", "7"),
    ("so 7 = 3 + 4", "7"),
    ("#### 3 + 4 = 7", "7"),
    ("#### 7 = 3 + 4", "7"),
    ("\\boxed{3 + 4 = 7}", "7"),
    ("\\boxed{7 = 3 + 4}", "7"),
    ("The answer is 3 apples + 4 apples = 7 apples.", "7"),
    ("The answer is 3 plus 4 = 7", "7"),
    ("The answer is 5 squared = 25", "25"),
    ("The answer is 5! = 120", "120"),
    ("The answer is 7 (3 + 4) = 49", "49"),
    ("The answer is f(2) = 7", "7"),
    ("The answer is 10% of 50 = 5", "5"),
    ("The answer is 2 * 3 = 6, so 6 + 1 = 7", "7"),
    # what is equated behind the answer does not change it
    ("The answer is 7 because 5 = 12 - 7", "7"),
    ("The answer is 7, since x + 4 = 11", "7"),
    ("The answer is 7 (10 = 7 + 3)", "7"),
    ("The answer is 5 km = 5000 m", "5"),
    ("The answer is 2/3 \u2248 0.667", "2/3"),
    # a dash between phrases, and marks of a list, add nothing up
    ("The answer is 42 - that is all", "42"),
    ("Step 2 - 42", "42"),
    ("2 things:\n* 3 apples", "3"),
]
UNREAD = [
    "",
    "none",
    "nan",
    "inf",
    "4,5",
    "0,500",
    "1,2,3",
    "3.1.4",
    "1.000,50",
    "12:30",
    "12/05/2020",
    "2020-05-01",
    "1/0",
    "1 000",
    "0x1F",
    "5k",
    "1e999999999",
    "10^10000000",
    "9" * 5000,
    "H2O",
    "\\boxed{}",
    "<think>5",
    "5\u00b12",
    "\\frac{1}{0}",
    "\\sqrt{2}",
    "\u221a2",
    "2\\pi",
    "2\\sqrt{3}",
    "\\sqrt[3]{8}",
    "\\boxed{3, 4}",
    "\\boxed{3 + 4}",
    "Answer: 7 or 8",
    "3-5",
    "10\u22123",
    # a part of something is not the answer
    "\\frac{\\sqrt{3}}{2}",
    "\\frac{\\pi}{4}",
    "2\\frac{\\pi}{4}",
    "\\frac{1}{n}",
    "\\boxed{2x}",
    "\\boxed{x^2}",
    "\\boxed{x^2+3}",
    "\\boxed{2i}",
    "\\boxed{5!}",
    "1.5M",
    "2B",
    "3\u4e07",
    "5 and 6",
    "The answer is 5, 6, 7",
    "The answer is not 5 but 6.",
    "- 7",
    "\u20145",
    "-(5)",
    "(-2)^2",
    "2^{1/2}",
    # no side of it is a whole number, or two unknowns are told
    "3 + 4",
    "Answer: 3 + 4",
    "#### 3 + 4",
    "The answer is 5 - 3",
    "The answer is 3 + 4 = 5 + 2",
    "I get 7 = 3 + 4",
    "The answer is x = 3, y = 4",
    "The answer is x = 3 or x = 4",
    "\\boxed{x = 3, y = 4}",
    "\\boxed{5, x = 3}",
]


@pytest.mark.parametrize(("text", "value"), READ, ids=ascii)
def test_a_number_is_read_as_an_exact_rational(text: str, value: str) -> None:
    numeral = read_number(text).numeral
    assert numeral is not None
    assert numeral.value == Fraction(value)


@pytest.mark.parametrize("text", UNREAD, ids=lambda text: ascii(text[:20]))
def test_what_has_no_value_or_several_is_no_answer(text: str) -> None:
    reading = read_number(text)
    assert reading.numeral is None
    assert not reading.extracted.found
    assert reading.extracted.rule


@pytest.mark.parametrize(
    ("prediction", "target", "right"),
    [
        ("50%", "0.5", 1),
        ("0.5", "50%", 1),
        ("50%", "50", 1),
        ("50", "50%", 1),
        ("50 percent", "50\\%", 1),
        ("0.5%", "0.5", 0),
        ("1%", "1", 0),
        ("100%", "1", 1),
        ("$5", "5", 1),
        ("$5", "\u20ac5", 0),
        ("$5", "5%", 0),
        ("$50\\%$", "50%", 1),
        ("$5$", "\u20ac5", 1),
        ("5", "-5", 0),
        ("0.1", "1/10", 1),
        ("0.3333", "1/3", 0),
        ("0.30000000000000004", "0.3", 0),
        ("0.1", "0.1000000000000000055511151231257827", 0),
    ],
)
def test_numbers_are_compared_exactly_and_units_are_minded(
    prediction: str, target: str, right: int
) -> None:
    """No float is ever compared: 0.1 is not its nearest double."""
    assert score("number", prediction, [target]) == right


def test_a_tolerance_is_relative_to_the_target_and_part_of_the_name() -> None:
    assert score("number", "101", ["100"]) == 0.0
    assert score("number@0.01", "101", ["100"]) == 1.0
    assert score("number@0.01", "101.0000001", ["100"]) == 0.0
    assert score("number@1e-2", "-99", ["-100"]) == 1.0


@pytest.mark.parametrize(
    "name", ["number@", "number@x", "number@-1", "number@2", "number@1e999", "number@1/2"]
)
def test_a_tolerance_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="tolerance"):
        score(name, "1", ["1"])


def test_the_place_includes_sign_and_unit() -> None:
    found = read_number("It costs -$1,000 today").extracted
    assert (found.text, found.start, found.end) == ("-$1,000", 9, 16)


@pytest.mark.parametrize(
    "text",
    ["answer: " * 12_000, "1," * 50_000, "1." * 50_000, "1^" * 50_000, "-" * 100_000,
     "9" * 100_000, "\\boxed{" * 14_000, "1'111" * 20_000, "answer: 1 = " * 8_000, "1 " * 50_000,
     "####" * 25_000, "answer: " + "1 = " * 25_000, "answer: " + "3 + 4 = " * 12_000,
     "answer: " + "x = 3, " * 14_000, "answer: x = 1" + " " * 99_980, "3 + " * 25_000,
     "1e" * 50_000, "{" * 100_000, "1" + "." * 100_000,
     "1" + ".a" * 50_000, "1-" * 50_000, "\\frac{{{1" * 11_000, "**" * 50_000,
     "1! " * 33_000, "2^9999 " * 14_000, "*1* " * 25_000, "9" * 3999 + " " + "9" * 3999],
    ids=lambda text: ascii(text[:12]),
)  # fmt: skip
def test_hostile_texts_of_100_kb_are_read_in_linear_time(text: str) -> None:
    """CPU time, generous for a busy machine: going back and forth would take minutes."""
    start = time.process_time()
    read_number(text)
    assert time.process_time() - start < 5
