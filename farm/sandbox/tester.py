"""The tester: owns the assertions and the verdict pipe, reaches the program by calls only.

Writes one JSON line per fact: how loading went, each assertion as it is judged, the end. Lines
stream, so a program that runs out of time keeps the assertions it has passed. What the facts
add up to is decided by `verdict`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence

from farm.sandbox import assertions
from farm.sandbox.assertions import Assertion, BadAssertion, Helpers
from farm.sandbox.collected import call_listed, is_failure, noted_failures, why_nothing
from farm.sandbox.frames import PeerBroke, PeerGone, Severed, TooMuch
from farm.sandbox.names import Module, Names, Program
from farm.sandbox.plain import Json
from farm.sandbox.purity import leaves_no_mark
from farm.sandbox.raised import ProgramAssertion
from farm.sandbox.remote import NotReady, Session
from farm.sandbox.wishes import TESTS
from farm.scoring.blocks import CHECK, Waiting, waiting

_STOP = "StopIteration"
_LONGEST_TEXT = 500


def run(job: Json, *, source: int, target: int, verdict: int, marked: Callable[[], object]) -> bool:
    """Judge one job over the pipes of its candidate and report to `verdict`.

    Return whether this process is as it was before: the assertions could not change it, none
    ended in an error, and the program handed over nothing that is not its own. `marked` is called
    where they could, before one word of the program is read: afterwards code of the program's
    may run here, where assertions evaluate what it gives them, and could hide it.
    """

    def tell(fact: Json) -> None:
        os.write(verdict, json.dumps(fact).encode("ascii") + b"\n")

    session = Session(source, target)
    try:
        session.start(job["code"], imports=job["imports"])
        read = _read_all(job["assertions"])  # while the candidate is at work
        clean = all(isinstance(one, Assertion) and leaves_no_mark(one.code) for one in read)
        if not clean:
            marked()
        loading, functions = _load(session)
    except NotReady as error:
        tell({"load": "harness", "why": str(error)})
        return False
    tell(loading)
    if loading["load"] == "ok":
        program = Program(job["code"], job["entry_point"], functions)
        if job["grading"] == "in_process":
            _judge_in_process(session, program, job["assertions"], read, tell)
            clean = False
        else:
            clean &= _judge_all(session, program, job["assertions"], read, tell)
    tell({"end": True})
    return clean and not session.borrowed


def _load(session: Session) -> tuple[Json, tuple[str, ...]]:
    """See the program compiled and run; say how it went, and which functions it then has."""
    try:
        reply = session.finish_start()
        if "syntax" in reply:
            return {"load": "syntax_error", "why": _cut(reply["syntax"])}, ()
        if "denied" in reply:
            name, line = reply["denied"], reply["line"]
            why = f"denied import {name!r}, line {line}: the import policy does not allow it"
            return {"load": "error", "why": why}, ()
        session.value_of(reply)
    except NotReady:
        raise
    except PeerGone:
        return {"load": "error", "why": "the program ended its process while it was loaded"}, ()
    except BaseException as error:  # noqa: BLE001  # what the program raises, whatever it is
        return {"load": "error", "why": _say(error)}, ()
    named = reply.get("names")
    promised = named if type(named) is dict else {}
    functions = [name for name, packed in promised.items() if "class" not in packed]
    return {"load": "ok"}, tuple(functions)


def _read_all(texts: Sequence[str]) -> list[Assertion | BadAssertion]:
    found: list[Assertion | BadAssertion] = []
    for text in texts:
        try:
            found.append(assertions.read(text, marked=True))
        except BadAssertion as error:
            found.append(error)
    return found


def _judge_all(
    session: Session,
    program: Program,
    texts: Sequence[str],
    read: list[Assertion | BadAssertion],
    tell: Callable[[Json], None],
) -> bool:
    """Judge assertions in turn; return whether each ended in a plain yes or no."""
    names = Names(session, program, texts)
    sys.modules[TESTS] = Module(names)
    plain = not any("unittest" in text for text in texts)
    if not plain:  # and this process is then no longer as it was
        names.noted = noted_failures()
    for index, (one, left) in enumerate(_with_waiting(read)):
        if isinstance(one, BadAssertion):
            result, why = "error", str(one)
        else:
            result, why = _judge(names, texts[index], one, left)
        plain &= result != "error"
        tell({"i": index, "r": result, "why": _cut(why), "trust": sorted(session.trust)})
    sys.modules.pop(TESTS, None)  # the tests may have done so themselves
    return plain


def _with_waiting(
    read: list[Assertion | BadAssertion],
) -> Iterator[tuple[Assertion | BadAssertion, Waiting]]:
    """Give with each assertion what of it waits to be called."""
    mentions = [_of_others(one, calls=False) for one in read]
    calls = [_of_others(one, calls=True) for one in read]
    for index, one in enumerate(read):
        if isinstance(one, BadAssertion) or not one.block.units:
            yield one, Waiting(isinstance(one, Assertion) and one.block.can_fail)
            continue
        elsewhere = frozenset().union(*mentions[:index], *mentions[index + 1 :])
        called = frozenset().union(*calls[:index], *calls[index + 1 :])
        yield one, waiting(one.block, elsewhere, called)


def _of_others(one: Assertion | BadAssertion, *, calls: bool) -> frozenset[str]:
    """Return the names that an assertion mentions, or calls, and does not define itself."""
    if isinstance(one, BadAssertion):
        return frozenset()
    found = one.calls if calls else one.block.mentions
    return found - {unit.name for unit in one.block.units}


def _judge(names: Names, text: str, one: Assertion, left: Waiting) -> tuple[str, str]:
    """Run one assertion and what it leaves to be called; return its result and why."""
    names.texts.append(text)
    names.kept.clear()
    names.ran.clear()
    names.noted.clear()
    session = names.session
    session.begin(expects_stop=_expects_stop(names, text, one))
    result = _evaluate(names, text, one, left)
    severed = session.severed
    if severed is None:
        if session.failed is not None and result[0] == "pass":
            return "assertion_fail", _text_of(session.failed)  # told the program, and swallowed
        return result
    # whatever the assertion made of it: caught, too, it says nothing about the program
    if type(severed) is TooMuch:
        session.severed = None
    return "error", _why_severed(severed)


def _expects_stop(names: Names, text: str, one: Assertion) -> bool:
    """Say whether an assertion names StopIteration, or something of the tests' that does."""
    if _STOP not in text and not names.stopping:  # nearly always
        return False
    named = assertions.named_by(one.code)
    if _STOP not in named and names.stopping.isdisjoint(named):
        return False
    names.stopping |= assertions.defined_by(text)
    return True


def _why_severed(severed: Severed) -> str:
    if isinstance(severed, PeerGone):
        return "the program ended its process"
    return f"the program broke off the conversation: {severed}"


def _evaluate(names: Names, text: str, one: Assertion, left: Waiting) -> tuple[str, str]:
    try:
        names.settle(text, one, left)
        if one.names_nothing(names.overridden):
            return "error", assertions.NAMES_NOTHING
        value = eval(one.code, names)  # noqa: S307  # the assertions are ours to run
        if names.noted:
            raise names.noted[0]
        if one.is_expression:
            if value is None and _judges_by_raising(names, text):
                return "pass", ""  # check(f) of a block that came before
            passed = bool(value)
            return ("pass", "") if passed else ("assertion_fail", "the expression is false")
        judged = _call_waiting(names, one, left) or left.judges
        if names.noted:
            raise names.noted[0]
        if not judged and not _calls_a_judge(names, one):
            return "error", why_nothing(one.block)
    except Severed as error:
        return "error", _why_severed(error)
    except ProgramAssertion as error:
        return "error", f"the program raised {_say(error)}"
    except AssertionError as error:
        return "assertion_fail", _text_of(error) or assertions.where_failed(text, one.code, error)
    except BadAssertion as error:
        return "error", str(error)
    except BaseException as error:  # noqa: BLE001  # tests and program may raise anything
        return "assertion_fail" if is_failure(error) else "error", _say(error)
    return "pass", ""


def _judges_by_raising(names: Names, text: str) -> bool:
    return Helpers(names.texts, names.own_functions()).judge_by_raising(text)


def _calls_a_judge(names: Names, one: Assertion) -> bool:
    own = names.own_functions()
    helpers = Helpers(names.texts, own)
    return any(helpers.can_fail(name) for name in one.calls & own.keys())


def _call_waiting(names: Names, one: Assertion, left: Waiting) -> bool:
    """Call the tests and the check that nothing has called; return whether any was run."""
    for name in left.beyond:
        if name not in names.ran and name not in one.calls:
            raise BadAssertion(assertions.needs_pytest(name))
    count = call_listed(left.tests, names, names.ran)
    if left.check and CHECK not in names.ran:
        under_test = names.under_test()
        names.overridden = frozenset()  # it is given what the entry point names
        names.kept.clear()
        names[CHECK](under_test)
    return bool(count) or left.check


def _judge_in_process(
    session: Session,
    program: Program,
    texts: Sequence[str],
    read: list[Assertion | BadAssertion],
    tell: Callable[[Json], None],
) -> None:
    """Let the candidate judge itself, for tasks that ask for it; every verdict says so."""
    listed = program.functions
    entry = program.entry or (listed[0] if len(listed) == 1 else "")
    for index, (one, left) in enumerate(_with_waiting(read)):
        if isinstance(one, BadAssertion):
            result, why = "error", str(one)
        else:
            asked = {"text": texts[index], "entry": entry, "functions": len(listed)}
            result, why = _judged_there(session, {**asked, **left._asdict()})
        tell({"i": index, "r": result, "why": _cut(why), "trust": ["in_process"]})


def _judged_there(session: Session, asked: Json) -> tuple[str, str]:
    try:
        result, why = session.request({"do": "judge", **asked})["v"]
        if result not in ("pass", "assertion_fail", "error"):
            raise PeerBroke("no such result")
    except PeerGone:
        return "error", "the program ended its process"
    except BaseException as error:  # noqa: BLE001  # whatever the other end sent
        return "error", _say(error)
    return result, why


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001  # as above: the message may be an object of the program
        return type(error).__name__


def _say(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001  # its text may need a program that is gone
        return type(error).__name__


def _cut(text: object) -> str:
    return str(text)[:_LONGEST_TEXT]
