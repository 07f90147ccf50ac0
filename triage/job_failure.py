"""Which job failures are the infrastructure's, per code and per size: labels, windows, rates.

Two windows are kept apart: 20 s before the end (Delta) and from 10 min before to 5 min after it (Meta). Both show togetherness, not cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from triage.exposure import clip, overlap
from triage.reliability import mttf_h, poisson_interval, share_interval

FAILED = ("FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "REQUEUED", "LAUNCH_FAILED")
KEY = ["job_id", "attempt"]
AFTERWARDS = timedelta(minutes=5)
MACHINE = ("gpu", "host", "network", "storage")


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows around a job's end in seconds, and the size from which jobs count for r_f (GPUs, exclusive)."""

    delta_s: float = 20.0
    meta_before_s: float = 600.0
    meta_after_s: float = 300.0
    large_gpus: int = 128


def failed(state: str = "state") -> pl.Expr:
    """True for attempts that ended in failure; a state may carry a suffix, as in `CANCELLED by 1000`."""
    return pl.col(state).fill_null("").str.split(" ").list.first().str.strip_chars_end("+").is_in(FAILED)


def meetings(job_hosts: pl.DataFrame, jobs: pl.DataFrame, bursts: pl.DataFrame) -> pl.DataFrame:
    """Each code that an ended attempt met on its hosts, from its start to 5 min after its end.

    Columns: job_id, attempt, code, host, first, last, start, end. Bursts of one host and code inside one minute count as one.
    """
    minute = bursts.filter(pl.col("host").is_not_null() & pl.col("first").is_not_null()).with_columns(m=pl.col("first").dt.truncate("1m"))
    thin = minute.group_by("host", "code", "m").agg(pl.col("first").min(), pl.col("last").max().fill_null(pl.col("first").max()))
    ended = jobs.filter(pl.col("end").is_not_null() & pl.col("start").is_not_null()).select(*KEY, job_end="end")
    spans = job_hosts.select(*KEY, "host", "start").join(ended, on=KEY).rename({"job_end": "end"}).drop_nulls("start")
    until = pl.col("end") + AFTERWARDS
    # equal days bring together what can meet; without them each burst would meet every job of its host
    runs = spans.with_columns(day=_days_between("start", until)).explode("day")
    faults = thin.drop("m").with_columns(day=_days_between("first", pl.col("last"))).explode("day")
    near = faults.lazy().join(runs.lazy(), on=["host", "day"]).filter((pl.col("last") >= pl.col("start")) & (pl.col("first") <= until))
    # of the days that two share, the first stands for all
    met = near.filter(pl.col("day") == pl.max_horizontal("first", "start").dt.truncate("1d"))
    return met.select(*KEY, "code", "host", "first", "last", "start", "end").collect()


def _days_between(since: str, until: pl.Expr) -> pl.Expr:
    return pl.datetime_ranges(pl.col(since).dt.truncate("1d"), until, "1d")


def _within(before_s: float, after_s: float) -> pl.Expr:
    low, high = pl.col("end") - timedelta(seconds=before_s), pl.col("end") + timedelta(seconds=after_s)
    return (pl.col("last") >= low) & (pl.col("first") <= high)


def labelled(
    jobs: pl.DataFrame, met: pl.DataFrame, bursts: pl.DataFrame, windows: Windows, acts: pl.DataFrame | None = None
) -> pl.DataFrame:
    """jobs with `infra` and `codes` (every critical code of the window), after Meta's label.

    infra: NODE_FAIL, or FAILED with a critical check on one of its hosts in the window; a critical check is a code with the role root
    that programs do not raise, of the GPU, host, network or storage. NODE_FAIL without any stays `unattributed`. `acts` (job_id, attempt)
    were ended by an operator or by policy, whatever their state says.
    """
    hard = bursts.filter(
        (pl.col("role") == "root")
        & ~pl.col("user_possible").fill_null(False)
        & pl.col("family").is_in(MACHINE)
        & ~pl.col("layer").fill_null("unknown").is_in(["user"])
    )
    critical = met.filter(_within(windows.meta_before_s, windows.meta_after_s)).join(hard.select("code").unique(), on="code", how="semi")
    codes = critical.group_by(KEY).agg(codes=pl.col("code").unique().sort())
    state = pl.col("state").fill_null("").str.split(" ").list.first()
    checked = pl.col("codes").list.len().fill_null(0) > 0
    broke = (state == "NODE_FAIL") | (state.is_in(["FAILED", "REQUEUED"]) & checked)
    meant = (acts if acts is not None else jobs.clear()).select(KEY).unique().with_columns(meant=pl.lit(True))
    marked = jobs.join(codes, on=KEY, how="left").join(meant, on=KEY, how="left").with_columns(pl.col("meant").fill_null(False))
    labels = marked.with_columns(infra=broke & ~pl.col("meant"), unattributed=(state == "NODE_FAIL") & ~checked & ~pl.col("meant"))
    return labels.drop("meant")


def by_code(jobs: pl.DataFrame, met: pl.DataFrame, bursts: pl.DataFrame, windows: Windows) -> list[dict[str, object]]:
    """`job_failure_by_code`: per code, ended attempts that met it while they ran and those that failed with it near their end.

    `p` is failed over met by Delta's window, `p_meta` by Meta's, each with its 90 % interval.
    """
    faults = bursts.filter(pl.col("family").is_in(MACHINE) & ~pl.col("role").is_in(["fact", "recovery", "operator", "noise"]))
    rows = met.join(faults.select("code").unique(), on="code", how="semi").join(jobs.select(*KEY, failed=failed()), on=KEY)
    flags = rows.with_columns(
        ran=pl.col("first") <= pl.col("end") + timedelta(seconds=1),
        delta=pl.col("failed") & _within(windows.delta_s, 1.0),
        meta=pl.col("failed") & _within(windows.meta_before_s, windows.meta_after_s),
    )
    each = flags.group_by(*KEY, "code").agg(pl.col("ran", "delta", "meta", "failed").any())
    each = each.with_columns(met_delta=pl.col("ran") | pl.col("delta"), met_meta=pl.col("ran") | pl.col("meta"))
    sums = each.group_by("code").agg(pl.col("met_delta", "met_meta", "delta", "meta").sum()).sort("code")
    return [_code_row(row) for row in sums.iter_rows(named=True) if row["met_meta"]]


def _code_row(row: dict[str, int | str]) -> dict[str, object]:
    delta, met, meta, met_meta = (int(row[n]) for n in ("delta", "met_delta", "meta", "met_meta"))
    return {
        "code": row["code"],
        "jobs": met,
        "failed": delta,
        "p": delta / met if met else None,
        "interval": list(share_interval(delta, met)) if met else None,
        "jobs_meta": met_meta,
        "failed_meta": meta,
        "p_meta": meta / met_meta,
        "interval_meta": list(share_interval(meta, met_meta)),
    }


def rates(
    labels: pl.DataFrame, job_hosts: pl.DataFrame, new: pl.DataFrame, since: datetime, until: datetime, windows: Windows
) -> list[dict[str, object]]:
    """r_f by Meta's label over large jobs, over all jobs, and rolling over 28 days, in failures per 1,000 host-days.

    new    burn-in intervals (host, start, end), which are left out of host-days and failures of the steady rate
    """
    large = pl.col("gpus").fill_null(0) > windows.large_gpus
    wide = labels.filter(large)
    rows = [
        _rate(f"r_f, jobs of more than {windows.large_gpus} GPUs", wide, job_hosts, new, since, until),
        _rate("r_f, all jobs", labels, job_hosts, new, since, until),
    ]
    start = until - timedelta(days=28)
    while start > since:
        rows.append(_rate("r_f, all jobs, 28 days", labels, job_hosts, new, start, start + timedelta(days=28)))
        start -= timedelta(days=28)
    return rows


def _rate(
    what: str, labels: pl.DataFrame, job_hosts: pl.DataFrame, new: pl.DataFrame, since: datetime, until: datetime
) -> dict[str, object]:
    spans = clip(job_hosts.join(labels.select(KEY), on=KEY, how="semi"), since, until)
    days = _days(spans) - _days(overlap(spans, new))
    inside = labels.filter(pl.col("infra") & (pl.col("end") > since) & (pl.col("end") <= until))
    young = inside.join(job_hosts.select(*KEY, "host"), on=KEY).join(new, on="host", suffix="_new")
    early = young.filter((pl.col("end") >= pl.col("start_new")) & (pl.col("end") < pl.col("end_new"))).select(KEY).unique()
    count = inside.join(early, on=KEY, how="anti").height
    low, high = poisson_interval(count)
    per = 1000.0 / days if days > 0 else None
    return {
        "what": what,
        "since": since.isoformat() + "Z",
        "until": until.isoformat() + "Z",
        "failures": count,
        "unattributed": inside.filter(pl.col("unattributed")).height,
        "host_days": days,
        "per_1000_host_days": count * per if per else None,
        "interval": [low * per, high * per] if per else None,
    }


def _days(spans: pl.DataFrame) -> float:
    return float(spans.select(((pl.col("end") - pl.col("start")).dt.total_microseconds() / 8.64e10).sum()).item() or 0.0)


def mttf_by_size(labels: pl.DataFrame, rate: float | None, now: datetime) -> list[dict[str, object]]:
    """MTTF per power-of-two bucket of GPUs: empirical (run time over failures) beside projected from `rate`; the two need not agree."""
    ran = (pl.col("end").fill_null(now) - pl.col("start")).dt.total_microseconds() / 3.6e9
    known = labels.filter((pl.col("gpus") > 0) & pl.col("start").is_not_null()).with_columns(
        hours=ran.clip(0), bucket=pl.col("gpus").cast(pl.Float64).log(2).ceil().cast(pl.Int64)
    )
    sums = known.group_by("bucket").agg(
        jobs=pl.len(), failures=pl.col("infra").sum(), hours=pl.col("hours").sum(), nodes=pl.col("nodes").mean()
    )
    return [_size_row(row, rate) for row in sums.sort("bucket").iter_rows(named=True)]


def _size_row(row: dict[str, float], rate: float | None) -> dict[str, object]:
    failures, hours, nodes = int(row["failures"]), float(row["hours"]), row["nodes"]
    low, high = poisson_interval(failures)
    return {
        "gpus_up_to": 2 ** int(row["bucket"]),
        "jobs": int(row["jobs"]),
        "failures": failures,
        "run_hours": hours,
        "mttf_empirical_h": hours / failures if failures else None,
        "interval_h": [hours / high, hours / low if low > 0 else None],
        "mttf_projected_h": mttf_h(nodes, rate) if rate and nodes else None,
    }
