"""Print how fast the metrics are against plain versions, side by side in one run.

    python -m tests.bench.bench_metrics

Ratios are plain time over farm's time, CPU time of one process, the best of several
rounds taken in turn. Predictions have 30 tokens, targets 10; for rouge_l texts of 1,000.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence

from farm.scoring.score import score, score_many

PAIRS = 5_000
ROUNDS = 7
WORDS = [f"word{number}" for number in range(500)]

Pairs = tuple[list[str], list[list[str]]]


def texts(rng: random.Random, tokens: int, count: int) -> list[str]:
    """Make texts whose words repeat as in prose: few are common, many are rare."""
    weights = [1 / rank for rank in range(1, len(WORDS) + 1)]
    return [" ".join(rng.choices(WORDS, weights, k=tokens)) for _ in range(count)]


def pairs(seed: int, *, predicted: int = 30, wanted: int = 10, count: int = PAIRS) -> Pairs:
    rng = random.Random(seed)
    return texts(rng, predicted, count), [[text] for text in texts(rng, wanted, count)]


def plain_tokens(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def plain_exact(predictions: Sequence[str], targets: Sequence[Sequence[str]]) -> list[float]:
    return [
        1.0 if prediction.strip() == wanted[0].strip() else 0.0
        for prediction, wanted in zip(predictions, targets, strict=True)
    ]


def bare_compare(predictions: Sequence[str], targets: Sequence[Sequence[str]]) -> list[float]:
    return [
        1.0 if prediction == wanted[0] else 0.0
        for prediction, wanted in zip(predictions, targets, strict=True)
    ]


def plain_f1(prediction: str, target: str) -> float:
    answer, gold = plain_tokens(prediction), plain_tokens(target)
    common = sum((Counter(answer) & Counter(gold)).values())
    if not common:
        return 0.0
    precision, recall = common / len(answer), common / len(gold)
    return 2 * precision * recall / (precision + recall)


def plain_bleu(prediction: str, target: str) -> float:
    answer, gold = plain_tokens(prediction), plain_tokens(target)
    product = 1.0
    for order in range(1, 5):
        mine = Counter(tuple(answer[i : i + order]) for i in range(len(answer) - order + 1))
        other = Counter(tuple(gold[i : i + order]) for i in range(len(gold) - order + 1))
        product *= (sum((mine & other).values()) + 1) / (sum(mine.values()) + 1)
    return float(product**0.25)


def plain_rouge(prediction: str, target: str) -> float:
    answer, gold = plain_tokens(prediction), plain_tokens(target)
    before = [0] * (len(gold) + 1)
    for mine in answer:
        row = [0]
        for place, other in enumerate(gold, start=1):
            row.append(before[place - 1] + 1 if mine == other else max(before[place], row[-1]))
        before = row
    return 2 * before[-1] / (len(answer) + len(gold))


def each(function: Callable[[str, str], float]) -> Callable[..., list[float]]:
    def run(predictions: Sequence[str], targets: Sequence[Sequence[str]]) -> list[float]:
        return [
            function(prediction, wanted[0])
            for prediction, wanted in zip(predictions, targets, strict=True)
        ]

    return run


def single(metric: str) -> Callable[..., list[float]]:
    def run(predictions: Sequence[str], targets: Sequence[Sequence[str]]) -> list[float]:
        return [
            score(metric, prediction, wanted)
            for prediction, wanted in zip(predictions, targets, strict=True)
        ]

    return run


def many(metric: str) -> Callable[..., list[float]]:
    return lambda predictions, targets: score_many(metric, predictions, targets)


def best(functions: Sequence[Callable[..., list[float]]], data: Pairs, rounds: int) -> list[float]:
    """Return each function's best CPU seconds, the rounds of all taken in turn."""
    spent = [float("inf")] * len(functions)
    for _ in range(rounds):
        for place, function in enumerate(functions):
            start = time.process_time()
            function(*data)
            spent[place] = min(spent[place], time.process_time() - start)
    return spent


def report(name: str, plain: Callable[..., list[float]], metric: str, data: Pairs,
           rounds: int, bar: float) -> None:  # fmt: skip
    expected = plain(*data)
    got = score_many(metric, *data)
    assert all(abs(a - b) < 1e-9 for a, b in zip(expected, got, strict=True)), name
    slow, batch, call = best([plain, many(metric), single(metric)], data, rounds)
    per_pair = 1e6 * batch / len(data[0])
    print(
        f"{name:34} x{slow / batch:7.2f} (score_many)  x{slow / call:7.2f} (score)"
        f"  bar x{bar}  {per_pair:8.2f} us a pair"
    )


def main() -> None:
    data = pairs(1)
    report("exact_match / stripped comparison", plain_exact, "exact_match", data, ROUNDS, 0.5)
    report("exact_match / bare comparison", bare_compare, "exact_match", data, ROUNDS, 0.5)
    report("f1 / Counter", each(plain_f1), "f1", data, ROUNDS, 1.8)
    report("bleu_4 / Counter", each(plain_bleu), "bleu_4", data, ROUNDS, 2.0)
    long = pairs(2, predicted=1000, wanted=1000, count=3)
    report("rouge_l / textbook table", each(plain_rouge), "rouge_l", long, 3, 50.0)
    rng = random.Random(3)
    one, other = (text[:100_000] for text in texts(rng, 17_000, 2))
    start = time.process_time()
    score("rouge_l", one, [other])
    print(
        f"rouge_l of two texts of {len(one)} bytes: {1000 * (time.process_time() - start):.1f} ms"
    )


if __name__ == "__main__":
    main()
