"""Text screens of the fleet commands: lemons, stats, spares, project, checkpoint, failover."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triage.moments import span
from triage.screens import cut, height, safe, table, width

SHOWN = 15
FIXED, DETAILS = 10, 3
"""Lines of the lemon screen that are no hosts, and how many of these tell more of the worst."""
WIDE = 100
"""Columns from which on there is room for all."""
STEPS = {"nothing to do": "-", "reset the GPU or reboot, then retest": "retest", "drain and diagnose": "drain"}


def lemons_screen(data: Mapping[str, Any]) -> str:
    """The ranking on one screen of any height: who, how bad for its exposure, what broke, what next."""
    window = data["window"]
    hosts = data["hosts"]
    lemons = [h for h in hosts if h["lemon"]]
    count = "no lemon" if not lemons else "1 lemon" if len(lemons) == 1 else f"{len(lemons)} lemons"
    lines = [f"{count} among {len(hosts):,} hosts, {window['since'][:10]} to {window['until'][:10]} ({window['days']:.0f} days)"]
    telling = [h for h in hosts if h["lemon"] or h["strikes"] or h["why"]]
    if not telling:
        return "\n".join([*lines, "no host broke a job in this window"])
    shown = telling[: max(5, height() - FIXED - (DETAILS if lemons else 0))]
    lines.append("A lemon fails over twice as often as its peers, by the low end of [90 %].")
    wide = width() >= WIDE
    columns = {key: head for key, head in LEMON_COLUMNS.items() if wide or key != "strikes"}
    lines += ["", table([_lemon(h, wide) for h in shown], columns), ""]
    if len(lemons) > len(shown):
        lines.append(f"and {len(lemons) - len(shown)} more lemons: --format json has all")
    if lemons:
        worst = lemons[0]
        lines += [cut(f"{safe(worst['host'])}: {safe(why)}", width()) for why in (worst["why"] or [])[1 : DETAILS + 1]]
    return "\n".join([*lines, cut(_concentration(data["concentration"]), width()), cut(_backtest(data["backtest"]), width())])


LEMON_COLUMNS = {
    "rank": "#",
    "host": "host",
    "mark": "",
    "score": "x peers",
    "rate": "a day [90 %]",
    "strikes": "strikes",
    "next": "next",
    "what": "what broke",
}


def _lemon(host: Mapping[str, Any], wide: bool) -> dict[str, object]:
    return {
        "rank": host["rank"],
        "host": host["host"],
        "mark": "LEMON" if host["lemon"] else "",
        "score": f"{host['score']:.1f}" if host["score"] < 10 else f"{host['score']:.0f}",
        "rate": f"{host['rate']:.2f} [{host['interval'][0]:.2f}, {host['interval'][1]:.2f}]",
        "strikes": host["strikes"],
        "next": STEPS.get(host["next"], host["next"]),
        "what": _broke(host, wide),
    }


def _broke(host: Mapping[str, Any], wide: bool) -> str:
    """`xid.48 x7, one GPU, 5 jobs, in use 4.8 days`; where nothing counts, why not."""
    signals, why = host["signals"], host["why"] or []
    codes = next((line.removeprefix("codes: ") for line in why if line.startswith("codes: ")), None)
    if codes is None:
        return next(iter(why), "")
    parts = [codes.split(", ")[0]]
    if (signals.get("same_device") or 0) > 1 and signals["same_device"] == signals.get("failures"):
        parts.append("one GPU")
    if host.get("jobs"):
        parts.append(f"{len(host['jobs'])} job{'s' if len(host['jobs']) > 1 else ''}")
    if wide:
        parts.append(f"in use {signals.get('exposure_days', 0):.1f} days")
    return ", ".join(parts)


def _concentration(found: Mapping[str, Any]) -> str:
    share, null, p_value = found.get("top10_share"), found.get("null_share"), found.get("p_value")
    if share is None:
        return "Concentration: too few failures to judge."
    return f"The worst 10 % of hosts hold {share:.0%} of failures; by chance {null:.0%} (p = {p_value:.3g})."


def _backtest(found: Mapping[str, Any]) -> str:
    capture, lift, auc = found.get("capture_at_5pct"), found.get("lift"), found.get("auc")
    if capture is None:
        return "Backtest: too little history."
    return (
        f"Backtest: the top 5 % caught {capture:.0%} of next week's failures (lift {lift:.1f}, AUC {auc:.2f})." if auc is not None else ""
    )


_STATS: dict[str, dict[str, str]] = {
    "by_class": {"class": "class", "incidents": "incidents", "jobs": "jobs", "gpu_hours_lost": "GPU-h lost", "share": "of incidents"},
    "by_code": {
        "code": "code",
        "bursts": "bursts",
        "lines": "lines",
        "hosts": "hosts",
        "mtbe_system_h": "MTBE system h",
        "mtbe_host_h": "MTBE host h",
    },
    "bathtub": {"age": "age of hosts", "failures": "failures", "host_days": "host-days", "per_1000_host_days": "per 1,000 host-days"},
    "rates": {
        "what": "rate",
        "failures": "failures",
        "host_days": "host-days",
        "per_1000_host_days": "per 1,000 host-days",
        "interval": "interval",
    },
}


def stats_screen(data: Mapping[str, Any]) -> str:
    """The main figures, a block each."""
    exposure = data["exposure"]
    lines = [
        "Exposure",
        *(f"  {key.replace('_', ' '):28} {_number(value)}" for key, value in exposure.items() if isinstance(value, int | float | str)),
    ]
    for name, columns in _STATS.items():
        rows = [{key: _number(row[key]) for key in columns} for row in data[name][:SHOWN]]
        if rows:
            lines += ["", name.replace("_", " ").capitalize(), table(rows, columns)]
    for name in ("ettr", "availability"):
        if isinstance(data.get(name), Mapping):
            lines += ["", name.upper() if name == "ettr" else name.capitalize(), *_pairs(data[name])]
    return "\n".join(lines)


def _pairs(values: Mapping[str, Any]) -> list[str]:
    return [
        f"  {key.replace('_', ' '):28} {_number(value)}"
        for key, value in values.items()
        if isinstance(value, int | float | str) or value is None
    ]


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    if isinstance(value, list):
        return f"[{', '.join(_number(each) for each in value)}]"
    return "unknown" if value is None else safe(value)


def spares_screen(data: Mapping[str, Any]) -> str:
    """How many by each method, then which hosts and which not."""
    needed = data["needed"]
    lines = []
    if needed:
        inputs = needed[0]["inputs"]
        lines.append(
            f"{inputs['hosts']} hosts, {inputs['rate_per_1000_host_days']:.3g} failures per 1,000 host-days, "
            f"back after {span(inputs['recovery_s'])}:"
        )
        lines.append(
            table(
                [{"method": n["method"], "spares": n["spares"], "share": f"{n['share']:.1%}"} for n in needed],
                {"method": "method", "spares": "spares", "share": "of hosts"},
            )
        )
    if data.get("note"):
        lines.append(data["note"])
    if "candidates" in data:
        lines += ["", "Could stand in:"] + [f"  {safe(c['host'])}: {safe(c['why'])}" for c in data["candidates"]] or []
        if not data["candidates"]:
            lines.append("  none: no source says that a host is idle and healthy (sinfo -N, scontrol show node)")
        lines += (
            ["Avoid:"] + [cut(f"  {safe(a['host'])}: {safe(a['why'])}", width()) for a in data["avoid"][:SHOWN]] if data["avoid"] else []
        )
        lines += _standing(data["standing"])
    return "\n".join(lines)


def _standing(standing: Mapping[str, Any]) -> list[str]:
    """What there is, and a word where so much is out that something else must be wrong."""
    lines = [
        "",
        f"{standing['usable']} of {standing['hosts']} hosts could stand in: idle, healthy, not set aside; {standing['out']} are out.",
    ]
    if standing["breaker"]:
        lines.append(f"Stop: {standing['share_out']:.0%} of the hosts are out. Look for a cause that they share before you take more away.")
    return lines


def checkpoint_screen(data: Mapping[str, Any]) -> str:
    """Interval and waste by method, and where the inputs come from."""
    inputs = data["inputs"]
    origin = data.get("from", {})
    lines = [
        f"  {name.removesuffix('_s'):10} {span(value):10} {origin.get(name, '')}"
        for name, value in inputs.items()
        if isinstance(value, int | float)
    ]
    rows = [
        {
            "method": r["method"],
            "interval": span(r["interval_s"]),
            "waste": f"{r['waste']:.2%}",
            "lost": span(r["expected_loss_s"]),
            "worst": span(r["worst_loss_s"]),
            "most": r["dominates"],
        }
        for r in data["rows"]
    ]
    heads = {"method": "method", "interval": "every", "waste": "waste", "lost": "a failure undoes", "worst": "at worst", "most": "mostly"}
    lines += [table(rows, heads)]
    if data.get("bandwidth"):
        need = data["bandwidth"]
        later = f", {need['durable_gb_s']:.3g} GB/s until it is durable" if need["durable_gb_s"] else ""
        lines.append(f"A save needs {need['blocking_gb_s']:.3g} GB/s while training stands{later}.")
    if data.get("warning"):
        lines.append(f"Careful: {data['warning']}.")
    if data.get("interval_in_use_s"):
        lines.append(f"In use: every {span(data['interval_in_use_s'])}")
    return "\n".join(lines)


def figures_screen(data: Mapping[str, Any]) -> str:
    """Named figures, one a line; a figure that could not be made is left out."""
    shown = {k: v for k, v in data.items() if k not in ("schema", "inputs") and v is not None and not isinstance(v, dict | list)}
    return "\n".join(_figure(key, value) for key, value in shown.items())


def _figure(key: str, value: object) -> str:
    if key.endswith("_s") and isinstance(value, int | float):
        key, value = key.removesuffix("_s"), span(value)
    return f"{key.replace('_', ' '):18} {_number(value)}"
