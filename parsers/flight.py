"""Flight-recorder dumps of torch.distributed: pickles of plain containers and their JSON twins.

Format: torch/csrc/distributed/c10d/FlightRecorder (versions 1.x to 2.10): `version`, `pg_config` (group name -> description, ranks),
`pg_status` (local group number -> last enqueued, started, completed) and `entries`, one per collective or point-to-point operation.
A dump is read by `Reader`, which knows no opcode that could call anything.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from parsers.contract import Document, DocumentDialect, Event, Quality, Record, Reject
from parsers.json_fields import load

_LIMIT = 512 << 20
_ITEMS = 20_000_000
_PENDING = 500
_RECENT = 200
_RANKS = 2_000_000


class Refused(ValueError):
    """The dump holds what a dump never holds."""


_MARK = object()


def _exact(reader: Reader, size: int) -> bytes:
    start = reader.at
    reader.at = start + size
    part = reader.data[start : reader.at]
    if len(part) != size:
        raise Refused("ends in the middle of a value")
    return part


def _uint(size: int) -> Callable[[Reader], int]:
    return lambda reader: int.from_bytes(_exact(reader, size), "little")


def _text(size: int) -> Callable[[Reader], object]:
    count = _uint(size)
    return lambda reader: _exact(reader, count(reader)).decode("utf-8", "replace")


def _constant(value: object) -> Callable[[Reader], object]:
    return lambda reader: value


def _long(reader: Reader) -> object:
    return int.from_bytes(_exact(reader, _exact(reader, 1)[0]), "little", signed=True)


def _tuple(count: int) -> Callable[[Reader], object]:
    return lambda reader: tuple(reversed([reader.pop() for _ in range(count)]))


_VALUES: dict[int, Callable[[Reader], object]] = {
    ord("}"): lambda reader: {},
    ord("]"): lambda reader: [],
    ord(")"): _constant(()),
    ord("("): _constant(_MARK),
    ord("N"): _constant(None),
    0x88: _constant(True),
    0x89: _constant(False),
    ord("K"): _uint(1),
    ord("M"): _uint(2),
    ord("J"): lambda reader: int.from_bytes(_exact(reader, 4), "little", signed=True),
    0x8A: _long,
    ord("G"): lambda reader: struct.unpack(">d", _exact(reader, 8))[0],
    0x8C: _text(1),
    ord("X"): _text(4),
    0x8D: _text(8),
    ord("U"): _text(1),
    ord("T"): _text(4),
    ord("C"): _text(1),
    ord("B"): _text(4),
    ord("h"): lambda reader: reader.recall(_exact(reader, 1)[0]),
    ord("j"): lambda reader: reader.recall(_uint(4)(reader)),
    ord("t"): lambda reader: tuple(reader.marked()),
    ord("l"): lambda reader: reader.marked(),
    0x85: _tuple(1),
    0x86: _tuple(2),
    0x87: _tuple(3),
}
_SKIPS = {0x80: 1, 0x95: 8}
_PLAIN = (str, int, float, bool, type(None))
_PUTS = {ord("q"): 1, ord("r"): 4, 0x94: 0}


class Reader:
    """A pickle of dicts, lists, tuples, texts and numbers, and of nothing else; every other opcode is refused."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.stack: list[object] = []
        self.memo: dict[int, object] = {}

    def pop(self) -> object:
        if not self.stack or self.stack[-1] is _MARK:
            raise Refused("takes a value that is not there")
        return self.stack.pop()

    def recall(self, index: int) -> object:
        if index not in self.memo:
            raise Refused("refers to a value that is not there")
        return self.memo[index]

    def marked(self) -> list[object]:
        """The values above the last mark, which goes as well."""
        start = len(self.stack) - 1
        while start >= 0 and self.stack[start] is not _MARK:
            start -= 1
        if start < 0:
            raise Refused("has no mark")
        values = self.stack[start + 1 :]
        del self.stack[start:]
        return values

    def load(self) -> object:
        """The value of the whole pickle."""
        data, stack, values, puts, size = self.data, self.stack, _VALUES, _PUTS, len(self.data)
        for _ in range(_ITEMS):
            if self.at >= size:
                raise Refused("ends before its end mark")
            code = data[self.at]
            self.at += 1
            if (make := values.get(code)) is not None:
                stack.append(make(self))
            elif code in puts:
                self._put(puts[code])
            elif code in _SKIPS:
                _exact(self, _SKIPS[code])
            elif code in b"aeus":
                self._fill(code)
            elif code == ord("."):
                return self.pop()
            else:
                raise Refused(f"opcode {bytes([code])!r} at byte {self.at - 1} could load or call something")
        raise Refused(f"holds more than {_ITEMS} values")

    def _put(self, size: int) -> None:
        if not self.stack or self.stack[-1] is _MARK:
            raise Refused("keeps a value that is not there")
        index = int.from_bytes(_exact(self, size), "little") if size else len(self.memo)
        self.memo[index] = self.stack[-1]

    def _fill(self, code: int) -> None:
        """APPEND, APPENDS, SETITEM, SETITEMS."""
        many = code in b"eu"
        values = self.marked() if many else list(reversed([self.pop() for _ in range(1 if code == ord("a") else 2)]))
        target = self.stack[-1] if self.stack else None
        if code in b"ae" and isinstance(target, list):
            target.extend(values)
        elif code in b"us" and isinstance(target, dict) and len(values) % 2 == 0:
            for key, value in zip(values[::2], values[1::2], strict=True):
                if not isinstance(key, _PLAIN):
                    raise Refused("has a key that is not plain")
                target[key] = value
        else:
            raise Refused("fills what is not a list or a dict")


def _int(value: object) -> int | None:
    """An integer of at most 63 bits; the JSON twins print some as text."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


def _str(value: object) -> str:
    return value[:200] if isinstance(value, str) else str(value) if isinstance(value, int) and abs(value) < 1 << 63 else ""


def _dict(value: object) -> dict[object, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object, limit: int) -> list[object]:
    """The first values of a list; a small dump may refer to one long list from everywhere."""
    return list(value[:limit]) if isinstance(value, list | tuple) else []


def _ranks(value: object, limit: int) -> list[int]:
    """`"[0, 1, 2]"` or a list."""
    if isinstance(value, str):
        return [int(part) for part in re.findall(r"\d{1,7}", value[: 8 * limit])][:limit]
    return [rank for rank in map(_int, _list(value, limit)) if rank is not None]


def _shapes(value: object) -> list[list[int]]:
    return [[size for size in map(_int, _list(one, 8)) if size is not None] for one in _list(value, 8)]


# gpu-001_rank_3 | _dump_9 | nccl_trace_rank_3.json | nccl_trace_gpu-001_3 | rank3.pkl
_NAME = re.compile(r"^(.{0,200}?)[_-]?(?:rank|dump)?[_-]?(\d{1,7})(?:\.(?:json|pkl|pickle|bin|trace|dump)){0,2}$")
_HOST = re.compile(r"(?:^|_)([A-Za-z][A-Za-z0-9.-]{0,120})$")
_WORDS = re.compile(
    r"^(?:nccl|comm|lib|trace|dump|fr|flight|recorder|rank|pg|torch|debug|info|tmp|global|node|host)(?:[-.](?:trace|dump|recorder"
    r"|rank))?$",
    re.IGNORECASE,
)


def named(name: str) -> tuple[int | None, str | None]:
    """Rank and host that a dump's file name tells."""
    found = _NAME.match(name)
    if not found:
        return None, None
    host = _HOST.search(found[1])
    return int(found[2]), host[1] if host and any(map(str.isdigit, host[1])) and not _WORDS.match(host[1]) else None


@dataclass(slots=True)
class Dump:
    """One rank's dump: `groups` by name, entries in the order of their record ids."""

    rank: int | None
    host: str | None
    version: str
    groups: dict[str, tuple[str, list[int]]]
    status: dict[str, tuple[int | None, int | None, int | None]]
    entries: list[dict[object, object]]
    key: str = ""

    def group(self, entry: dict[object, object]) -> tuple[str, list[int]]:
        """Group of an entry as `name:description`, and its ranks; a default group may be listed under an empty name."""
        pair = [_str(part) for part in _list(entry.get("process_group"), 2)] + ["", ""]
        name, described = pair[0], pair[1]
        config = self.groups.get(name) or (self.groups.get("") if described == "default_pg" else None)
        return f"{name}:{described}" if described else name, config[1] if config else []


def _order(entry: dict[object, object]) -> int:
    return _int(entry.get("record_id")) or 0


def _sole(groups: dict[str, tuple[str, list[int]]]) -> int | None:
    """The one rank that all groups share: a dump lists only groups of its own rank."""
    members = [set(ranks) for _, ranks in groups.values() if ranks]
    shared = set.intersection(*members) if members else set()
    return shared.pop() if len(shared) == 1 else None


def _dump(name: str, whole: dict[object, object]) -> Dump:
    config, told = _dict(whole.get("pg_config")), _dict(whole.get("pg_status"))
    groups: dict[str, tuple[str, list[int]]] = {}
    left = _RANKS
    for key, value in islice(config.items(), 10_000):
        ranks = _ranks(_dict(value).get("ranks"), left)
        left -= len(ranks)
        groups[_str(key)] = (_str(_dict(value).get("desc")), ranks)
    fields = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")
    status = {}
    for key, value in islice(told.items(), 10_000):
        enqueued, started, completed = (_int(_dict(value).get(field)) for field in fields)
        status[_str(key)] = (enqueued, started, completed)
    entries = sorted((_dict(one) for one in _list(whole.get("entries"), 200_000)), key=_order)
    rank, host = named(name)
    inside = next((found for key in ("rank", "global_rank") if (found := _int(whole.get(key))) is not None), None)
    rank = next((found for found in (inside, rank, _sole(groups)) if found is not None), None)
    made = Dump(rank, _str(whole.get("hostname") or whole.get("host")) or host, _str(whole.get("version")), groups, status, entries)
    ends = f"{_order(entries[0])}-{_order(entries[-1])}" if entries else "none"
    made.key = f"{rank}:{ends}:{_int(entries[-1].get('time_created_ns')) if entries else sorted(status.items())}"
    return made


def _micros(value: object) -> int | None:
    """Nanoseconds since the epoch to microseconds; the twins write 0 for what did not happen."""
    nanos = _int(value)
    return nanos // 1000 if nanos and nanos > 0 else None


def _pending(entry: dict[object, object]) -> bool:
    """Never completed; gloo records neither start nor end, there `retired` alone tells."""
    done = entry.get("state") == "completed" or _micros(entry.get("time_discovered_completed_ns")) is not None
    return not done and entry.get("retired") is not True


def _seconds(entry: dict[object, object]) -> float | None:
    spent = entry.get("duration_ms")
    if isinstance(spent, int | float) and not isinstance(spent, bool) and 0 <= spent < 1e12:
        return spent / 1000
    start, end = _micros(entry.get("time_discovered_started_ns")), _micros(entry.get("time_discovered_completed_ns"))
    return (end - start) / 1e6 if start and end and end >= start else None


def _common(dump: Dump, code: str, message: str) -> Event:
    return Event(code, message, 1, 1, rank=dump.rank, host=dump.host, attrs={"dump": dump.key})


def _entry(dump: Dump, entry: dict[object, object], pending: bool) -> Event:
    name, ranks = dump.group(entry)
    op, state = _str(entry.get("profiling_name")), _str(entry.get("state"))
    seq = _int(entry.get("p2p_seq_id" if entry.get("is_p2p") is True else "collective_seq_id"))
    if seq is None:
        seq = _int(entry.get("seq_id"))
    made = _common(dump, "torch.flight" if pending else "flight.entry", f"{op} {seq} of {name} {state}{'' if pending else ', retired'}")
    made.op, made.grp, made.seq, made.duration_s = op, name, seq, _seconds(entry)
    made.state = state if pending or state == "completed" else "retired"
    made.ts = _micros(entry.get("time_created_ns"))
    made.ts_quality = Quality.EXACT if made.ts else Quality.UNKNOWN
    made.attrs |= {"record": _int(entry.get("record_id")), "pg": _int(entry.get("pg_id")), "p2p": entry.get("is_p2p") is True}
    if pending:
        made.attrs |= {
            "in": _shapes(entry.get("input_sizes")), "out": _shapes(entry.get("output_sizes")),
            "dtypes": [_str(one) for one in _list(entry.get("input_dtypes"), 8)], "ranks": ranks[:256],
            "timeout_ms": _int(entry.get("timeout_ms")), "frame": _frame(entry),
        }  # fmt: skip
    return made


def _frame(entry: dict[object, object]) -> str | None:
    """The innermost frame outside of installed packages."""
    for one in map(_dict, _list(entry.get("frames"), 100)):
        place = _str(one.get("filename"))
        if place and "site-packages" not in place and "dist-packages" not in place:
            return f"{place}:{_int(one.get('line'))}"
    return None


def _numbered(dump: Dump) -> dict[str, str]:
    """Local group number -> `name:description`, from entries; where a rank was idle, from the order in which groups were made."""
    seen = {_str(entry.get("pg_id")): dump.group(entry)[0] for entry in dump.entries}
    numbers = sorted((n for n in dump.status if n.isdecimal()), key=int)
    names = sorted((n for n in dump.groups if n.isdecimal()), key=int)
    ordered = {n: f"{g}:{dump.groups[g][0]}" for n, g in zip(numbers, names, strict=False)} if len(numbers) == len(names) else {}
    agree = all(ordered.get(n, name) == name for n, name in seen.items())
    return (ordered if agree else {}) | seen


def _statuses(dump: Dump) -> Iterator[Event]:
    """Per group that was used: `seq` the last completed collective, `value` the last enqueued one, `op` the local group number."""
    names = _numbered(dump)
    for number, (enqueued, started, completed) in dump.status.items():
        made = _common(dump, "flight.status", f"group {names.get(number, number)}: enqueued {enqueued}, completed {completed}")
        made.op, made.grp, made.seq = f"pg{number}", names.get(number), completed
        made.value = float(enqueued) if enqueued is not None else None
        made.state = ",".join(map(str, dump.groups.get((made.grp or "").split(":")[0], ("", []))[1])) or None
        made.attrs["started"] = started
        yield made


def _groups(dump: Dump) -> Iterator[Event]:
    """Per group that was set up: `grp` its name, `state` its ranks; the nameless one is the default group."""
    for name, (described, ranks) in dump.groups.items():
        made = _common(dump, "flight.group", f"group {name or 'default_pg'}: {len(ranks)} ranks")
        made.grp = "0:default_pg" if not name else f"{name}:{described}" if described else name
        made.state = ",".join(map(str, ranks[:4096])) or None
        yield made


def _events(dump: Dump) -> Iterator[Record]:
    waiting = [entry for entry in dump.entries if _pending(entry)]
    done = [entry for entry in dump.entries if not _pending(entry)]
    times = [when for entry in dump.entries if (when := _micros(entry.get("time_created_ns")))]
    made = _common(dump, "flight.dump", f"dump of rank {dump.rank}: {len(dump.entries)} entries, {len(waiting)} never completed")
    made.ts, made.ts_quality = (max(times), Quality.EXACT) if times else (None, Quality.UNKNOWN)
    made.value, made.seq, made.state = float(len(waiting)), len(dump.entries), dump.version
    made.attrs |= {"version": dump.version, "status": {number: list(three) for number, three in dump.status.items()}}
    yield made
    yield from _groups(dump)
    yield from _statuses(dump)
    yield from (_entry(dump, entry, True) for entry in waiting[:_PENDING])
    yield from (_entry(dump, entry, False) for entry in done[-_RECENT:])


def _read(data: bytes) -> dict[object, object]:
    if len(data) > _LIMIT:
        raise Refused(f"is larger than {_LIMIT >> 20} MiB")
    whole = Reader(data).load() if data[:1] == b"\x80" else load(data)
    if not isinstance(whole, dict) or not isinstance(whole.get("entries"), list | tuple):
        raise Refused("holds no entries")
    if not (whole["entries"] or whole.get("pg_status") or whole.get("pg_config")):
        raise Refused("says nothing")
    return whole


def parse(document: Document) -> Iterable[Record]:
    """Facts and unfinished operations of one dump; a single reject when it is anything else."""
    try:
        return list(_events(_dump(document.name, _read(document.data))))
    except (ValueError, RecursionError, MemoryError, OverflowError, TypeError, struct.error) as fault:
        said = str(fault) if isinstance(fault, Refused) else f"cannot be read ({type(fault).__name__})"
        return [Reject(1, f"flight-recorder dump {said}", document.data[:40].hex())]


_KEYS = (b"pg_config", b"pg_status", b"profiling_name", b"nccl_version", b"comm_lib_version", b"collective_seq_id")
_HEAD = 64 << 10
# magic number of torch.save before the zip format: a checkpoint, not a dump
_CHECKPOINT = re.compile(rb"\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19\.")


def sniff(head: bytes) -> bool:
    """A pickle or JSON object with a dump's keys, or a small pickle of any kind: what poses as a dump is rejected, not passed over."""
    known = any(key in head for key in _KEYS)
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return known or (len(head) < _HEAD and not _CHECKPOINT.match(head))
    return known and head.lstrip()[:1] == b"{" and b'"entries"' in head


DIALECT = DocumentDialect("flight", sniff, parse)
