"""Evidence of an incident: what was seen, in order of time, many alike in one line, each with file:line and its part in the story."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from triage.decisions import Decision
from triage.findings import Finding, span_note, timing
from triage.history import Burst, History
from triage.moments import SECOND, clock, iso, span

ORDER = ("root", "operator", "precursor", "cascade", "symptom", "teardown", "outcome", "recovery", "fact")
MOST_EACH = 8
UNKNOWN_PROCESS = "pid='<unknown>', name=<unknown>, "


def rows_of(decision: Decision, history: History) -> list[dict[str, Any]]:
    """Evidence entries, the root first in rank but shown in order of time."""
    finding = decision.finding
    root = finding.root
    groups = list(_groups(finding))
    rows = [_row(group, role, finding, history) for role, group in groups]
    first = [row for row, (_, group) in zip(rows, groups, strict=True) if root and any(b.burst_id == root.burst_id for b in group)]
    kept = _most_telling([*first, *_in_time([row for row in rows + _derived(finding, history) if row not in first])])
    return sorted(kept, key=lambda r: (_when(r), ORDER.index(r["role"]), r["source"], r["line"]))


def _when(row: dict[str, Any]) -> str:
    """Its stamp or a neighbour's; what has neither comes last."""
    return str(row["ts"] or row["about"] or "9999").removesuffix("Z")  # so that 10:00:03 sorts before 10:00:03.2


def _in_time(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda r: (_when(r), r["source"], r["line"]))


def _most_telling(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first of each role."""
    by_role: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_role[row["role"]].append(row)
    return [row for role in ORDER for row in by_role[role][:MOST_EACH]][:40]


def _groups(finding: Finding) -> Iterable[tuple[str, list[Burst]]]:
    """Bursts alike (code, part in the story; host and device too for roots) as one entry."""
    groups: defaultdict[tuple[object, ...], list[Burst]] = defaultdict(list)
    for burst in finding.incident.bursts:
        role = part_of(burst, finding)
        if role is None:
            continue
        single = role in ("root", "operator", "precursor") and burst.family != "training"
        beside = burst.role == "root" and role == "precursor" and not _on_suspect(burst, finding)
        place = (burst.host, burst.device) if single and not beside and finding.shared == "none" else ()
        groups[(role, burst.code, burst.state if burst.family == "scheduler" else None, *place)].append(burst)
    if finding.root is not None and all(finding.root.burst_id != b.burst_id for g in groups.values() for b in g):
        yield "root", [finding.root]
    for key, group in groups.items():
        yield str(key[0]), sorted(group, key=lambda b: (b.first is None, b.first or 0, b.source_id, b.line))


def part_of(burst: Burst, finding: Finding) -> str | None:
    """The part of a burst in this story; None when it has none."""
    role = burst.role
    if role == "advice":
        return "recovery" if " to 0x0 " in burst.message else "fact"
    if role == "root":
        if finding.root is not None and (burst.burst_id == finding.root.burst_id or burst.class_id == finding.class_id):
            return "root"
        return _lesser_root(burst, finding)
    if role == "cascade" and burst.family == "gpu":
        return "teardown" if burst.code == "xid.45" else "cascade"
    if role in ("fact", "noise") or (role in ("precursor", "recovery") and not _on_suspect(burst, finding)):
        return None
    return role


def _on_suspect(burst: Burst, finding: Finding) -> bool:
    """A sign tells something only of a host that is suspected, or where nobody is; elsewhere it is counted, not listed."""
    hosts = {s.host for s in finding.suspects if s.host}
    return not hosts or burst.host in hosts


def _lesser_root(burst: Burst, finding: Finding) -> str:
    """A root that is not the root here: what follows from it, or what stands beside it."""
    root = finding.root
    if root is None or root.first is None or burst.first is None:
        return "symptom"
    if burst.host == root.host and burst.first >= root.first:
        return "cascade"
    return "precursor" if burst.first < root.first else "symptom"


def _row(group: Sequence[Burst], role: str, finding: Finding, history: History) -> dict[str, Any]:
    first = group[0]
    hosts = sorted({b.host for b in group if b.host})
    ranks = sorted({b.rank for b in group if b.rank is not None})
    start = first.start
    return {
        "source": history.where(first.source_id),
        "line": first.line,
        "ts": iso(first.first) if first.timed else None,
        "about": iso(first.first),
        "host": hosts[0] if len(hosts) == 1 else None,
        "text": _text(group, hosts, ranks, start),
        "role": role,
        "code": first.code,
        "count": sum(b.count for b in group),
        "hosts": len(hosts),
        "ranks": len(ranks),
    }


def _text(group: Sequence[Burst], hosts: Sequence[str], ranks: Sequence[int], start: int | None) -> str:
    first = group[0]
    text = first.message.strip().replace(UNKNOWN_PROCESS, "")
    notes = []
    if len(ranks) > 1:
        notes.append(f"{len(ranks)} ranks ({_ranges(ranks)})")
    elif len(hosts) > 1:
        notes.append(f"{len(hosts)} hosts")
    count = sum(b.count for b in group)
    if count > max(len(ranks), len(hosts), 1):
        notes.append(f"{count} lines")
    if first.code == "nccl.timeout" and first.duration_s:
        op = " ".join(str(x) for x in (first.op, first.seq) if x is not None)
        began = f"began {clock(start)}" if first.timed and start is not None else f"began {span(first.duration_s)} earlier"
        notes.append(f"{op} timed out, {began}".strip())
    if max(b.copies for b in group) > 1:
        notes.append(f"in {max(b.copies for b in group)} logs")
    return (f"{', '.join(notes)}: " if notes else "") + text[:300]


def _ranges(numbers: Sequence[int]) -> str:
    """0-3, 8, 10-12; at most six parts."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    text = [str(a) if a == b else f"{a}-{b}" for a, b in parts]
    return ", ".join(text[:6]) + (" ..." if len(text) > 6 else "")


def _derived(finding: Finding, history: History) -> list[dict[str, Any]]:
    """What several lines say together: a step change, late ranks, who waits for whom, a stall."""
    rows = []
    if finding.change is not None and finding.class_id in ("T22", "T11"):
        step = finding.change.step
        rows.append(_entry(history, step.source_id, step.line, step.ts, span_note(finding), "symptom", "train.step"))
    if finding.hang is not None and finding.class_id in ("T13", "T22"):
        for blame in finding.hang.blames[:4]:
            source = blame.source_id or next((b.source_id for b in finding.incident.own), "")
            rows.append(_entry(history, source, 1, None, f"rank {blame.rank}: {blame.why}", "symptom", "flight.dump", blame.host))
    for stack in finding.stacks[:4] if finding.class_id == "T13" else ():
        text = f"{f'rank {stack.rank}: ' if stack.rank is not None else ''}{stack.why}"
        rows.append(_entry(history, stack.source_id or "", stack.line, None, text, "symptom", "stack.dump", stack.host))
    for blame in finding.silent if finding.root is None and finding.class_id == "T13" and finding.hang is None else ():
        shown = next((b for b in finding.incident.own if b.code == "nccl.timeout"), None)
        if shown is not None:
            rows.append(_entry(history, shown.source_id, shown.line, None, f"rank {blame.rank}: {blame.why}", "symptom", shown.code))
    if finding.class_id == "T22":
        for late in finding.stragglers[:3]:
            rows.append(
                _entry(history, late.source_id or "", 1, None, f"rank {late.rank}: {late.why}", "symptom", "flight.entry", late.host)
            )
    if finding.incident.stalled and finding.incident.attempt is not None:
        attempt = finding.incident.attempt
        last = max(history.steps.get((attempt.job_id, attempt.attempt), []), key=lambda s: s.ts or 0, default=None)
        if last is not None and last.ts is not None and (finding.incident.end or history.now):
            quiet = ((finding.incident.end or history.now or 0) - last.ts) / SECOND
            rows.append(
                _entry(
                    history,
                    last.source_id,
                    last.line,
                    last.ts,
                    f"last step {last.seq}; then no progress for {span(quiet)}",
                    "symptom",
                    "train.step",
                )
            )
    return rows


def _entry(
    history: History, source: str, line: int, ts: int | None, text: str, role: str, code: str, host: str | None = None
) -> dict[str, Any]:
    return {
        "source": history.where(source), "line": line, "ts": iso(ts), "about": iso(ts), "host": host,
        "text": text, "role": role, "code": code,
        "count": 1, "hosts": int(host is not None), "ranks": 0,
    }  # fmt: skip


__all__ = ["part_of", "rows_of", "timing"]
