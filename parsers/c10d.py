"""torch.distributed's own lines: watchdog, heartbeat monitor, desync reports, TCPStore, gloo."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from parsers import exceptions
from parsers.contract import Event, Line, LineDialect, Record, Window

_TIMEOUT = "Watchdog caught collective operation timeout"
_ENDED = "watchdog thread terminated with exception"
_BLOCKING = "timed out in blocking wait"
_FOUND = "found async exception when checking for NCCL errors"
_REACH = 3000
# characters; what is longer is no reason but a trace
_REASON_LENGTH = 160

# [PG ID 0 PG GUID 3(tp) Rank 6] | [PG 3 Rank 5]
_GROUP = re.compile(r"\[PG (?:ID )?(\d{1,7})(?: PG GUID (\w{1,80})(?:\(([^)\n]{0,120})\))?)? Rank (\d{1,7})\]")
# [Rank 3] Watchdog caught ...
_RANK = re.compile(r"\[Rank (\d{1,7})\]")
_RANK_PREFIX = re.compile(r"\[rank(\d{1,7})\]:")
_WORK = re.compile(r"WorkNCCL\(([^\n(]{0,400}?)Timeout\(ms\)=(\d{1,12})\)")
_FIELD = re.compile(r"(SeqNum|OpType|NumelIn|NumelOut|TensorShape)=(\[[\d, ]{0,120}\]|\w{1,60})")
_RAN = re.compile(r"ran for (\d{1,12}) milliseconds")
# detected by watchdog at work: 1412, last enqueued NCCL work: 1415, last completed NCCL work: 1411
_PROGRESS = re.compile(
    r"(?:(?:at work(?: sequence id)?|at NCCL work): (\d{1,18}+)[, ][^\n]{0,40}?)?[Ll]ast enqueued (?:NCCL )?work: (-?\d{1,18}), "
    r"(?:last started (?:NCCL )?work: -?\d{1,18}+[^,\n]{0,60}+, )?last completed (?:NCCL )?work: (-?\d{1,18})"
)
_SIGNAL_FROM = re.compile(r"dump signal due to a collective timeout from (?:rank (\d{1,7})|this)|timeout signal from rank (\d{1,7})")
_FAILED = "Some NCCL operations have failed or timed out"
_HEARTBEAT = re.compile(
    r"Heartbeat monitor timed out|watchdog got stuck for (\d{1,9}) (milli)?seconds|due to ProcessGroupNCCL watchdog hang"
    r"|[Hh]eartbeat (?:monitor )?(?:lost|missed|timeout)|watchdog hang (?:detected|for)"
)
_QUEUED = re.compile(r"workMetaList_\.size\(\)\s?=\s?(\d{1,9})")
# SocketImpl(fd=41, addr=[gpu-0217]:50122, remote=[gpu-0201]:29500)
_SOCKET = re.compile(r"SocketImpl\(fd=-?\d{1,7}(?:, addr=\[([^\]\n]{1,128})\]:\d{1,6})?(?:, remote=\[([^\]\n]{1,128})\]:\d{1,6})?\)")
_STORE = re.compile(
    r"(recvValueWithTimeout|recvValue|recvBytes|recvVector|sendBytes|sendValue) failed|client socket has timed out"
    r"|should dump. flag on TCPStore"
    r"|server socket has failed|TCPStore (?:server|wait)[^\n]{0,60}(?:timed out|shut down)|Failed to (?:get|set|check)[^\n]{0,60}TCPStore"
    r"|waitForInput[^\n]{0,20}|store (?:has )?timed out|failed to (?:bind|listen)"
)
_CONNECT = re.compile(r"connect to (?:\[([^\]\n]{1,128})\]:\d{1,6}|\(([^,\n)]{1,128}), \d{1,6}\))")
# SocketImpl(fd=41, addr=[gpu-0217]:50122, remote=[gpu-0201]:29500): Connection reset by peer. This may ...
_REASON = re.compile(r"\): ((?=[^\n])[^\n.)]{0,160}+(?:(?:\.(?! )|\)(?!: ))[^\n.)]{0,160}+){0,6}+)(?:\. |$)")
_ADDRESS = re.compile(r"^[\d.]{7,15}$|^[0-9a-fA-F]{0,4}:[0-9a-fA-F:.%\w]{1,60}$|^localhost")
# [0, 2] joined but didn't finish collective #12 | ranks [1] finished collective #5, but didn't join collective #6
_JOINED = re.compile(r"\[([\d, ]{1,4000})\] joined but didn.t finish collective #(\d{1,18})")
_ABSENT = re.compile(r"\[([\d, ]{1,4000})\](?: finished collective #\d{1,18},)? ?(?:but )?didn.t join(?: collective #(\d{1,18}))?")
# To our best knowledge, ranks [1] are the lagging ranks that caused this timeout. They never joined any collectives
_LAGGING = re.compile(r"ranks \[([\d, ]{1,4000})\] are the lagging ranks")
_RUNNING = re.compile(
    r"Rank (\d{1,7}) is running (?:collective"
    r"|inconsistent collective): (?:CollectiveFingerPrint\()?(?:SequenceNumber=(\d{1,18})(?:, )?)?OpType=(\w{1,40})"
)
_BARRIER = re.compile(r"[Rr]ank(?:\(s\)|s)? ([\d, ]{1,4000}) failed to pass monitoredBarrier in (\d{1,12}) ms")
_FAULTY = re.compile(r"reached monitoredBarrier, but received errors while waiting for send/recv from rank (\d{1,7})")
_ABORTED = re.compile(r"Found key in store: NCCLABORTEDCOMM[^\n]{0,200}?from rank: (\d{1,7})")


def group(found: re.Match[str] | None) -> str | None:
    """Process group as `name:description`, the spelling that the flight recorder's events carry as well."""
    if not found:
        return None
    name, described = found[2] or found[1], found[3] or ("default_pg" if found[1] == "0" else None)
    return f"{name}:{described}" if described else name


def _global(line: Line, text: str) -> int | None:
    """The global rank; inside a sub-group's brackets `Rank` counts within the group."""
    if line.rank is not None:
        return line.rank
    if prefixed := _RANK_PREFIX.search(text):
        return int(prefixed[1])
    where = _GROUP.search(text)
    if where and (where[1] != "0" or (where[3] or "default_pg") != "default_pg"):
        return None
    plain = _RANK.search(text)
    return int(where[4]) if where else int(plain[1]) if plain else None


def _event(code: str, line: Line, text: str, message: str) -> Event:
    where = _GROUP.search(text)
    made = Event(code, message.strip()[:500], line.number, rank=_global(line, text), grp=group(where))
    if where:
        made.attrs["group_rank"] = int(where[4])
    return made


def _around(text: str, marker: str) -> str:
    at = text.find(marker)
    return text[max(0, at - 300) : at + _REACH]


def _timeout(line: Line) -> Iterator[Record]:
    text = _around(line.text, _TIMEOUT if _TIMEOUT in line.text else _BLOCKING)
    made = _event("nccl.timeout", line, text, text[max(0, text.find(_TIMEOUT)) :])
    if work := _WORK.search(text):
        fields = dict(_FIELD.findall(work[1]))
        made.op = fields.pop("OpType", None)
        seq = fields.pop("SeqNum", "")
        made.seq = int(seq) if seq.isdecimal() and len(seq) < 19 else None
        made.attrs |= {"timeout_ms": int(work[2]), **fields}
    if ran := _RAN.search(text):
        made.duration_s = int(ran[1]) / 1000
    yield made


def _ended(line: Line, marker: str = _ENDED) -> Iterator[Record]:
    """The watchdog thread died of something else than its own timeout, or saw a communicator's error."""
    text = _around(line.text, marker)
    said = text[text.find(marker) + len(marker) :].lstrip(": ")
    reading = exceptions.classify(said) or exceptions.Reading("nccl.system_error")
    made = _event(reading.code, line, text, f"{'watchdog thread ended' if marker == _ENDED else 'watchdog'}: {said}")
    made.state, made.peer, made.duration_s, made.severity = reading.state, reading.peer, reading.duration_s, reading.severity
    made.attrs |= reading.attrs
    yield made


def _progress(line: Line, found: re.Match[str]) -> Iterator[Record]:
    """What the rank had enqueued and completed: `seq` is the last completed work, `value` the last enqueued."""
    made = _event("nccl.progress", line, line.text[max(0, found.start() - 400) : found.end()], found[0])
    made.seq, made.value = int(found[3]), float(found[2])
    if found[1]:
        made.attrs["work"] = int(found[1])
    if told := _SIGNAL_FROM.search(line.text):
        made.attrs["signal_from"] = told[1] or told[2] or "this rank"
    yield made


def _failed(window: Window) -> Iterator[Record]:
    """Said beside a watchdog line it adds nothing; alone it is all that tells of the timeout."""
    near = (*window.before(20), *window.after(20))
    told = any(_TIMEOUT in other.text or _ENDED in other.text for other in near)
    yield _event("nccl.progress" if told else "nccl.timeout", window.line, window.line.text[:_REACH], _FAILED)


def _unwrapped(window: Window) -> tuple[str, int]:
    """The line joined with what a terminal's width broke off, and the number of its last part."""
    line = window.line
    text, last = line.text[:_REACH], line.number
    for near in window.after(3):
        if (near.rank != line.rank and near.rank is not None) or near.text[:1] == "[" or _RANK_PREFIX.match(near.raw):
            break
        text, last = text + near.raw[:400], near.number
    return text, last


def _whole(window: Window) -> Line:
    """The line, or with its reason broken off by a terminal's width the joined one."""
    line = window.line
    said = line.text[line.text.find(_ENDED) + len(_ENDED) :]
    if len(said) > _REASON_LENGTH or exceptions.classify(said) or _TIMEOUT in said:
        return line
    text, last = _unwrapped(window)
    return replace(line, text=text) if last > line.number and _TIMEOUT in text else line


def _heartbeat(window: Window) -> Iterator[Record]:
    line = window.line
    text, last = line.text[:_REACH], line.number
    found = _HEARTBEAT.search(text)
    if not found and "ProcessGroupNCCL" in text:
        text, last = _unwrapped(window)
        found = _HEARTBEAT.search(text)
    if not found or (".cpp:" not in text and any(".cpp:" in above.text for above in window.before(1))):
        return
    made = _event("nccl.heartbeat", line, text, text[max(0, found.start() - 20) :])
    made.line_last = last
    made.state = "terminating" if "due to" in found[0] else "stuck"
    if found[1]:
        made.duration_s = int(found[1]) / (1000 if found[2] else 1)
    if queued := _QUEUED.search(text):
        made.value = float(queued[1])
    yield made


def _named(address: str | None) -> str | None:
    return address if address and not _ADDRESS.search(address) else None


def _store(line: Line, text: str) -> Iterator[Record]:
    found = _STORE.search(text)
    if not found:
        return
    made = _event("torch.store", line, text, text[text.find("[c10d]") + len("[c10d]") :] if "[c10d]" in text else text)
    made.state = found[0]
    if ends := _SOCKET.search(text):
        made.host, made.peer = _named(ends[1]), ends[2]
    elif ends := _CONNECT.search(text):
        made.peer = ends[1] or ends[2]
    if reason := next((found[1] for found in _REASON.finditer(text) if len(found[1]) <= _REASON_LENGTH), None):
        made.attrs["reason"] = reason
    yield made


def _ranks(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d{1,7}", text)][:1024]


def _desync(line: Line, text: str) -> Iterator[Record]:
    if found := _JOINED.search(text):
        yield _apart(line, text, found[0], "joined but did not finish", _ranks(found[1]), found[2])
    if found := _ABSENT.search(text):
        yield _apart(line, text, found[0], "did not join", _ranks(found[1]), found[2])
    if found := _LAGGING.search(text):
        yield _apart(line, text, found[0], "never joined", _ranks(found[1]), None)
    if found := _BARRIER.search(text):
        made = _apart(line, text, found[0], "failed to pass the barrier", _ranks(found[1]), None)
        made.duration_s = int(found[2]) / 1000
        yield made
    elif found := _FAULTY.search(text):
        yield _apart(line, text, found[0], "no answer at the barrier", [int(found[1])], None)
    if "Detected mismatch between collectives" in text:
        said = _RUNNING.findall(text)[:2]
        made = _apart(line, text, text, "mismatch", [int(rank) for rank, _, _ in said], said[0][1] if said else None)
        made.op = " against ".join(op for _, _, op in said) or None
        yield made


def _apart(line: Line, text: str, message: str, state: str, ranks: list[int], seq: str | None) -> Event:
    made = _event("nccl.desync", line, text, message)
    made.state, made.seq = state, int(seq) if seq else None
    made.attrs["ranks"] = ranks
    return made


def parse(window: Window) -> Iterable[Record]:
    """Records of one line of torch.distributed."""
    line = window.line
    if _ENDED in line.text and _TIMEOUT not in line.text:
        line = _whole(window)
    if _TIMEOUT in line.text:
        return _timeout(line)
    if _ENDED in line.text:
        return _ended(line)
    if _FAILED in line.text:
        return _failed(window)
    return _other(window)


def _other(window: Window) -> Iterator[Record]:
    line, text = window.line, window.line.text[:_REACH]
    if found := _PROGRESS.search(text):
        yield from _progress(line, found)
    elif found := _ABORTED.search(text):
        made = _event("nccl.remote_error", line, text, found[0])
        made.state = f"rank {found[1]} aborted its communicators"
        made.attrs["from_rank"] = int(found[1])
        yield made
    elif "onitoredBarrier" in text or "joined" in text or "didn't join" in text or "lagging ranks" in text or "mismatch between" in text:
        yield from _desync(line, text)
    elif records := list(_heartbeat(window)):
        yield from records
    elif _BLOCKING in text and _WORK.search(text):
        yield from _timeout(line)
    elif _FOUND in text:
        yield from _ended(line, _FOUND)
    elif "[E" in line.raw[:120] and "ProcessGroupGloo" in text and (reading := exceptions.classify(text)):
        made = _event(reading.code, line, text, text[text.find("]") + 1 :])
        made.state, made.peer, made.duration_s = reading.state, reading.peer, reading.duration_s
        yield made
    else:
        yield from _store(line, text)


DIALECT = LineDialect(
    "c10d",
    (_TIMEOUT, _ENDED),
    parse,
    hints=(
        "ProcessGroupNCCL", "ProcessGroupGloo", "TCPStore", "[c10d]", "last enqueued ", _FAILED, "monitoredBarrier", "joined but didn",
        "but didn't join", "the lagging ranks",
        _BLOCKING, "mismatch between collectives", "NCCLABORTEDCOMM", "SocketImpl(",
    ),
)  # fmt: skip
