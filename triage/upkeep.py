"""Care of a database: what is in it, whether it is sound, a smaller file, a shorter history. Behind `triage db`."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

from triage.desk import Setup, rulebook
from triage.faults import Fault
from triage.moments import duration, iso, micros, moment, parse_time
from triage.schema import TABLES, VERSION
from triage.store import Store

SECOND = 1_000_000
FOLDERS = 20
"""Of so many folders at most the command that reads them again is printed."""


def info(setup: Setup) -> dict[str, Any]:
    """JSON of `triage db info`; works on a database of any version."""
    with Store(setup.path, write=False, any_version=True) as store:
        version = store.meta("schema")
        data: dict[str, Any] = {"schema": 1, "db": setup.path, **_files(setup.path), "version": version, "reads": str(VERSION)}
        data["tables"] = [{"table": table, "rows": rows} for table, rows in store.sizes().items()]
        if version == str(VERSION):
            (extent,) = store.rows("extent")
            times = {name: iso(micros(extent[name])) for name in ("first", "last")}
            data |= {"sources": {**extent, **times}, "analysis": _analysis(store, setup), "free": _free(store)}
        data["again"] = None if version == str(VERSION) else _again([row["path"] for row in store.rows("paths")])
    return data


def _files(path: str) -> dict[str, int]:
    log = Path(f"{path}.wal")
    return {"bytes": Path(path).stat().st_size, "log_bytes": log.stat().st_size if log.exists() else 0}


def _free(store: Store) -> int:
    """Bytes that deleted rows left behind and new ones will take first."""
    return sum(row["block_size"] * row["free_blocks"] for row in store.rows("blocks"))


def _analysis(store: Store, setup: Setup) -> str:
    from triage.pipeline import stamp_of

    built = store.meta("built")
    return "none" if not built else "fresh" if built == stamp_of(store, rulebook(setup.rules)) else "stale"


def _again(paths: list[str]) -> str:
    """The command that reads the same logs into a new database."""
    folders = sorted({os.path.dirname(path.split("!", 1)[0]) or "." for path in paths if not path.startswith("-")})
    tops = [f for f in folders if not any(f != other and f.startswith(f"{other.rstrip('/')}/") for other in folders)]
    named = " ".join(shlex.quote(f) for f in tops) if 0 < len(tops) <= FOLDERS else "PATH..."
    return f"triage ingest {named} --db NEW"


def check(setup: Setup) -> dict[str, Any]:
    """JSON of `triage db check`: every fault, a line each."""
    with Store(setup.path, write=False) as store:
        analysis = _analysis(store, setup)
        faults = store.faults(analysis == "fresh")
        sizes = {} if faults else store.sizes()
    return {"schema": 1, "db": setup.path, "faults": faults, "analysis": analysis, "rows": sum(sizes.values())}


def compact(setup: Setup, out: str | None) -> dict[str, Any]:
    """JSON of `triage db compact`: the same rows in a new file, in the old one's place or in `out`."""
    path = Path(setup.path)
    target = Path(out) if out else path
    if out and target.exists():
        raise Fault(f"{out}: exists; name a new file")
    if not target.absolute().parent.is_dir():
        raise Fault(f"{out}: its folder does not exist; make it first")
    with Store(setup.path, write=False) as store:
        others = [row["name"] for row in store.rows("strangers", ours=list(TABLES))]
    if others:
        raise Fault(f"{setup.path}: holds tables that are not ours ({', '.join(others[:5])}) and would be lost; move them elsewhere first")
    before, made = path.stat().st_size, target.absolute().with_name(f".{target.name}.compact")
    _forget(made)
    try:
        with Store(str(made)) as fresh, fresh.filled_from(setup.path, hold=out is None):
            fresh.settle()
            _to_disk(made)
            made.replace(target)
    except BaseException:
        _forget(made)
        raise
    return {"schema": 1, "db": str(target), "before": before, "after": target.stat().st_size}


def _forget(made: Path) -> None:
    """What an earlier run that was killed has left."""
    for path in (made, Path(f"{made}.wal")):
        with suppress(FileNotFoundError):
            path.unlink()


def _to_disk(made: Path) -> None:
    for path in (made, made.parent):
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def expire(setup: Setup, before: str | None, keep: str | None, dry_run: bool) -> dict[str, Any]:
    """JSON of `triage db expire`: what ends before a time goes, and the analysis is made anew; with `dry_run` it is only told."""
    from triage.pipeline import refresh

    if (before is None) == (keep is None):
        raise Fault("say what goes: --before TIME, or --keep DUR counted back from the last stamp of the data")
    book = rulebook(setup.rules)
    if not Path(setup.path).exists():
        raise Fault(f"{setup.path}: no such database; run triage ingest PATH... --db {setup.path}")
    with Store(setup.path) as store:
        cut = moment(_cut(store, before, keep))
        old = store.rows("old_sources", before=cut)
        with store.transaction(keep=not dry_run):
            gone = store.expire(cut)
            left = store.rows("extent")[0]
        if not dry_run:
            refresh(store, book)
    sources = [{"path": row["path"], "last": iso(micros(row["last_ts"])), "lines": row["lines"]} for row in old]
    facts = {"schema": 1, "db": setup.path, "before": iso(micros(cut)), "dry_run": dry_run, "sources": sources}
    return {**facts, "rows": {table: count for table, count in gone.items() if count}, "left": left["sources"], "undated": left["undated"]}


def _cut(store: Store, before: str | None, keep: str | None) -> int:
    if before is not None:
        return parse_time(before)
    now = micros(store.rows("last_stamp")[0]["now"])
    if now is None:
        raise Fault("the database holds no log with times: nothing to count back from")
    return now - round(duration(keep or "") * SECOND)
