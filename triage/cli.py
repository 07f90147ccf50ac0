"""The command line: a command parses, calls, prints. Heavy imports wait until a command runs."""

from __future__ import annotations

import errno
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from triage.faults import Fault

T = TypeVar("T")

if TYPE_CHECKING:
    from pathlib import Path

    from triage.desk import Answer, Setup
    from triage.rule_rows import Rule, Signature

SELDOM = 50_000, 20, 50
"""Rows come in batches and make few cycles: looking for those at every 700 objects costs a tenth of the time."""
OUT_OF_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}
HELP = "Which host broke the job, and what to do: reads the logs that are there, runs nothing on a cluster."
app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None, help=HELP)
rules_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Check, list and explain the rules.")
parsers_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="List the dialects, or try them on a file.")
db_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="What a database holds, whether it is sound; make it smaller.")
app.add_typer(db_app, name="db")
app.add_typer(rules_app, name="rules")
app.add_typer(parsers_app, name="parsers")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        with suppress(PackageNotFoundError):
            typer.echo(f"triage {version('gpu-triage')}")
            raise typer.Exit
        raise Fault("this program was not installed, so that it has no version; see pyproject.toml")


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)] = False,
) -> None:
    pass


class Format(StrEnum):
    """text for people, json for programs."""

    TEXT = "text"
    JSON = "json"


class PageFormat(StrEnum):
    """Formats of `now` and `report`."""

    TEXT = "text"
    JSON = "json"
    MD = "md"
    HTML = "html"
    SLACK = "slack"
    TICKET = "ticket"
    SVG = "svg"
    PNG = "png"


PICTURES = (PageFormat.SVG, PageFormat.PNG)


class FailOn(StrEnum):
    """From when on `now` exits with 3: any incident, one that asks for an act, one that takes a host away."""

    ANY = "any"
    ACT = "act"
    ISOLATE = "isolate"


Paths = Annotated[list[str], typer.Argument(help="Files, folders, globs, archives, or - for standard input.", show_default=False)]
Db = Annotated[str | None, typer.Option("--db", help="DuckDB file [default: triage.duckdb where one is needed].", show_default=False)]
Rules = Annotated[str | None, typer.Option("--rules", help="Folder of site rules, laid over the shipped ones.", show_default=False)]
Zone = Annotated[
    str | None, typer.Option("--tz", help="Zone of stamps that name none: Europe/Berlin or +02:00 [default: UTC].", show_default=False)
]
Form = Annotated[Format, typer.Option("--format", help="text or json.")]
Job = Annotated[str | None, typer.Option("--job", help="Job id.", show_default=False)]
At = Annotated[str | None, typer.Option("--at", help="The incident at this time: 2026-11-30T13:22:03Z.", show_default=False)]
Window = Annotated[str | None, typer.Option("--window", help="90s, 15m, 8h, 28d.", show_default=False)]
Redact = Annotated[bool, typer.Option("--redact", help="Show pseudonyms for users, addresses, serials, UUIDs, keys and tokens.")]
RedactHosts = Annotated[bool, typer.Option("--redact-hosts", help="As --redact, and for hosts and names of jobs too.")]


def _setup(
    db: str | None = None, rules: str | None = None, zone: str | None = None, redact: bool = False, redact_hosts: bool = False
) -> Setup:
    from triage.desk import Setup
    from triage.redaction import wished

    return Setup(db, rules, zone, wished(redact, redact_hosts))


def _seconds(text: str | None) -> float | None:
    from triage.moments import duration

    return duration(text) if text else None


def _print_json(data: object) -> None:
    typer.echo(json.dumps(data, indent=1, ensure_ascii=True, default=str))


def _emit(data: object, form: str, screen: Callable[[], str]) -> None:
    if form == "json":
        _print_json(data)
    else:
        typer.echo(screen())


def _table(rows: list[Any], columns: Mapping[str, str], empty: str) -> str:
    from triage.screens import table

    return table(rows, columns) if rows else empty


@contextmanager
def _progress() -> Iterator[Callable[[str, int], None] | None]:
    """A bar on standard error when a terminal watches and the work lasts over a second; else nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(TextColumn("reading"), BarColumn(pulse_style="cyan"), DownloadColumn(), TimeElapsedColumn(), transient=True)
    began, task = time.monotonic(), bar.add_task("reading", total=None)

    def advance(_path: str, size: int) -> None:
        bar.update(task, advance=size)
        if not bar.live.is_started and time.monotonic() - began > 1.0:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()


@app.command()
def now(
    paths: Paths,
    job: Job = None,
    at: At = None,
    window: Window = None,
    db: Db = None,
    rules: Rules = None,
    tz: Zone = None,
    redact: Redact = False,
    redact_hosts: RedactHosts = False,
    form: Annotated[PageFormat, typer.Option("--format", help="text, json, md, html, slack, ticket, svg or png.")] = PageFormat.TEXT,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the decision rows that were tried, with the values that they saw.")
    ] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Read every line that no dialect knows, too, whatever the confidence.")] = False,
    fail_on: Annotated[
        FailOn | None,
        typer.Option("--fail-on", help="Exit with 3 on any incident, one to act on, or one that takes a host away.", show_default=False),
    ] = None,
) -> None:
    """The first-ten-minutes answer: which host, what to do now, how sure, what is missing."""
    from triage import desk

    with _progress() as progress:
        answer = desk.now(
            _setup(db, rules, tz, redact=redact, redact_hosts=redact_hosts),
            paths,
            job,
            at,
            _seconds(window),
            progress,
            form not in (PageFormat.TEXT, PageFormat.JSON),
            deep,
        )
    _show(answer, form, explain)
    if fail_on is not None and _reached(answer, fail_on):
        raise typer.Exit(3)


def _show(answer: Answer, form: PageFormat, explain: bool) -> None:
    from triage.screens import tried_screen

    decision = answer.decision
    if form is PageFormat.JSON:
        tried = (
            [{"rule_id": t.rule_id, "feature": t.feature, "value": t.value, "wanted": t.wanted} for t in decision.tried]
            if decision and explain
            else None
        )
        extra = {"explain": {"tried": tried, "features": decision.finding.features}} if decision and explain else {}
        _print_json(answer.shown | answer.mask.value(extra))
        return
    if form is PageFormat.TEXT:
        typer.echo(_screen(answer))
    elif form in PICTURES:
        _write_bytes(_picture(answer, form), None)
    else:
        typer.echo(_page(answer, form))
    if explain and decision is not None and form not in PICTURES:
        typer.echo("\n" + answer.mask.text(tried_screen(decision.tried, decision.finding.features)))


def _screen(answer: Answer) -> str:
    from triage.screens import now_screen

    titles = {name: row.title for name, row in answer.book.classes.items()}
    sentence = ""
    if answer.decision is not None:
        from triage.answers import fill_of, filled

        values = fill_of(answer.decision, answer.analysis.history) | {"reason": answer.decision.rule.reason}
        sentence = answer.mask.text(filled(answer.book.action(answer.decision.action).sentence, values, quote=False))
    skipped = [(answer.mask.text(p), answer.mask.text(r)) for p, r in (answer.ingested.skipped if answer.ingested else [])]
    notes = [f"Skipped {len(skipped)} file(s): " + "; ".join(f"{p}: {r}" for p, r in skipped[:3])] if skipped else []
    if answer.data["rejects"]:
        notes.append(
            f"{answer.data['rejects']} line(s) carry a needle and were not understood: "
            "triage ingest PATH --db F, then triage sql 'select * from rejects'"
        )
    return "\n".join([now_screen(answer.shown, titles, sentence), *notes])


def _page(answer: Answer, form: PageFormat) -> str:
    from triage import reports

    return reports.render(answer.report(), form.value)


def _reached(answer: Answer, level: FailOn) -> bool:
    decision = answer.decision
    if decision is None or decision.finding.class_id in ("none", "T23"):
        return False
    if level is FailOn.ANY:
        return True
    acts = decision.action not in ("none", "monitor")
    return acts if level is FailOn.ACT else answer.book.action(decision.action).isolating


@app.command()
def ingest(
    paths: Paths,
    dask: Annotated[
        str | None, typer.Option("--dask", help="Read with Dask workers: local[N], slurm[N] or tcp://HEAD:PORT.", show_default=False)
    ] = None,
    spool: Annotated[
        str | None,
        typer.Option("--spool", help="Folder that all workers see and write Parquet to; it is kept.", show_default=False),
    ] = None,
    db: Db = None,
    rules: Rules = None,
    tz: Zone = None,
    redact: Redact = False,
    redact_hosts: RedactHosts = False,
    form: Form = Format.TEXT,
) -> None:
    """Read logs into a database; the same files twice change nothing."""
    from triage import desk, filesystem

    setup = _setup(db, rules, tz, redact=redact, redact_hosts=redact_hosts)
    if note := filesystem.doubt(setup.path):
        typer.echo(f"triage: note: {_plain(note)}", err=True)
    with _progress() as progress:
        data = desk.ingest(setup, paths, progress, dask, spool)
    _emit(data, form, lambda: _ingest_screen(data))


def _ingest_screen(data: Mapping[str, Any]) -> str:
    from triage.screens import safe

    columns = {
        "path": "file",
        "dialect": "dialects",
        "lines": "lines",
        "events": "events",
        "benign": "benign",
        "rejects": "rejects",
        "span": "span",
        "clock": "clock",
        "owner": "of",
    }
    rows = [
        {
            **s,
            "dialect": ",".join(s["dialects"]) or "-",
            "span": f"{(s['first_ts'] or '-')[:19]} .. {(s['last_ts'] or '-')[:19]}",
            "owner": s["host"] or (f"job {s['job_id']}" if s["job_id"] else ""),
        }
        for s in data["sources"]
    ]
    lines = [_table(rows, columns, "nothing new")]
    lines.append(
        f"{len(data['sources'])} file(s) read, {data['unchanged']} unchanged, {data['events']} events, "
        f"{data['rejects']} rejects, {data['seconds']:.1f} s -> {data['db']}"
    )
    lines += [f"skipped {safe(s['path'])}: {safe(s['reason'])}" for s in data["skipped"]]
    return "\n".join(lines)


@app.command()
def incidents(
    db: Db = None, rules: Rules = None, redact: Redact = False, redact_hosts: RedactHosts = False, form: Form = Format.TEXT
) -> None:
    """Every incident of the database, newest first."""
    from triage import desk

    data = desk.incidents(_setup(db, rules, redact=redact, redact_hosts=redact_hosts))
    columns = {"id": "id", "when": "start", "class": "class", "action": "action", "confidence": "sure", "lost": "GPU-h", "summary": "what"}
    rows = [{**i, "when": (i["start"] or "-")[:19], "lost": f"{i['gpu_hours_lost'] or 0:.1f}"} for i in data["incidents"]]
    _emit(data, form, lambda: _table(rows, columns, "no incident"))


@app.command()
def report(
    incident: Annotated[
        str | None, typer.Argument(help="Incident id; without one --job, --at or --last chooses.", show_default=False)
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="The incident that `now` would answer with.")] = False,
    job: Job = None,
    at: At = None,
    db: Db = None,
    rules: Rules = None,
    redact: Redact = False,
    redact_hosts: RedactHosts = False,
    form: Annotated[PageFormat, typer.Option("--format", help="text, md, html, slack, ticket, json, svg or png.")] = PageFormat.MD,
    out: Annotated[
        str | None, typer.Option("--out", help="File to write; what people wrote between its markers is kept.", show_default=False)
    ] = None,
) -> None:
    """A report of one incident to send: Markdown, HTML, chat, ticket or JSON."""
    from triage import desk

    if incident is None and not (last or job or at):
        raise Fault("name an incident, or --job ID, --at TIME or --last; see triage incidents")
    _write_report(desk.report_answer(_setup(db, rules, redact=redact, redact_hosts=redact_hosts), incident, job, at), form, out)


def _write_report(answer: Answer, form: PageFormat, out: str | None) -> None:
    from pathlib import Path

    from triage import reports

    if form is PageFormat.TEXT:
        typer.echo(_screen(answer))
        return
    if form in PICTURES:
        _write_bytes(_picture(answer, form), out)
        return
    old = Path(out).read_text(encoding="utf-8", errors="replace") if out and Path(out).is_file() else ""
    text = reports.render(answer.report(), form.value, old)
    if out is None:
        typer.echo(text)
    else:
        _write_bytes(text.encode(), out)


def _picture(answer: Answer, form: PageFormat) -> bytes:
    from triage import picture

    return picture.picture(answer.report(), form.value)


def _write_bytes(data: bytes, out: str | None) -> None:
    """Into a file, or to standard output, but no picture to a terminal."""
    from pathlib import Path

    if out is None:
        if sys.stdout.isatty():
            raise Fault("a picture is no text for a terminal; send it into a file with > incident.png")
        sys.stdout.buffer.write(data)
        return
    _replace(Path(out), data)
    typer.echo(f"written {out}")


def _replace(path: Path, data: bytes) -> None:
    """The old file stays whole until the new one is: people's words in it are nowhere else."""
    beside = path.with_name(f".{path.name}.new")
    try:
        if path.exists() and not path.is_file():  # a pipe, a device
            path.write_bytes(data)
            return
        beside.write_bytes(data)
        beside.replace(path.resolve())
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise Fault(f"{path}: cannot be written: {error.strerror}") from error


@app.command()
def bursts(
    host: Annotated[str | None, typer.Option("--host", help="Only this host.", show_default=False)] = None,
    code: Annotated[str | None, typer.Option("--code", help="Only this code: xid.79.", show_default=False)] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many rows.")] = 1000,
    db: Db = None,
    rules: Rules = None,
    redact: Redact = False,
    redact_hosts: RedactHosts = False,
    form: Form = Format.TEXT,
) -> None:
    """Events of one host, device and code, folded where the quiet between them is short."""
    from triage import desk

    data = desk.bursts(_setup(db, rules, redact=redact, redact_hosts=redact_hosts), host, code, limit)
    columns = {
        "when": "first",
        "host": "host",
        "device": "device",
        "code": "code",
        "role": "role",
        "count": "lines",
        "job_id": "job",
        "rank": "rank",
        "message": "message",
    }
    # an end of a job that ran well is no news; JSON holds all
    rows = [{**b, "when": (b["first"] or "-")[:19]} for b in data["bursts"] if b["role"] != "fact" or code]
    _emit(data, form, lambda: _table(rows, columns, "no burst"))


@app.command()
def lemons(
    window: Annotated[str, typer.Option("--window", help="Trailing window: 28d.")] = "28d",
    top: Annotated[int | None, typer.Option("--top", min=1, help="At most so many hosts.", show_default=False)] = None,
    db: Db = None,
    rules: Rules = None,
    redact: Redact = False,
    redact_hosts: RedactHosts = False,
    form: Form = Format.TEXT,
) -> None:
    """Hosts that keep breaking jobs, ranked for their exposure, with reasons."""
    from triage import desk, fleet_screens

    data = desk.lemons(_setup(db, rules, redact=redact, redact_hosts=redact_hosts), _seconds(window), top)
    _emit(data, form, lambda: fleet_screens.lemons_screen(data))


@app.command()
def stats(
    window: Window = None,
    db: Db = None,
    rules: Rules = None,
    redact: Redact = False,
    redact_hosts: RedactHosts = False,
    form: Form = Format.TEXT,
) -> None:
    """Exposure, errors by code, causes by class, rates with intervals, ETTR, availability."""
    from triage import desk, fleet_screens

    data = desk.stats(_setup(db, rules, redact=redact, redact_hosts=redact_hosts), _seconds(window))
    _emit(data, form, lambda: fleet_screens.stats_screen(data))


@app.command()
def spares(
    job_nodes: Annotated[int | None, typer.Option("--job-nodes", min=1, help="Hosts of the job to plan for.", show_default=False)] = None,
    job: Job = None,
    hosts: Annotated[float | None, typer.Option("--hosts", min=0, help="Stated: hosts of the fleet.", show_default=False)] = None,
    rate: Annotated[float | None, typer.Option("--rate", min=0, help="Stated: failures per 1,000 host-days.", show_default=False)] = None,
    recovery: Annotated[str, typer.Option("--recovery", help="Stated: time until a failed host is back.")] = "132m",
    db: Db = None,
    rules: Rules = None,
    redact: Redact = False,
    redact_hosts: RedactHosts = False,
    form: Form = Format.TEXT,
) -> None:
    """How many spare hosts, by each method with its inputs, and which ones."""
    from triage import desk, fleet_screens

    if (hosts is None) != (rate is None):
        raise Fault("--hosts and --rate go together")
    if hosts is not None and rate is not None:
        from triage.overprovision import Need, needed

        data: dict[str, Any] = {"schema": 1, "needed": needed(_checked(lambda: Need(int(hosts), rate, _seconds(recovery) or 0)))}
    else:
        data = desk.spare_hosts(_setup(db, rules, redact=redact, redact_hosts=redact_hosts), job_nodes, job)
    _emit(data, form, lambda: fleet_screens.spares_screen(data))


def _checked(make: Callable[[], T]) -> T:
    """Inputs that a formula refuses are one line."""
    try:
        return make()
    except ValueError as error:
        raise Fault(str(error)) from error


@app.command()
def project(
    hosts: Annotated[float, typer.Option("--hosts", help="Hosts of the job.")],
    rate: Annotated[float, typer.Option("--rate", help="Failures per 1,000 host-days.")],
    checkpoint: Annotated[str | None, typer.Option("--checkpoint", help="Interval between checkpoints.", show_default=False)] = None,
    restart: Annotated[str, typer.Option("--restart", help="Overhead of each start.")] = "5m",
    save: Annotated[str, typer.Option("--save", help="Time for which a save blocks training.")] = "5m",
    queue: Annotated[str, typer.Option("--queue", help="Wait before each start.")] = "0s",
    run: Annotated[str | None, typer.Option("--run", help="Productive time of the whole run.", show_default=False)] = None,
    form: Form = Format.TEXT,
) -> None:
    """MTTF and expected ETTR of a job of a given size."""
    from triage import fleet_screens
    from triage.reliability import Projection
    from triage.reliability import project as projected

    asked = _checked(
        lambda: Projection(
            hosts, rate, _seconds(checkpoint), _seconds(restart) or 0, _seconds(save) or 0, _seconds(queue) or 0, _seconds(run)
        )
    )
    data = {"schema": 1, **projected(asked)}
    _emit(data, form, lambda: fleet_screens.figures_screen(data))


@app.command()
def checkpoint(
    mtbf: Annotated[
        str | None, typer.Option("--mtbf", help="Mean time between failures of the job; measured when not given.", show_default=False)
    ] = None,
    save: Annotated[str | None, typer.Option("--save", help="Time for which a save blocks training.", show_default=False)] = None,
    durable: Annotated[str | None, typer.Option("--durable", help="Time until a save is durable.", show_default=False)] = None,
    restart: Annotated[str | None, typer.Option("--restart", help="Time that a restart costs.", show_default=False)] = None,
    size: Annotated[
        float | None,
        typer.Option("--size", min=0.001, help="GB of one checkpoint, for the bandwidth that it asks for.", show_default=False),
    ] = None,
    db: Db = None,
    rules: Rules = None,
    form: Form = Format.TEXT,
) -> None:
    """Checkpoint interval and waste by Young, Daly, FlashRecovery and Meta."""
    from triage import fleet_desk, fleet_screens

    times = [_seconds(text) for text in (mtbf, save, durable, restart)]
    data = _checked(lambda: fleet_desk.checkpoint(_setup(db, rules), times[0], times[1], times[2], times[3], size))
    _emit(data, form, lambda: fleet_screens.checkpoint_screen(data))


@app.command()
def failover(
    interval: Annotated[str, typer.Option("--interval", help="Interval between checkpoints.")],
    slowdown: Annotated[float, typer.Option("--slowdown", help="Step time after failover over step time before.")],
    detect: Annotated[str, typer.Option("--detect", help="Time until the fault is noticed.")] = "0s",
    elapsed: Annotated[str | None, typer.Option("--elapsed", help="Time since the last checkpoint.", show_default=False)] = None,
    form: Form = Format.TEXT,
) -> None:
    """Continue at a slower pace after a network fault, or restart from the checkpoint."""
    from triage import fleet_screens
    from triage.checkpointing import failover as decided

    data = {"schema": 1, **_checked(lambda: decided(_seconds(interval) or 0, slowdown, _seconds(detect) or 0, _seconds(elapsed)))}
    _emit(data, form, lambda: fleet_screens.figures_screen(data))


@app.command()
def explain(
    code: Annotated[str, typer.Argument(help="79, sxid 20034, nccl.timeout, exit 137, T04.")], rules: Rules = None, form: Form = Format.TEXT
) -> None:
    """What a code means, what to do, who disagrees, and the row that decides."""
    from triage import desk

    data = desk.explain(_setup(rules=rules), code)
    columns = {"kind": "kind", "code": "code", "action": "action", "severity": "severity", "source": "source", "meaning": "meaning"}
    rows = [{**r, "source": str(r["source"])[:44], "action": str(r["action"])[:40]} for r in data["rows"]]
    _emit(data, form, lambda: _table(rows, columns, ""))


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="One SELECT.")],
    db: Db = None,
    rules: Rules = None,
    redact: Redact = False,
    redact_hosts: RedactHosts = False,
    form: Form = Format.TEXT,
) -> None:
    """A read-only query of the database; no file, no extension, no setting is within reach."""
    from triage import desk

    rows = desk.query(_setup(db, rules, redact=redact, redact_hosts=redact_hosts), query)
    _emit(rows, form, lambda: _table(rows, {k: k for k in rows[0]} if rows else {}, "no row"))


@app.command()
def drill(
    out: Annotated[str | None, typer.Argument(help="Folder to write the incident into.", show_default=False)] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed writes the same bytes.")] = 0,
    kind: Annotated[str | None, typer.Option("--kind", help="Kind of incident; `list` names them.", show_default=False)] = None,
    score: Annotated[
        str | None, typer.Option("--score", help="Answer in JSON to mark against OUT's case.toml.", show_default=False)
    ] = None,
    fleet: Annotated[bool, typer.Option("--fleet", help="Write weeks of a whole fleet, with its lemons and what looks like one.")] = False,
    hosts: Annotated[int, typer.Option("--hosts", min=16, max=5000, help="Hosts of the fleet.")] = 200,
    days: Annotated[int, typer.Option("--days", min=30, max=400, help="Days of the fleet.")] = 60,
    form: Form = Format.TEXT,
) -> None:
    """Write a made-up incident, or a fleet, as logs with its truth, for game days; or mark an answer against that truth."""
    from triage import rehearsal

    if fleet:
        data = rehearsal.write_fleet(out, seed, hosts, days)
    else:
        data = rehearsal.mark(out, score) if score else rehearsal.write(out, seed, kind)
    _emit(data, form, lambda: rehearsal.screen(data))


@rules_app.command("check")
def rules_check(
    rules: Rules = None,
    samples: Annotated[str | None, typer.Option("--samples", help="Folder of decision samples.", show_default=False)] = None,
    form: Form = Format.TEXT,
) -> None:
    """Every fault of the rules at once, as path:line: field: what."""
    from pathlib import Path

    from triage import desk
    from triage.rulebook import check

    book = desk.rulebook(rules)
    faults = check(book, Path(samples) if samples else None)
    data = {
        "schema": 1,
        "faults": [str(f) for f in faults],
        "signatures": len(book.signatures),
        "rules": len(book.rules),
        "digest": book.digest,
    }
    counts = f"{len(book.rules)} decision rows, {len(book.signatures)} signatures, {len(book.classes)} classes"
    words = f"{counts}: no fault (rulebook {book.digest})"
    _emit(data, form, lambda: "\n".join(str(f) for f in faults) if faults else words)
    if faults:
        raise typer.Exit(2)


@rules_app.command("list")
def rules_list(rules: Rules = None, form: Form = Format.TEXT) -> None:
    """The decision table in order."""
    from triage import desk

    book = desk.rulebook(rules)
    rows = [{"id": r.id, "status": r.status, "when": json.dumps(r.when), "action": r.action, "reason": r.reason} for r in book.rules]
    _emit({"schema": 1, "rules": rows}, form, lambda: _table(rows, {"id": "rule", "action": "action", "when": "when"}, ""))


@rules_app.command("explain")
def rules_explain(
    rule: Annotated[str, typer.Argument(help="Rule or signature id.")], rules: Rules = None, form: Form = Format.TEXT
) -> None:
    """One rule or signature in full."""
    from triage import desk
    from triage.screens import safe

    book = desk.rulebook(rules)
    rows: list[Rule | Signature] = [*book.rules, *book.signatures]
    row = next((r for r in rows if r.id == rule), None)
    if row is None:
        raise Fault(f"{rule!r}: no such rule; see triage rules list")
    data = {"schema": 1, **row.model_dump(by_alias=True, mode="json")}
    _emit(data, form, lambda: "\n".join(f"{k:14} {safe(v)}" for k, v in data.items() if v not in (None, [], {}, False)))


@parsers_app.command("list")
def parsers_list(form: Form = Format.TEXT) -> None:
    """The dialects, in the order in which they are asked."""
    from triage.dialects import dialects

    rows = [
        {
            "name": d.name,
            "kind": type(d).__name__.removesuffix("Dialect").lower(),
            "needles": ", ".join(getattr(d, "needles", getattr(d, "openers", ()))),
        }
        for d in dialects()
    ]
    _emit({"schema": 1, "parsers": rows}, form, lambda: _table(rows, {"name": "dialect", "kind": "kind", "needles": "needles"}, ""))


@parsers_app.command("try")
def parsers_try(
    file: Annotated[str, typer.Argument(help="A log.")],
    every: Annotated[bool, typer.Option("--all", help="Show lines that nobody claims too.")] = False,
    form: Form = Format.TEXT,
) -> None:
    """Per line, which dialect claimed it and what it read."""
    from triage import trials

    data = trials.attempt(file, every)
    _emit(data, form, lambda: trials.screen(data))


@db_app.command("info")
def db_info(db: Db = None, rules: Rules = None, form: Form = Format.TEXT) -> None:
    """Tables, rows, sources, span, size and version; of a database of another version, how to read its logs again."""
    from triage import upkeep, upkeep_screens

    data = upkeep.info(_setup(db, rules))
    _emit(data, form, lambda: upkeep_screens.info_screen(data))


@db_app.command("check")
def db_check(db: Db = None, rules: Rules = None, form: Form = Format.TEXT) -> None:
    """Read every row; every fault in a line, and exit 2 where there is one."""
    from triage import upkeep, upkeep_screens

    data = upkeep.check(_setup(db, rules))
    _emit(data, form, lambda: upkeep_screens.check_screen(data))
    if data["faults"]:
        raise typer.Exit(2)


@db_app.command("compact")
def db_compact(
    out: Annotated[
        str | None, typer.Option("--out", help="New file to write instead, as a backup; the database stays.", show_default=False)
    ] = None,
    db: Db = None,
    form: Form = Format.TEXT,
) -> None:
    """Write the same rows into a new, smaller file, and put it in the old one's place."""
    from triage import upkeep, upkeep_screens

    data = upkeep.compact(_setup(db), out)
    _emit(data, form, lambda: upkeep_screens.compact_screen(data))


@db_app.command("expire")
def db_expire(
    before: Annotated[
        str | None, typer.Option("--before", help="What ends before this time goes: 2026-11-30T00:00:00Z.", show_default=False)
    ] = None,
    keep: Annotated[
        str | None, typer.Option("--keep", help="Keep this much, counted back from the last stamp of the data: 180d.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go.")] = False,
    db: Db = None,
    rules: Rules = None,
    form: Form = Format.TEXT,
) -> None:
    """Forget sources and rows that are older, and judge anew what is left."""
    from triage import upkeep, upkeep_screens

    data = upkeep.expire(_setup(db, rules), before, keep, dry_run)
    _emit(data, form, lambda: upkeep_screens.expire_screen(data))


@app.command()
def watch(
    paths: Annotated[
        list[str], typer.Argument(help="Files, folders, globs, or - for a pipe: journalctl -f | triage watch -", show_default=False)
    ],
    notify: Annotated[
        str | None, typer.Option("--notify", help="Command that gets each new verdict on its standard input.", show_default=False)
    ] = None,
    every: Annotated[str, typer.Option("--every", help="Time between two looks.")] = "500ms",
    limit: Annotated[str | None, typer.Option("--for", help="Stop after this time.", show_default=False)] = None,
    job: Job = None,
    db: Db = None,
    rules: Rules = None,
    tz: Zone = None,
    redact: Redact = False,
    redact_hosts: RedactHosts = False,
    form: Form = Format.TEXT,
) -> None:
    """Follow logs as they grow, and say so when the verdict changes."""
    from triage.watch import Order, Watch, signals
    from triage.watch_notice import Notice
    from triage.watch_voice import voiced

    order = Order(tuple(paths), job, _seconds(every) or 0.5, _seconds(limit))
    notice = Notice(notify) if notify else None
    try:
        with signals() as stop, voiced(form.value, sys.stdout, _screen, notice is None) as voice:
            Watch(_setup(db, rules, tz, redact=redact, redact_hosts=redact_hosts), order, voice, notice).run(stop)
    finally:
        if notice is not None:
            notice.close()


@app.command()
def collect(
    known: Annotated[
        str | None, typer.Argument(help="A folder of logs, triaged first, or a file with the JSON of triage now.", show_default=False)
    ] = None,
    job: Job = None,
    hosts: Annotated[str | None, typer.Option("--hosts", help="Hosts: gpu-[001-004],gpu-7.", show_default=False)] = None,
    low: Annotated[str | None, typer.Option("--from", help="Start of the window.", show_default=False)] = None,
    high: Annotated[str | None, typer.Option("--to", help="End of the window.", show_default=False)] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", help="Kubernetes namespace.", show_default=False)] = None,
    kubernetes: Annotated[bool, typer.Option("--kubernetes", help="Ask kubectl instead of Slurm.")] = False,
    run: Annotated[bool, typer.Option("--run", help="Run the commands; without it they are only printed.")] = False,
    runner: Annotated[str | None, typer.Option("--runner", help="How to reach a host: 'ssh {host}'.", show_default=False)] = None,
    out: Annotated[str | None, typer.Option("--out", help="Folder of the bundle; new or empty.", show_default=False)] = None,
    limit: Annotated[str, typer.Option("--limit", help="Time limit of each command.")] = "60s",
    add: Annotated[list[str] | None, typer.Option("--add", help="Logs that are here, judged with the bundle.", show_default=False)] = None,
    db: Db = None,
    rules: Rules = None,
    tz: Zone = None,
    redact: Redact = False,
    redact_hosts: RedactHosts = False,
    form: Form = Format.TEXT,
) -> None:
    """The read-only commands that bring what is missing; with --run a bundle of their output, triaged."""
    from triage import collect as collecting
    from triage.moments import parse_time

    span = [parse_time(text) if text else None for text in (low, high)]
    setup = _setup(db, rules, tz, redact=redact, redact_hosts=redact_hosts)
    scope = collecting.scope_of(setup, known, job, hosts, span[0], span[1], namespace, kubernetes)
    logs = [known] if known and os.path.isdir(known) else []
    request = collecting.Request(scope, runner, out, _seconds(limit) or 60.0, (*logs, *(add or ())))
    done = collecting.run(setup, request) if run else collecting.plan(setup, request)
    _emit(done.data, form, lambda: "\n\n".join([collecting.screen(done.data), *([_screen(done.answer)] if done.answer else [])]))


@app.command()
def serve(
    host: Annotated[str, typer.Option("--host", help="Address to listen at; any but loopback needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen at; 0 takes a free one.")] = 8799,
    token_file: Annotated[
        str | None, typer.Option("--token-file", help="File with the token that visitors must show.", show_default=False)
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option("--name", help="Another host name under which it is visited, behind a proxy.", show_default=False)
    ] = None,
    db: Db = None,
    rules: Rules = None,
    redact: Redact = False,
    redact_hosts: RedactHosts = False,
) -> None:
    """A local read-only page over a database: incidents, hosts, jobs, bursts, search."""
    from triage import desk
    from triage.serve import server

    setup = _setup(db, rules, redact=redact, redact_hosts=redact_hosts)
    server.run(setup.path, desk.rulebook(setup.rules), host, port, token_file, name or [], setup.hide)


def app_main() -> None:
    """The entry point: a user's mistake is one line on standard error and exit 2."""
    gc.set_threshold(*SELDOM)
    sys.exit(_run())


def _run() -> int:
    try:
        return int(app(prog_name="triage", standalone_mode=False) or 0)
    except Fault as fault:
        return _refused(str(fault))
    except typer.TyperException as error:
        return _misused(error)
    except typer.Abort:
        return 130
    except OSError as error:
        if error.errno not in OUT_OF_ROOM:
            raise
        return _refused(
            f"{error.filename or 'output or temporary files'}: {error.strerror}; make room (TMPDIR names another folder), run it again"
        )
    except SystemExit:  # typer ends so, with 1, when whoever reads the output has closed the pipe
        return 0


def _refused(text: str) -> int:
    for line in text.splitlines():
        typer.echo(f"triage: {_plain(line)}", err=True)
    return 2


def _misused(error: typer.TyperException) -> int:
    """Wrong options or arguments; the bare name of a group prints its help."""
    text: str = getattr(error, "format_message", lambda: str(error))()
    context = getattr(error, "ctx", None)
    if text.startswith("Usage:"):
        typer.echo(text, err=True)
        return 2
    command = context.command_path if context is not None else "triage"
    return _refused(f"{' '.join(text.replace('Value error, ', '').split()).rstrip('.')}; see {command} --help")


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


if __name__ == "__main__":
    app_main()
