"""The cost ledger: every call is counted once, over every kill and resume."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from farm.core.cost import Price, Prices, Spending, total_spending
from farm.core.generation import Generation, Request, Usage, failed
from farm.errors import Corrupt
from farm.store.costs import CostLedger, read_spending

PRICES = Prices(models={"m": Price(input=Decimal("0.15"), output=Decimal("0.60"))})
ANSWER = Generation("4", usage=Usage(prompt_tokens=1000, completion_tokens=500))


def ledger(path: Path, prices: Prices = PRICES) -> CostLedger:
    return CostLedger(str(path), prices=prices)


def request(model: str = "m") -> Request:
    return Request(model_id=model, model_version="", base_url="", body={}, sample=0)


def digest(number: int) -> str:
    return f"{number:064x}"[::-1]


def test_a_call_is_charged_to_the_last_digit() -> None:
    """1000 at 0.15 and 500 at 0.60 a million: 0.00015 + 0.0003; cached ones by their own price."""
    price = Price(input=Decimal("0.15"), output=Decimal("0.60"))
    assert price.charge(ANSWER.usage or Usage()) == Decimal("0.00045")
    cheaper = Price(input=Decimal("0.15"), output=Decimal("0.60"), cached=Decimal("0.05"))
    usage = Usage(prompt_tokens=1000, completion_tokens=500, cached_tokens=600)
    # 400 at 0.15, 600 at 0.05, 500 at 0.60
    assert cheaper.charge(usage) == Decimal("0.00039")
    assert price.charge(Usage(prompt_tokens=1000)) is None


def test_the_sums_are_those_of_the_calls(tmp_path: Path) -> None:
    """One answered and kept, one failed and asked again, one given up, one still out."""
    book = ledger(tmp_path / "costs.jsonl")
    first = book.begin(request(), digest=digest(1), attempt=1)
    book.settle(first, failed("busy", "d"))
    again = book.begin(request(), digest=digest(1), attempt=2)
    book.settle(again, ANSWER)
    book.kept(digest(1))
    book.settle(book.begin(request(), digest=digest(2), attempt=1), None)
    book.begin(request(), digest=digest(3), attempt=1)
    assert book.spending() == {
        "m": Spending(
            calls=4,
            answered=1,
            failed=1,
            given_up=1,
            in_flight=1,
            wasted=1,
            retries=1,
            prompt_tokens=1000,
            completion_tokens=500,
            money=Decimal("0.00045"),
        )
    }
    assert (book.spent().tokens, book.spent().money) == (1500, Decimal("0.00045"))
    book.close()


def test_sums_go_on_where_the_last_process_left_them(tmp_path: Path) -> None:
    """Opened three times: three times the calls."""
    for _ in range(3):
        book = ledger(tmp_path / "costs.jsonl")
        book.settle(book.begin(request(), digest=digest(1), attempt=1), ANSWER)
        book.kept(digest(1))
        book.close()
    book = ledger(tmp_path / "costs.jsonl")
    assert book.spending()["m"].calls == 3
    assert book.spent().money == Decimal("0.00135")
    book.close()


KILLED = """
import os, signal, sys
from farm.core.cost import Prices
from farm.core.generation import Generation, Request, Usage
from farm.store.costs import CostLedger

book = CostLedger(sys.argv[1], prices=Prices())
def begin(number):
    request = Request(model_id="m", model_version="", base_url="", body={}, sample=0)
    return book.begin(request, digest=f"{number:064x}"[::-1], attempt=1)
answer = Generation("4", usage=Usage(prompt_tokens=10, completion_tokens=5))
calls = [begin(number) for number in range(5)]
book.settle(calls[0], answer)
book.kept(f"{0:064x}"[::-1])
book.settle(calls[1], answer)
print("out", flush=True)
sys.stdin.read()
"""


def test_calls_in_flight_at_a_kill_are_counted_as_wasted(tmp_path: Path) -> None:
    """Five begun: one kept, one answered and not kept, three in flight when SIGKILL came."""
    path = tmp_path / "costs.jsonl"
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"out\n"
    book = ledger(path)
    alive = book.spending()["m"]
    assert (alive.in_flight, alive.lost, alive.wasted) == (3, 0, 0)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    dead = book.spending()["m"]
    assert (dead.in_flight, dead.lost, dead.wasted) == (0, 3, 4)
    assert (dead.calls, dead.answered, dead.prompt_tokens) == (5, 2, 20)
    # the next run finds the answer of the second call in the cache after all
    book.kept(digest(1))
    assert book.spending()["m"].wasted == 3
    book.close()


def test_an_answer_bought_twice_is_one_call_wasted(tmp_path: Path) -> None:
    """The first was lost before it was kept; the second was kept."""
    book = ledger(tmp_path / "costs.jsonl")
    for attempt in (1, 1):
        book.settle(book.begin(request(), digest=digest(1), attempt=attempt), ANSWER)
    book.kept(digest(1))
    book.kept(digest(1))  # once is enough
    assert book.spending()["m"].wasted == 1
    book.close()


@pytest.mark.parametrize("ours_first", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_of_two_calls_for_one_answer_one_is_wasted(
    tmp_path: Path, ours_first: bool, together: bool
) -> None:
    """By two processes of a run; whichever says so first, and before or after the other ended."""
    one, other = ledger(tmp_path / "costs.jsonl"), ledger(tmp_path / "costs.jsonl")
    if together:
        for book in (one, other):
            book.settle(book.begin(request(), digest=digest(1), attempt=1), ANSWER)
    for book, another in ((one, not ours_first), (other, ours_first)):
        if not together:
            book.settle(book.begin(request(), digest=digest(1), attempt=1), ANSWER)
        book.kept(digest(1), another=another)
    assert one.spending()["m"].wasted == 1
    one.close()
    other.close()


def test_answers_that_tell_no_usage_or_have_no_price_are_counted_as_such(tmp_path: Path) -> None:
    """A sum that left them out without a word would be too small."""
    book = ledger(tmp_path / "costs.jsonl")
    book.settle(book.begin(request(), digest=digest(1), attempt=1), Generation("4"))
    book.settle(book.begin(request("other"), digest=digest(2), attempt=1), ANSWER)
    spending = book.spending()
    assert (spending["m"].unmetered, spending["m"].unpriced) == (1, 1)
    assert (spending["other"].unmetered, spending["other"].unpriced) == (0, 1)
    assert book.spent().money is None
    assert total_spending(list(spending.values())).calls == 2
    book.close()


def test_a_price_that_is_known_later_counts_in_the_report_as_in_the_budget(
    tmp_path: Path,
) -> None:
    """Two calls without prices, one with, then the same ledger without: 3 * (20 + 6) either way."""
    path = str(tmp_path / "c")
    prices = Prices(models={"m": Price(input=Decimal(1_000_000), output=Decimal(1_000_000))})
    told = Generation("4", usage=Usage(prompt_tokens=20, completion_tokens=6))
    for number, list_ in enumerate((Prices(), Prices(), prices)):
        book = CostLedger(path, prices=list_)
        call = book.begin(request(), digest=digest(number), attempt=1)
        book.settle(call, told)
        spent = book.spent()
        book.close()
    assert spent.money == Decimal(78)
    sums, currency = read_spending(path)
    assert (sums["m"].money, sums["m"].unpriced, currency) == (Decimal(78), 0, "USD")


def test_two_processes_see_each_others_spending(tmp_path: Path) -> None:
    """A budget holds for the run, not for each of its processes."""
    one, other = ledger(tmp_path / "costs.jsonl"), ledger(tmp_path / "costs.jsonl")
    one.settle(one.begin(request(), digest=digest(1), attempt=1), ANSWER)
    assert other.spent().tokens == 1500
    one.close()
    other.close()


@pytest.mark.parametrize("cut", range(1, 45, 4))
def test_a_line_cut_short_is_passed_over_and_the_rest_counts(tmp_path: Path, cut: int) -> None:
    """A power cut takes the end of the last line, which says that an answer is kept."""
    path = tmp_path / "costs.jsonl"
    book = ledger(path)
    book.settle(book.begin(request(), digest=digest(1), attempt=1), ANSWER)
    book.kept(digest(1))
    book.close()
    path.write_bytes(path.read_bytes()[:-cut])
    book = ledger(path)
    book.settle(book.begin(request(), digest=digest(2), attempt=1), ANSWER)
    book.close()
    book = ledger(path)
    assert book.spending()["m"].calls == 2
    assert book.spending()["m"].answered == 2
    book.close()


def test_a_line_that_is_no_entry_is_reported(tmp_path: Path) -> None:
    """With its number; the file is left as it is."""
    path = tmp_path / "costs.jsonl"
    book = ledger(path)
    book.begin(request(), digest=digest(1), attempt=1)
    book.begin(request(), digest=digest(2), attempt=1)
    book.close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"rubbish\n" + lines[2])
    before = path.read_bytes()
    with pytest.raises(Corrupt, match="line 2 is not an entry"):
        ledger(path)
    assert path.read_bytes() == before


FULL_DISK = """
import os, resource, sys
from farm.core.cost import Prices
from farm.core.generation import Request
from farm.errors import StorageError
from farm.store.costs import CostLedger

book = CostLedger(sys.argv[1], prices=Prices())
size = os.path.getsize(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, size + 20))
request = Request(model_id="m", model_version="", base_url="", body={}, sample=0)
for _ in range(2):
    try:
        book.begin(request, digest="0" * 64, attempt=1)
    except StorageError as error:
        print(type(error).__name__)
"""


def test_a_ledger_that_cannot_be_written_stops_calls_before_they_are_made(tmp_path: Path) -> None:
    """The limit on the file's size stands in for the disk; what was half written is passed over."""
    path = tmp_path / "costs.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["StorageFull", "StorageError"]
    book = ledger(path)
    assert book.spending() == {}
    book.close()


def test_a_ledger_that_is_no_file_is_refused() -> None:
    """A device could be read for ever."""
    with pytest.raises(Corrupt, match="a pipe or device, where a file was written"):
        CostLedger(os.devnull, prices=PRICES)
