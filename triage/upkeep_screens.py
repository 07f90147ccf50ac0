"""Text of `triage db`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triage.screens import safe, table

SHOWN = 20


def size(count: float) -> str:
    """Bytes as a person says them: 512 B, 3.4 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def info_screen(data: Mapping[str, Any]) -> str:
    """What is in a database."""
    lines = [f"{safe(data['db'])}: {size(data['bytes'])}, schema version {safe(data['version'])}"]
    if data["log_bytes"]:
        lines.append(f"{size(data['log_bytes'])} more wait in {safe(data['db'])}.wal: a run was killed; the next one takes them over")
    if data["again"]:
        lines.append(f"this program reads version {data['reads']}; to read the logs again: {safe(data['again'])}")
    else:
        lines += _inside(data)
    return "\n".join([*lines, "", table(data["tables"], {"table": "table", "rows": "rows"})])


def _inside(data: Mapping[str, Any]) -> list[str]:
    sources = data["sources"]
    span = f"{(sources['first'] or '-')[:19]} .. {(sources['last'] or '-')[:19]}"
    undated = f", {sources['undated']} without times" if sources["undated"] else ""
    return [
        f"{sources['sources']} source(s) of {size(sources['bytes'] or 0)}, {sources['lines'] or 0} lines, {span}{undated}",
        f"analysis: {data['analysis']}; free inside the file: {size(data['free'])}",
    ]


def check_screen(data: Mapping[str, Any]) -> str:
    """Faults, or that there are none."""
    if data["faults"]:
        return "\n".join(f"{safe(data['db'])}: {safe(fault)}" for fault in data["faults"])
    stale = "" if data["analysis"] == "fresh" else f"; the analysis is {data['analysis']}, the next command makes it anew"
    return f"{safe(data['db'])}: no fault in {data['rows']} rows{stale}"


def compact_screen(data: Mapping[str, Any]) -> str:
    """Sizes before and after."""
    return f"{safe(data['db'])}: {size(data['before'])} -> {size(data['after'])}"


def expire_screen(data: Mapping[str, Any]) -> str:
    """What goes."""
    goes, sources = "would go" if data["dry_run"] else "went", data["sources"]
    rows = ", ".join(f"{count} {name}" for name, count in data["rows"].items() if name != "sources") or "no row"
    lines = [f"{len(sources)} source(s) that end before {data['before']} {goes}, and {rows}"]
    lines += [f"  {safe(s['path'])}  {s['last'][:19]}  {s['lines']} lines" for s in sources[:SHOWN]]
    lines += [f"  ... and {len(sources) - SHOWN} more"] if len(sources) > SHOWN else []
    kept = f", {data['undated']} of them without times" if data["undated"] else ""
    lines.append(f"{data['left']} source(s) {'would be left' if data['dry_run'] else 'are left'}{kept}")
    if not data["dry_run"] and data["rows"]:
        lines.append("the file keeps its size until triage db compact; files that are still in a folder come back with its next ingest")
    return "\n".join(lines)
