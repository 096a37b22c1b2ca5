"""The same texts through libraries, and through slow versions written from the definition."""

from __future__ import annotations

import math
import random
import re
import string
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]
from sacrebleu.metrics.bleu import BLEU

from farm.errors import SpecError
from farm.scoring.corpus import corpus_bleu
from farm.scoring.overlap import bleu_4, f1, ngrams
from farm.scoring.passk import pass_at_k, pass_hat_k
from farm.scoring.squad import squad_em, squad_f1
from farm.scoring.subsequence import lcs, rouge_l
from farm.scoring.tokens import tokens

SEEDS = range(40)
ALPHABETS = (
    "ab c",
    "abcde fgh \n",
    string.printable,
    "aé ßΣσς İıi \u0301\u0e49\u0e44\u0e21 中文 \u200b²½",
    "the a an. The! (A)",
)


def random_text(rng: random.Random) -> str:
    alphabet = rng.choice(ALPHABETS)
    return "".join(rng.choices(alphabet, k=rng.choice((0, 1, 3, 10, 40, 120))))


def contract_tokens(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def slow_overlap(left: list[str], right: list[str]) -> int:
    rest = list(right)
    found = 0
    for word in left:
        if word in rest:
            rest.remove(word)
            found += 1
    return found


def slow_lcs(left: list[str], right: list[str]) -> int:
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, mine in enumerate(left):
        for j, other in enumerate(right):
            same = table[i][j] + 1
            table[i + 1][j + 1] = same if mine == other else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def slow_bleu(prediction: str, target: str) -> float:
    mine, other = contract_tokens(prediction), contract_tokens(target)
    if not mine or not other:
        return 0.0
    logs = []
    for order in range(1, 5):
        grams = [" ".join(mine[i : i + order]) for i in range(len(mine) - order + 1)]
        golds = [" ".join(other[i : i + order]) for i in range(len(other) - order + 1)]
        logs.append(math.log(Fraction(slow_overlap(grams, golds) + 1, len(grams) + 1)))
    return math.exp(sum(logs) / 4 + min(0.0, 1 - len(other) / len(mine)))


def slow_squad(text: str) -> str:
    def keep(new: str, old: str) -> str:
        return new if new.strip() or not old.strip() else old

    text = text.lower()
    text = keep("".join(c for c in text if c not in set(string.punctuation)), text)
    text = keep(re.sub(r"\b(a|an|the)\b", " ", text), text)
    return " ".join(text.split())


@pytest.mark.parametrize("seed", SEEDS)
def test_tokens_f1_bleu_and_lcs_agree_with_versions_written_from_the_definition(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        mine, other = random_text(rng), random_text(rng)
        left, right = contract_tokens(mine), contract_tokens(other)
        assert tokens(mine) == left
        assert bleu_4(mine, [other]) == pytest.approx(slow_bleu(mine, other), abs=1e-12)
        assert lcs(left, right) == slow_lcs(left, right)
        if left or right:
            expected = 2 * slow_overlap(left, right) / (len(left) + len(right))
            assert f1(mine, [other]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("words", "length"), [("ab", 1000), ("abcdefghij", 1003), ("ab", 999)])
def test_bleu_of_long_texts_is_counted_another_way_and_is_the_same(words: str, length: int) -> None:
    """From a thousand words on n-grams are numbers; plain counting is the second opinion."""
    rng = random.Random(5)
    mine = [rng.choice(words) for _ in range(length)]
    for other in ([rng.choice(words) for _ in range(1200)], ["z"] * 1000, mine):
        expected = [
            sum((Counter(ngrams(mine, order)) & Counter(ngrams(other, order))).values())
            for order in (1, 2, 3, 4)
        ]
        precision = math.prod(
            Fraction(matches + 1, length - order + 1) for order, matches in enumerate(expected)
        )
        brevity = math.exp(min(0.0, 1 - len(other) / length))
        found = bleu_4(" ".join(mine), [" ".join(other)])
        assert found == pytest.approx(float(precision) ** 0.25 * brevity, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_squad_metrics_agree_with_a_second_normaliser(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        mine, other = random_text(rng), random_text(rng)
        left, right = slow_squad(mine), slow_squad(other)
        assert squad_em(mine, [other]) == float(left == right)
        words, golds = left.split(), right.split()
        common = sum((Counter(words) & Counter(golds)).values())
        both = len(words) + len(golds)
        assert squad_f1(mine, [other]) == pytest.approx(2 * common / both if both else 1.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_rouge_l_is_that_of_rouge_score_with_the_contract_tokenizer(seed: int) -> None:
    """rouge_score gives 0.0 where neither text has a token; that case is ours by decision."""

    class Contract:
        def tokenize(self, text: str) -> list[str]:
            return contract_tokens(text)

    peer = RougeScorer(["rougeL"], tokenizer=Contract())
    rng = random.Random(seed)
    for _ in range(20):
        mine, other = random_text(rng), random_text(rng)
        if contract_tokens(mine) or contract_tokens(other):
            expected = peer.score(other, mine)["rougeL"].fmeasure
            assert rouge_l(mine, [other]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_corpus_bleu_is_that_of_sacrebleu_on_the_same_tokens_unsmoothed(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.randint(1, 8)
    words = ["red", "blue", "dog", "cat", "runs"]
    predictions = [" ".join(rng.choices(words, k=rng.randint(0, 20))) for _ in range(size)]
    targets = [
        [" ".join(rng.choices(words, k=rng.randint(1, 20))) for _ in range(2)] for _ in range(size)
    ]
    peer = BLEU(tokenize="none", smooth_method="none", force=True)
    streams = [[case[place] for case in targets] for place in range(2)]
    expected = peer.corpus_score(predictions, streams).score / 100
    assert corpus_bleu(predictions, targets) == pytest.approx(expected, abs=1e-12)


def test_long_texts_are_compared_exactly_when_tokens_are_numbered() -> None:
    """From 1,000 tokens on they are numbered first; the table of the textbook must agree."""
    rng = random.Random(7)
    # each side has words the other lacks: numbering them wrongly would make them equal
    left, right = (rng.choices(words, k=1200) for words in ("abcdefgh", "efghijkl"))
    assert lcs(left, right) == slow_lcs(left, right)


def test_pass_at_k_is_the_ratio_of_binomials_for_all_small_counts() -> None:
    for n in range(1, 13):
        for c in range(n + 1):
            for k in range(1, n + 1):
                none = Fraction(math.comb(n - c, k), math.comb(n, k))
                every = Fraction(math.comb(c, k), math.comb(n, k))
                assert pass_at_k(n, c, k) == pytest.approx(float(1 - none), abs=1e-13)
                assert pass_hat_k(n, c, k) == pytest.approx(float(every), abs=1e-13)


def test_pass_at_k_takes_the_integers_of_numpy_and_no_truth_values() -> None:
    """Counts come out of arrays and tables as numpy's integers."""
    assert pass_at_k(np.int64(5), np.int32(1), 2) == pass_at_k(5, 1, 2)
    assert pass_hat_k(5, np.uint8(3), np.int64(2)) == pass_hat_k(5, 3, 2)
    listed: list[Any] = [True, np.bool_(True), 5.0, np.float64(5), "5"]
    for wrong in listed:
        with pytest.raises(SpecError, match="give a count of samples"):
            pass_at_k(wrong, 1, 1)


def test_pass_at_k_keeps_its_digits_where_it_is_tiny() -> None:
    """One right sample of 10**9, one drawn: exactly 1e-9; 1 - (1 - 1e-9) has seven digits."""
    assert pass_at_k(10**9, 1, 1) == pytest.approx(1e-9, rel=1e-14, abs=0)
