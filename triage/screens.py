"""The plain-text screens: one screen an answer, readable at 3 a.m. Every log text is stripped of control characters first."""

from __future__ import annotations

import shutil
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LABEL = 11
MIN_WIDTH, MAX_WIDTH = 80, 160
MIN_HEIGHT = 16
LONGEST_NAME = 63  # RFC 1035: a label of a host name has at most 63 characters
EVIDENCE_LINES, MISSING_LINES, OTHER_LINES, SENTENCE_LINES = 9, 4, 6, 3
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def safe(text: object) -> str:
    """Text that cannot steer a terminal: control, format and bidi characters become spaces or go."""
    return "".join(" " if c in "\t\n\r" else "" if unicodedata.category(c) in _HIDDEN else c for c in str(text))


def width() -> int:
    """Columns of the terminal, within sane bounds; 120 when there is none."""
    return max(MIN_WIDTH, min(MAX_WIDTH, shutil.get_terminal_size((120, 40)).columns))


def height() -> int:
    """Lines of the terminal; 40 when there is none."""
    return max(MIN_HEIGHT, shutil.get_terminal_size((120, 40)).lines)


def cut(text: str, size: int) -> str:
    """`text` in at most `size` columns, an ellipsis where it was cut."""
    return text if len(text) <= size else text[: max(0, size - 3)].rstrip() + "..."


def block(label: str, lines: Iterable[str], size: int) -> list[str]:
    """Lines under a label in the left margin; a command, after `$ `, is never cut."""
    return [f"{label if n == 0 else '':{LABEL}}{line if '$ ' in line[:6] else cut(line, size - LABEL)}" for n, line in enumerate(lines)]


def now_screen(answer: Mapping[str, Any], titles: Mapping[str, str], sentence: str, size: int | None = None) -> str:
    """The first-ten-minutes answer on one screen.

    titles    class id -> title
    sentence  the action in words
    """
    size = size or width()
    verdict = answer["verdict"]
    if verdict["class"] == "none":
        return "\n".join(
            [safe(verdict["summary"]), *block("Missing", _missing(answer), size), *_rest(answer, titles, size), *_read(answer)]
        )
    lines = [_head(answer, titles, size), ""]
    lines += block("Do now", [*wrapped(safe(sentence), size - LABEL), *_do_now(answer)], size)
    lines += block("Why", _why(answer, size - LABEL), size)
    lines += block("Suspected", _suspected(answer), size)
    lines += block("Not guilty", _not_guilty(answer), size)
    lines += block("Cost", _cost(answer), size)
    lines += block("At risk", [f"job {safe(r['job_id'])}: {safe(r['why'])}" for r in answer["at_risk"][:3]], size)
    lines += block("Or else", [_or_else(r, verdict, titles) for r in answer["alternatives"][:3]], size)
    lines += block("Missing", _missing(answer), size)
    lines += _rest(answer, titles, size)
    return "\n".join(lines)


def _head(answer: Mapping[str, Any], titles: Mapping[str, str], size: int) -> str:
    verdict = answer["verdict"]
    suspect = answer["suspects"][0] if answer["suspects"] else {}
    place = [
        cut(safe(suspect["host"]), LONGEST_NAME) if suspect.get("host") else "",
        f"GPU {suspect['device']}" if suspect.get("device") else "",
    ]
    if suspect.get("rank") is not None:
        place.append(f"rank {suspect['rank']}")
    if not suspect.get("host") or suspect.get("role") != "culprit":
        place = [f"suspect {' '.join(p for p in place if p)}"] if any(place) else ["no host to blame"]
    title = f"{titles.get(verdict['class'], '')} ({verdict['class']})"
    kind = verdict["manifestation"].replace("_", "-")
    left = "  ".join([verdict["confidence"].upper(), title, *(p for p in place if p)])
    right = f"layer {verdict['layer'].replace('_', ' ')}" + ("" if kind == "none" else f", {kind}")
    return cut(f"{left}{' ' * max(2, size - len(left) - len(right))}{right}", size)


def wrapped(text: str, size: int) -> list[str]:
    """A sentence in lines of whole words, three at most."""
    return textwrap.wrap(text, size, max_lines=SENTENCE_LINES, placeholder=" ...")


def _do_now(answer: Mapping[str, Any]) -> list[str]:
    lines = []
    commands = [c for c in answer["commands"] if c["command"]]
    for number, command in enumerate(commands[:4], 1):
        lines.append(f"{number} {safe(command['what'])}")
        lines.append(f"  $ {safe(command['command'])}")
    if answer["spares"]:
        first, *more = answer["spares"][:2]
        job = answer["jobs"][0]["job_id"] if answer["jobs"] else ""
        lines.append(f"{len(commands[:4]) + 1} restart job {safe(job)} with {safe(first['host'])} in its place: {safe(first['why'])}")
        lines += [f"  or {safe(s['host'])}: {safe(s['why'])}" for s in more]
    return lines


def _why(answer: Mapping[str, Any], size: int) -> list[str]:
    """The evidence in order of time; where it is more than fits, the root stays."""
    rows = answer["evidence"]
    told = [at for at, row in enumerate(rows) if row["role"] in ("root", "operator")][:4]
    others = [at for at, row in enumerate(rows) if row["role"] not in ("root", "operator")]
    shown = sorted([*told, *others[: EVIDENCE_LINES - len(told)]])
    left_out = len(told) + len(others) - len(shown)
    lines = []
    for row in (rows[at] for at in shown):
        near = row.get("about")
        stamp = f"{row['ts'][11:19]}Z" if row["ts"] else f"~{near[11:19]}" if near else "        -"
        where = f"{safe(row['source']).rsplit('/', 1)[-1]}:{row['line']}"
        role = row["role"]
        who = "" if row["host"] and row["text"].startswith(f"{row['host']} ") else safe(row["host"] or "")
        room = size - len(stamp) - len(who) - len(where) - len(role) - 8
        text = cut(safe(row["text"]), max(20, room))
        lines.append(f"{stamp} {who}{' ' if who else ''}{text:{max(20, room)}}  {where}  {role}")
    if left_out:
        lines.append(f"          and {left_out} more: --format md")
    return lines


def _suspected(answer: Mapping[str, Any]) -> list[str]:
    """Suspects, where the head does not already say all: more than one, or one that is no culprit."""
    suspects = answer["suspects"]
    if len(suspects) == 1 and suspects[0]["role"] == "culprit":
        return []
    return [f"{place}: {safe(s['why'])}" if (place := _place(s)) else safe(s["why"]) for s in suspects[:4]]


def _place(suspect: Mapping[str, Any]) -> str:
    rank = f"rank {suspect['rank']}" if suspect["rank"] is not None else ""
    return " ".join(part for part in (safe(suspect["host"] or ""), rank, suspect["device"] or "") if part)


def _not_guilty(answer: Mapping[str, Any]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for victim in answer["victims"]:
        by_reason.setdefault(victim["why"], []).append(victim["host"])
    return [f"{folded(hosts)} ({safe(why)})" for why, hosts in by_reason.items()][:3]


def folded(hosts: Sequence[str], most: int = 80) -> str:
    """Host names as a Slurm hostlist; shortened when it stays long."""
    import hostlist

    try:
        text = safe(hostlist.collect_hostlist(list(hosts)))
    except hostlist.BadHostlist:
        text = ",".join(safe(h) for h in hosts)
    return text if len(text) < most else f"{text[: most - 10]}... ({len(hosts)} hosts)"


def _cost(answer: Mapping[str, Any]) -> list[str]:
    lines = []
    for job in answer["jobs"][:2]:
        if job["gpu_hours_lost"]:
            so_far, by = ("", " x ") if job["end"] else (" so far", ", ")
            gpus = f"{job['gpus']} GPUs of job {safe(job['job_id'])}"
            lines.append(f"{job['gpu_hours_lost']:.1f} GPU-hours{so_far}: {gpus}{by}{_lost(answer, job)}")
    return lines


def _lost(answer: Mapping[str, Any], job: Mapping[str, Any]) -> str:
    """`10 min hang + 27 min since the last checkpoint`: what the lost time was."""
    from triage.moments import SECOND, parse_time, span

    begin = job["last_checkpoint"] if job["basis"] == "checkpoint" else job["start"]
    end, fault = job["end"], answer["verdict"]["start"]
    words = "since the last checkpoint" if job["basis"] == "checkpoint" else "since its start, no checkpoint seen"
    if not begin or not end:
        return words
    first, last = parse_time(begin), parse_time(end)
    stopped = parse_time(fault) if fault else last
    if answer["verdict"]["manifestation"] != "fail_hang" or not first < stopped < last:
        return f"{span((last - first) / SECOND)} {words}"
    return f"({span((last - stopped) / SECOND)} hang + {span((stopped - first) / SECOND)} {words})"


def _or_else(row: Mapping[str, Any], verdict: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """Another class by its name; another cause within the class by its reason alone."""
    return safe(row["why"]) if row["class"] == verdict["class"] else f"{titles.get(row['class'], '')} ({row['class']}): {safe(row['why'])}"


def _when(stamp: str | None) -> str:
    return f"{stamp[:19]}Z" if stamp else "at an unknown time "


def _missing(answer: Mapping[str, Any]) -> list[str]:
    rows = answer["missing"]
    lines = [f"{safe(r['what'])}: {safe(r['why'])}\0{safe(r['command'])}" for r in rows[:MISSING_LINES]]
    flat = [part if n == 0 else f"  $ {part}" for line in lines for n, part in enumerate(line.split("\0"))]
    if len(rows) > MISSING_LINES:
        flat.append(f"and {len(rows) - MISSING_LINES} more: --format json")
    return flat


def _rest(answer: Mapping[str, Any], titles: Mapping[str, str], size: int) -> list[str]:
    others = answer["others"]
    lines = [f"{_when(o['start'])} {_other(o, titles)}" for o in others[:OTHER_LINES]]
    if len(others) > OTHER_LINES:
        lines.append(f"and {len(others) - OTHER_LINES} more: --format json")
    return block("Also", lines, size) if lines else []


def _other(row: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """Where, what to do about it, if anything, and what it is."""
    names = [f"job {safe(row['job_id'])}" if row.get("job_id") else "", folded(row["hosts"]) if row["hosts"] else ""]
    act = "" if row["action"] == "none" else row["action"].replace("_", " ")
    return ": ".join(
        part for part in (" ".join(n for n in names if n), act, f"{titles.get(row['class'], '')} ({row['class']})".strip()) if part
    )


def _read(answer: Mapping[str, Any]) -> list[str]:
    """What was there to read, when nothing was found in it."""
    families: dict[str, list[str]] = {}
    for row in answer["coverage"]:
        families.setdefault(row["family"], []).append(row["host"])
    if not families:
        return []
    parts = [f"{family} logs of {folded(sorted(set(hosts)))}" for family, hosts in sorted(families.items())]
    return [f"Read: {'; '.join(parts)}"]


def tried_screen(tried: Sequence[Any], features: Mapping[str, object]) -> str:
    """`--explain`: the rows of the decision table in order, and the first cell that kept each from deciding."""
    lines = ["Rows tried:"]
    for row in tried:
        lines.append(
            f"  {row.rule_id}: decided" if row.feature is None else f"  {row.rule_id}: {row.feature} is {row.value!r}, wants {row.wanted!r}"
        )
    seen = ", ".join(f"{k}={v!r}" for k, v in sorted(features.items()) if v not in (False, 0, 0.0, "none"))
    return "\n".join([*lines, f"Features: {safe(seen)}"])


def table(rows: Sequence[Mapping[str, object]], columns: Mapping[str, str], size: int | None = None) -> str:
    """Rows as aligned columns; `columns` maps a key to its heading. The last column takes what room is left."""
    size = size or width()
    cells = [[safe(heading) for heading in columns.values()]]
    cells += [[safe("" if row.get(key) is None else row.get(key)) for key in columns] for row in rows]
    widths = [max(len(line[n]) for line in cells) for n in range(len(columns))]
    lines = []
    for line in cells:
        text = "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        lines.append(cut(text, size))
    return "\n".join(lines)
