"""An answer as Slack blocks: what, where, do now, evidence. Nothing in it can mention a person or a channel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from triage.escape import clean, inert, mrkdwn
from triage.moments import shown

MOST_BLOCKS, MOST_TEXT, MOST_HEADER = 50, 3000, 150
MOST_SUSPECTS, MOST_EVIDENCE, MOST_COMMANDS = 6, 10, 8

Block = dict[str, Any]


def slack(answer: Mapping[str, Any]) -> list[Block]:
    """Blocks of the answer of `triage now` (or of a report): at most 50, each text at most 3,000 characters."""
    verdict = answer["verdict"]
    blocks = [_header(verdict), _section(mrkdwn(verdict["summary"]))]
    blocks += [_fields(verdict, answer)] if verdict["class"] != "none" else []
    blocks += _list("Suspects", [_suspect(s) for s in answer["suspects"]], MOST_SUSPECTS)
    blocks += _list("Do now", [_command(c) for c in answer["commands"]], MOST_COMMANDS, "\n")
    blocks += _list("Spares", [f"{mrkdwn(s['host'])}: {mrkdwn(s['why'])}" for s in answer["spares"]], 3)
    blocks += _list("Evidence", [_evidence(e) for e in _telling(answer["evidence"])], MOST_EVIDENCE)
    blocks += _list("Still missing", [f"{mrkdwn(m['what'])}: {mrkdwn(m['why'])}" for m in answer["missing"]], 5)
    blocks += _list("Could also be", [_alternative(a, verdict["class"]) for a in answer["alternatives"]], 4)
    blocks.append(_context(answer))
    return blocks[:MOST_BLOCKS]


def payload(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a message: the blocks, and the line that a notification shows."""
    return {"text": mrkdwn(answer["verdict"]["summary"], 200), "blocks": slack(answer)}


def _header(verdict: Mapping[str, Any]) -> Block:
    act = verdict["action"].replace("_", " ").replace("gpu", "GPU").capitalize() if verdict["action"] != "none" else "Nothing to do"
    text = clean(f"{act} ({verdict['confidence']})", MOST_HEADER - 40)
    return {"type": "header", "text": {"type": "plain_text", "text": inert(text), "emoji": False}}


def _mrkdwn(text: str) -> Block:
    """`verbatim` keeps Slack from making links and mentions of its own."""
    return {"type": "mrkdwn", "text": text[:MOST_TEXT], "verbatim": True}


def _section(text: str) -> Block:
    return {"type": "section", "text": _mrkdwn(text)}


def _fields(verdict: Mapping[str, Any], answer: Mapping[str, Any]) -> Block:
    lost = sum(job["gpu_hours_lost"] or 0 for job in answer["jobs"])
    rows = [
        ("Class", verdict["class"]),
        ("Layer", verdict["layer"]),
        ("Began (UTC)", shown(verdict["start"]) if verdict["start"] else "not known"),
        ("Jobs", ", ".join(job["job_id"] for job in answer["jobs"][:4]) or "none"),
        ("GPU-hours lost", f"{lost:,.1f}"),
        ("Rule", verdict["rule_id"]),
    ]
    return {"type": "section", "fields": [_mrkdwn(f"*{name}*\n{mrkdwn(value)}") for name, value in rows]}


def _command(command: Mapping[str, Any]) -> str:
    return f"{mrkdwn(command['what'], 100)}\n```{mrkdwn(command['command'], 400)}```"


def _suspect(suspect: Mapping[str, Any]) -> str:
    place = [suspect["host"] or "host not known", suspect["device"] or "", f"rank {suspect['rank']}" if suspect["rank"] is not None else ""]
    return f"*{mrkdwn(' '.join(p for p in place if p))}* ({mrkdwn(suspect['role'])}): {mrkdwn(suspect['why'], 200)}"


def _telling(evidence: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Roots first, then by time."""
    return sorted(evidence, key=lambda e: e["role"] not in ("root", "operator"))


def _evidence(row: Mapping[str, Any]) -> str:
    name = row["source"].replace("!", "/").rsplit("/", 1)[-1]
    where = "" if not row["host"] or row["text"].startswith(f"{row['host']} ") else f" {mrkdwn(row['host'], 63)}"
    when = mrkdwn(shown(row["ts"], row.get("about")), 32)
    return f"`{when}` {row['role']}{where}: {mrkdwn(row['text'], 200)} ({mrkdwn(name, 80)}:{row['line']})"


def _alternative(row: Mapping[str, Any], class_id: str) -> str:
    """Another class by its id; another cause within the class by its reason alone."""
    return mrkdwn(row["why"]) if row["class"] == class_id else f"{mrkdwn(row['class'])}: {mrkdwn(row['why'])}"


def _list(title: str, items: Sequence[str], most: int, between: str = "\n• ") -> Iterable[Block]:
    """Sections of whole items, each under the limit; what does not fit is counted."""
    if not items:
        return
    text = f"*{title}*"
    for item in items[:most]:
        if len(text) + len(between) + len(item) > MOST_TEXT:
            yield _section(text)
            text = f"*{title}, more*"
        text += between + item
    left = len(items) - most
    note = f"\n_and {left} more_"
    yield _section(text + note if left > 0 and len(text) + len(note) <= MOST_TEXT else text)


def _context(answer: Mapping[str, Any]) -> Block:
    hosts = len({row["host"] for row in answer["coverage"]})
    counts = [
        (hosts, "host", "logs of {} read"),
        (answer["rejects"], "line", "{} not understood"),
        (len(answer["others"]), "other incident", "{}"),
    ]
    text = ", ".join(words.format(f"{n} {noun}" + ("" if n == 1 else "s")) for n, noun, words in counts) + "; nothing was run"
    return {"type": "context", "elements": [_mrkdwn(text)]}
