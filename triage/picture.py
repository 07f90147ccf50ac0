"""Timeline and fleet of a report as one PNG or SVG, drawn without a browser: for chats, tickets and slides.

Texts of logs are drawn as shapes, never as markup or formulas.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from triage.escape import clean
from triage.moments import DAY, parse_time, shown
from triage.page import PARTS, racks
from triage.timeline import NO_HOST

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURES = ("svg", "png")
MOST_LANES, MOST_CELLS, CELLS_A_ROW, RACKS_A_ROW = 40, 1200, 8, 6
WIDTH, LANE, ROW, DPI = 13.0, 0.22, 0.3, 110
"""Inches, and dots an inch."""
INK, SOFT, LINE, JOB, JOB_OTHER, STATE, WAIT = "#15181d", "#525a66", "#d5dae1", "#cfe0f0", "#e6e9ed", "#b9bfc8", "#0067a5"
MARKS = {
    "root": ("D", "#b84a00"), "operator": ("v", "#00795a"), "precursor": ("^", "#a8487f"), "cascade": (">", "#a87400"),
    "fact": ("p", "#6b7280"), "symptom": ("o", "#0067a5"), "teardown": ("s", "#8a93a0"), "outcome": ("s", "#3d4450"),
    "recovery": ("d", "#2a8ac0"),
}  # fmt: skip
"""Marker and colour of a role, as on the page."""
CELLS = {"culprit": "#b84a00", "suspect": "#a8487f", "quiet": JOB, "no_log": "#ffffff", "other": "#ffffff"}

Report = Mapping[str, Any]


def picture(report: Report, fmt: str) -> bytes:
    """The picture as a file of PNG or SVG; the same report gives the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    blocks = racks(report["fleet"][:MOST_CELLS])
    lanes = report["timeline"]["lanes"][:MOST_LANES] if report["timeline"] else []
    heights = [LANE * len(lanes) + 0.9] * bool(lanes) + [ROW * _depth(blocks) + 0.5] * bool(blocks)
    with matplotlib.rc_context({"font.size": 8, "svg.hashsalt": "triage", "text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a character that the font lacks is drawn as a box
        figure = Figure(figsize=(WIDTH, sum(heights) + 0.7), dpi=DPI, layout="constrained")
        verdict = report["verdict"]
        figure.suptitle(_title(clean(verdict["summary"], 150), verdict), x=0.01, ha="left", fontsize=11, color=INK)
        _draw(figure, heights, report, lanes, blocks)
        held = io.BytesIO()
        figure.savefig(held, format=fmt, metadata={"Date": None} if fmt == "svg" else {"Software": None})
    return held.getvalue()


def _title(summary: str, verdict: Mapping[str, Any]) -> str:
    begin = f"; began {shown(verdict['start'])} UTC" if verdict["start"] else ""
    return f"{summary}\n{verdict['confidence']}; {verdict['action'].replace('_', ' ')}{begin}"


def _draw(figure: Figure, heights: Sequence[float], report: Report, lanes: Sequence[str], blocks: Sequence[Mapping[str, Any]]) -> None:
    """The parts that there are, one below the other."""
    if not heights:
        return
    parts = list(figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
    for axes in parts:
        for side in axes.spines.values():
            side.set_visible(False)
    if lanes:
        _timeline(parts[0], report["timeline"], lanes)
    if blocks:
        _fleet(parts[-1], blocks)


def _days(ts: str) -> float:
    """Days since 1970, as the axis counts."""
    return parse_time(ts) / DAY


def _timeline(axes: Axes, timeline: Mapping[str, Any], lanes: Sequence[str]) -> None:
    """Hosts as lanes: jobs and host states as bars, waiting as lines, events as marks."""
    from matplotlib.dates import ConciseDateFormatter

    low, high = _days(timeline["from"]), _days(timeline["to"])
    places = {host: place for place, host in enumerate(lanes)}
    for bars, depth, above in ((timeline["jobs"], 0.72, 0.0), (timeline["states"], 0.16, 0.3)):
        for bar in (b for b in bars if b["host"] in places):
            start = max(low, _days(bar["start"])) if bar["start"] else low
            end = min(high, _days(bar["end"])) if bar["end"] else high
            colour = STATE if above else JOB if bar["own"] else JOB_OTHER
            axes.barh(places[bar["host"]] + above, end - start, left=start, height=depth, color=colour, zorder=1)
    _events(axes, [e for e in timeline["events"] if e["ts"] and (e["host"] or NO_HOST) in places], places)
    for ts in filter(None, timeline["focus"]):
        axes.axvline(_days(ts), color=SOFT, linewidth=0.8, linestyle="--", zorder=2)
    axes.set_xlim(low, high)
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.set_yticks(range(len(lanes)), [clean(host)[:40] for host in lanes], color=INK)
    axes.xaxis_date()
    axes.xaxis.set_major_formatter(ConciseDateFormatter(axes.xaxis.get_major_locator()))  # type: ignore[no-untyped-call]
    axes.tick_params(length=0, colors=INK)
    axes.grid(axis="x", color=LINE, linewidth=0.6, zorder=0)
    more = len(timeline["lanes"]) - len(lanes)
    axes.set_xlabel(f"UTC{f'; {more} more hosts are not drawn' if more > 0 else ''}", color=SOFT, loc="left")


def _events(axes: Axes, events: Sequence[Mapping[str, Any]], places: Mapping[str, int]) -> None:
    for role, (marker, colour) in MARKS.items():
        mine = [e for e in events if e["role"] == role]
        if not mine:
            continue
        rows = [places[e["host"] or NO_HOST] for e in mine]
        times = [_days(e["ts"]) for e in mine]
        begins = [_days(e["begin"] or e["ts"]) for e in mine]
        axes.hlines(rows, begins, times, color=WAIT, linewidth=1.4, zorder=3)
        size, over = (46, 6) if role == "root" else (26, 5)
        axes.scatter(times, rows, s=size, marker=marker, color=colour, edgecolors="white", linewidths=0.6, zorder=over, label=role)
    if events:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(MARKS), frameon=False, handletextpad=0.2)


def _depth(blocks: Sequence[Mapping[str, Any]]) -> int:
    """Rows of cells, with one for the name of each rack."""
    rows = (blocks[at : at + RACKS_A_ROW] for at in range(0, len(blocks), RACKS_A_ROW))
    return sum(1 + max(-(-len(block["hosts"]) // CELLS_A_ROW) for block in row) for row in rows)


def _fleet(axes: Axes, blocks: Sequence[Mapping[str, Any]]) -> None:
    """Racks of cells, eight a row; the letter says the part, also without colour."""
    top = 0
    for at in range(0, len(blocks), RACKS_A_ROW):
        row = blocks[at : at + RACKS_A_ROW]
        for place, block in enumerate(row):
            left = place * (CELLS_A_ROW + 1.0)
            axes.text(left, top + 0.7, clean(block["name"] or "no rack known")[:22], color=SOFT, fontweight="bold")
            for n, host in enumerate(block["hosts"]):
                _cell(axes, left + n % CELLS_A_ROW, top + 1 + n // CELLS_A_ROW, host)
        top += 1 + max(-(-len(block["hosts"]) // CELLS_A_ROW) for block in row)
    axes.set_xlim(-0.2, RACKS_A_ROW * (CELLS_A_ROW + 1))
    axes.set_ylim(top + 0.7, 0)
    axes.set_xticks([])
    axes.set_yticks([])
    used = {host["part_class"] for block in blocks for host in block["hosts"]}
    words = [f"{letter or 'blank'} {said}" for name, letter, said in PARTS if name in used]
    axes.set_xlabel("; ".join([*words, "bold edge: ran the job"]), color=SOFT, loc="left")


def _cell(axes: Axes, left: float, top: float, host: Mapping[str, Any]) -> None:
    from matplotlib.patches import Rectangle

    fill = CELLS.get(host["part_class"]) or MARKS[host["part_class"]][1]
    light = fill in (JOB, "#ffffff")
    edge, width = (SOFT, 1.3) if host["in_job"] else (LINE, 0.7)
    axes.add_patch(Rectangle((left, top), 0.86, 0.84, facecolor=fill, edgecolor=edge, linewidth=width))
    axes.text(left + 0.43, top + 0.45, host["letter"], ha="center", va="center", fontsize=7, color=INK if light else "white")
