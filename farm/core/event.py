"""Every event a run can tell of: its name, level and fields; how it is written and read.

An event is a past-tense, dotted name and named fields, never a sentence. One JSON object a line,
at most 16 KiB, the size that log shippers take by default without losing the line.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from farm.errors import SpecError

MAX_LINE_BYTES: Final = 16 * 1024
_CUT = 1024  # what is left of each text field when a line would be too long
_SHORT = 12 * 1024  # bytes of text that leave room for keys and numbers

Value = str | int | float | bool | None
Fields = Mapping[str, Value]

_SHARD = {"shard": str, "worker": str, "version": int}
_WORKER = {"worker": str, "worker_pid": int}
_CALL = {"model": str, "task": str, "sample": int}
_STANDING = {"completed_shards": int, "active_shards": int, "evaluated": int, "correct": int}

# name -> (level, fields besides the envelope)
EVENTS: Final[dict[str, tuple[str, dict[str, type]]]] = {
    "store.initialized": ("info", {"cases": int, "shards": int, "dataset_sha256": str}),
    "run.started": ("info", {"pid": int, "workers": int, **_STANDING}),
    "run.isolated": (
        "info",
        {"isolation": str, "landlock_abi": int, "seccomp": bool, "namespaces": bool}
        | {"grading": str},
    ),
    "run.completed": ("info", {"elapsed_s": float, **_STANDING}),
    "run.pending": ("warning", {"reason": str, "elapsed_s": float, **_STANDING}),
    "run.partial": ("error", {"quarantined": int, "elapsed_s": float, **_STANDING}),
    "run.interrupted": ("warning", {"signal": str, "elapsed_s": float, **_STANDING}),
    "run.failed": ("error", {"reason": str, "elapsed_s": float, **_STANDING}),
    "run.draining": ("warning", {"reason": str}),
    "worker.spawned": ("debug", _WORKER),
    "worker.spawn_failed": ("warning", {"worker": str, "reason": str, "retry_s": float}),
    "worker.exited": ("debug", {**_WORKER, "exit_code": int}),
    "worker.failed": ("warning", {**_WORKER, "exit_code": int, "reason": str}),
    "worker.logged": ("info", {**_WORKER, "line": str}),
    "call.retried": ("info", {**_CALL, "attempt": int, "wait_s": float, "kind": str}),
    "call.failed": ("warning", {**_CALL, "attempt": int, "kind": str, "detail": str}),
    "endpoint.paused": ("info", {"model": str, "wait_s": float}),
    "endpoint.slowed": ("info", {"model": str, "concurrency": int, "kind": str}),
    "endpoint.halted": ("error", {"model": str, "reason": str, "detail": str}),
    "model.progressed": (
        "debug",
        {"model": str, "done": int, "trials": int, "rate": float, "in_flight": int}
        | {"concurrency": int, "busy": int, "mean": float, "cost": str},
    ),
    "shard.claimed": ("info", {**_SHARD, "until": int, "cases": int}),
    "shard.completed": (
        "info",
        {**_SHARD, "correct": int, "total": int, "worker_pid": int, "receipt_sha256": str},
    ),
    "shard.released": ("info", {**_SHARD, "reason": str}),
    "shard.reclaimed": ("info", {**_SHARD, "reason": str}),
    "shard.fenced": ("warning", {**_SHARD, "reason": str}),
    "shard.failed": ("warning", {**_SHARD, "attempts": int, "reason": str}),
    "shard.quarantined": ("error", {"shard": str, "version": int, "attempts": int}),
    "shard.requeued": ("info", {"shard": str, "version": int}),
    # in the log alone: nothing can be written to a store that somebody else has locked
    "store.awaited": ("warning", {"reason": str}),
    # in a log whose reader does not keep up, in the place of what is in the store alone
    "log.dropped": ("warning", {"lines": int}),
}


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event with its envelope; `fields` stand beside the envelope on the wire."""

    ts: str  # UTC, RFC 3339, microseconds, ends in Z
    level: str
    event: str
    run_id: str
    invocation_id: str
    seq: int  # rises by one within a run's file
    fields: Fields

    @property
    def shard(self) -> str:
        """Name the shard the event is about, "" when it is about none."""
        return str(self.fields.get("shard", ""))


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """An event that has not got its time and number yet."""

    event: str
    fields: Fields


def note(event: str, /, **fields: Value) -> Note:
    """Make a note of something that happened; its name and fields must be declared in `EVENTS`.

    Text that no UTF-8 can hold, such as a file name of foreign bytes, is written with backslashes.
    """
    declared = EVENTS[event][1]
    unknown = fields.keys() ^ declared.keys()
    if unknown - {"recovered"}:
        raise SpecError(f"event {event}: fields {sorted(unknown)} are not as declared")
    return Note(event=event, fields={key: _writable(value) for key, value in fields.items()})


def _writable(value: Value) -> Value:
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def stamp(noted: Note, *, now_ms: float, run_id: str, invocation_id: str, seq: int) -> Event:
    """Turn a note into an event: time in milliseconds since the epoch, and its number."""
    moment = datetime.fromtimestamp(now_ms / 1000, tz=UTC)
    return Event(
        ts=moment.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        level=EVENTS[noted.event][0],
        event=noted.event,
        run_id=run_id,
        invocation_id=invocation_id,
        seq=seq,
        fields=noted.fields,
    )


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(dict[str, Value])
_ENVELOPE: Final[dict[str, type]] = {
    "ts": str,
    "level": str,
    "event": str,
    "run_id": str,
    "invocation_id": str,
    "seq": int,
}


def to_dict(event: Event) -> dict[str, Value]:
    """Give the flat form in which an event is logged.

    Of one whose line would be too long every long text of its fields is cut, and `truncated`
    says so.
    """
    flat: dict[str, Value] = {
        "ts": event.ts,
        "level": event.level,
        "event": event.event,
        "run_id": event.run_id,
        "invocation_id": event.invocation_id,
        "seq": event.seq,
        **event.fields,
    }
    # a character takes six bytes at most, so most events need not be measured
    texts = sum(len(value) for value in flat.values() if isinstance(value, str))
    if texts * 6 < _SHORT or _fits(flat):
        return flat
    left = _CUT
    cut = _shorten(flat, event.fields, left=left)
    while left and not _fits(cut):  # several texts of characters that take six bytes each
        left //= 2
        cut = _shorten(flat, event.fields, left=left)
    return cut


def _fits(flat: Mapping[str, Value]) -> bool:
    return len(_encoder.encode(flat)) < MAX_LINE_BYTES  # and not at it: the newline counts


def _shorten(flat: Mapping[str, Value], fields: Fields, *, left: int) -> dict[str, Value]:
    texts = {key: value[:left] for key, value in fields.items() if isinstance(value, str)}
    return {**flat, **texts, "truncated": True}


def encode_event(event: Event) -> bytes:
    """Give the event's line with its newline, at most `MAX_LINE_BYTES`."""
    return _encoder.encode(to_dict(event)) + b"\n"


def decode_event(line: bytes) -> Event:
    """Read an event's line; raises `msgspec.DecodeError` on anything else.

    An event of a name that is not in `EVENTS`, as a newer farm may write, has any fields.
    """
    flat = _decoder.decode(line)
    for name, kind in _ENVELOPE.items():
        _check_kind(flat, name, kind)
    for name, kind in EVENTS.get(str(flat["event"]), ("", {}))[1].items():
        _check_kind(flat, name, kind)
    envelope: dict[str, Any] = {name: flat.pop(name) for name in _ENVELOPE}
    return Event(**envelope, fields=flat)


def _check_kind(flat: Mapping[str, Value], name: str, kind: type) -> None:
    found = type(flat.get(name))  # not isinstance: true and false are no numbers here
    if found is not kind and (kind, found) != (float, int):
        raise msgspec.ValidationError(f"{name} is {found.__name__}, not {kind.__name__}")


def schema() -> dict[str, Any]:
    """Give the JSON Schema of one line of the event stream."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "farm event",
        "oneOf": [_schema_of(name) for name in EVENTS],
    }


_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _schema_of(name: str) -> dict[str, Any]:
    level, fields = EVENTS[name]
    own = {key: {"type": _JSON_TYPES[kind]} for key, kind in fields.items()}
    envelope: dict[str, Any] = {
        "ts": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$"},
        "level": {"const": level},
        "event": {"const": name},
        "run_id": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "invocation_id": {"type": "string"},
        "seq": {"type": "integer", "minimum": 1},
    }
    return {
        "type": "object",
        "properties": {
            **envelope,
            **own,
            "recovered": {"type": "boolean"},
            "truncated": {"type": "boolean"},
        },
        "required": [*envelope, *own],
        "additionalProperties": False,
    }
