"""Text screens of the fleet commands: lemons, stats, spares, project, checkpoint, failover."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triage.moments import span
from triage.screens import cut, safe, table, width

SHOWN = 15


def lemons_screen(data: Mapping[str, Any]) -> str:
    """The ranking on one screen: who, how bad for its exposure, why, what next."""
    window = data["window"]
    hosts = data["hosts"]
    lemons = [h for h in hosts if h["lemon"]]
    lines = [f"{window['since'][:10]} to {window['until'][:10]} ({window['days']:.0f} days): {len(lemons)} lemon(s) of {len(hosts)} hosts"]
    shown = [h for h in hosts if h["lemon"] or h["strikes"] or (h["rate"] or 0) > 0][:SHOWN]
    if not shown:
        return "\n".join([*lines, "no host broke a job in this window"])
    rows = [
        {
            "rank": h["rank"], "host": h["host"], "mark": "LEMON" if h["lemon"] else "", "score": f"{h['score']:.1f}x",
            "rate": f"{h['rate']:.3f} [{h['interval'][0]:.3f}, {h['interval'][1]:.3f}]", "strikes": h["strikes"],
            "next": h["next"], "why": (h["why"] or [""])[0],
        }
        for h in shown
    ]  # fmt: skip
    columns = {
        "rank": "#",
        "host": "host",
        "mark": "",
        "score": "score",
        "rate": "failures a day [90 %]",
        "strikes": "strikes",
        "next": "next",
        "why": "why",
    }
    lines += ["", table(rows, columns), ""]
    for host in lemons[:5]:
        lines += [cut(f"{safe(host['host'])}: {safe(why)}", width()) for why in (host["why"] or [])[1:4]]
    lines.append(_concentration(data["concentration"]))
    lines.append(_backtest(data["backtest"]))
    return "\n".join(line for line in lines if line is not None)


def _concentration(found: Mapping[str, Any]) -> str:
    share, null, p_value = found.get("top10_share"), found.get("null_share"), found.get("p_value")
    if share is None:
        return "Concentration: too few failures to judge."
    return f"Concentration: the worst 10 % of hosts hold {share:.0%} of failures; chance alone gives {null:.0%} (p = {p_value:.3g})."


def _backtest(found: Mapping[str, Any]) -> str:
    capture, lift, auc = found.get("capture_at_5pct"), found.get("lift"), found.get("auc")
    if capture is None:
        return "Backtest: too little history."
    return (
        f"Backtest: the top 5 % caught {capture:.0%} of the next week's failures (lift {lift:.1f}, AUC {auc:.2f})."
        if auc is not None
        else ""
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
        lines += ["Avoid:"] + [f"  {safe(a['host'])}: {safe(a['why'])}" for a in data["avoid"][:SHOWN]] if data["avoid"] else []
    return "\n".join(lines)


def checkpoint_screen(data: Mapping[str, Any]) -> str:
    """Interval and waste by method, and where the inputs come from."""
    inputs = data["inputs"]
    origin = data.get("from", {})
    lines = [
        f"  {name.removesuffix('_s'):10} {span(value):10} {origin.get(name, '')}"
        for name, value in inputs.items()
        if isinstance(value, int | float)
    ]
    rows = [{"method": r["method"], "interval": span(r["interval_s"]), "waste": f"{r['waste']:.2%}"} for r in data["rows"]]
    lines += [table(rows, {"method": "method", "interval": "every", "waste": "waste"})]
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
