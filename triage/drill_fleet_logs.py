"""A synthetic fleet as the logs that it would have left: accounting, node events, controller, kernels, job output, inventory.

Only what a line could tell is written; the truth stands beside it in `truth.json`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from triage.drill_lines import xid
from triage.drill_scene import hostlist
from triage.drills_fleet import START, Fleet

XIDS = {
    13: "Graphics SM Warp Exception on (GPC 2, TPC 6, SM 1): Illegal Instruction Encoding",
    31: "Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_2 faulted @ 0x7f21_d4a00000. "
    "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
    48: "DBE (double bit error) ECC Error",
    63: "Row Remapper: New row (0x0000000a4c01be80) marked for remapping, reset gpu to activate.",
    74: "NVLink: fatal error detected on link 11(0x0, 0x0, 0x200000, 0x0, 0x0, 0x0, 0x0)",
    79: "GPU has fallen off the bus.",
    95: "Uncontained: FBHUB (0x4). RST: Yes, D-RST: No",
    119: "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20800a4c 0x4).",
}
ROUTINE = "workqueue: drm_fb_helper_damage_work hogged CPU for >10000us 8 times, consider switching to WQ_UNBOUND"
LINK_DOWN = "mlx5_core 0000:1a:00.0 mlx5_1: Port: 1 Link DOWN"
MOST_LINES = 2000
"""Lines of a flood: the text need not be as long as the flood was."""
STEPS_PER_SAVE = 1000
STEP_S = 3.6
HUNG = timedelta(minutes=10)

Row = Mapping[str, Any]


def write(fleet: Fleet, folder: Path) -> None:
    """Write `logs/` and `truth.json` under a folder; equal fleets give equal bytes."""
    logs = folder / "logs"
    for part in ("kernel", "output"):
        (logs / part).mkdir(parents=True)
    files = {"sacct.txt": _accounting(fleet), "sacctmgr-events.txt": _node_events(fleet), "slurmctld.log": _controller(fleet)}
    files |= {"sinfo.txt": _snapshot(fleet), "inventory.csv": _inventory(fleet)}
    files |= {f"kernel/{host}.kern.log": text for host, text in _kernels(fleet).items()}
    files |= {f"output/slurm-{job}.out": text for job, text in _outputs(fleet).items()}
    for name, text in files.items():
        (logs / name).write_text(text, encoding="utf-8")
    truth = {"now": fleet.now.isoformat() + "Z", "hosts": fleet.truth.to_dicts(), "broken": fleet.broken.to_dicts()}
    (folder / "truth.json").write_text(json.dumps(truth, indent=1, default=lambda at: f"{at.isoformat()}Z") + "\n", encoding="utf-8")


def _second(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S") if at is not None else "Unknown"


def _lines(rows: Iterable[str]) -> str:
    return "\n".join(rows) + "\n"


def _hosts_of(fleet: Fleet) -> dict[tuple[str, int], list[str]]:
    grouped = fleet.frames["job_hosts"].group_by("job_id", "attempt", maintain_order=True).agg("host")
    return {(job, attempt): hosts for job, attempt, hosts in grouped.iter_rows()}


def _accounting(fleet: Fleet) -> str:
    """`sacct -D -P` of all users; the submit line keeps what users excluded."""
    hosts = _hosts_of(fleet)
    spared = dict(fleet.exclusions.group_by("job_id").agg(pl.col("host").unique().sort()).iter_rows())
    rows = ["JobID|JobName|User|Partition|State|Submit|Start|End|NNodes|NodeList|AllocTRES|ExitCode|SubmitLine"]
    for job in fleet.frames["jobs"].sort("start", "job_id").iter_rows(named=True):
        code = "1:0" if job["state"] == "FAILED" else "0:0"
        left_out = f"-x {','.join(spared[job['job_id']])} " if job["job_id"] in spared else ""
        rows.append(
            f"{job['job_id']}|{job['name']}|{job['user']}|train|{job['state']}|{_second(job['submit'])}|{_second(job['start'])}|"
            f"{_second(job['end'])}|{job['nodes']}|{hostlist(hosts[job['job_id'], job['attempt']])}|"
            f"billing={job['nodes']},cpu={96 * job['nodes']},gres/gpu={job['gpus']},node={job['nodes']}|{code}|sbatch {left_out}train.sh"
        )
    return _lines(rows)


def _node_events(fleet: Fleet) -> str:
    """`sacctmgr show event -P`."""
    rows = ["Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User"]
    for state in fleet.frames["host_states"].sort("start", "host").iter_rows(named=True):
        end = state["end"] if state["end"] <= fleet.now else None
        if state["start"] <= fleet.now:
            who = "slurm(64030)" if state["user"] == "slurm" else f"{state['user']}(1001)"
            word = {"down": "DOWN*" if state["user"] == "slurm" else "DOWN"}.get(state["state"], "DRAIN")
            rows.append(f"cluster|{state['host']}|{_second(state['start'])}|{_second(end)}|{word}|{state['reason']}|{who}")
    return _lines(rows)


def _controller(fleet: Fleet) -> str:
    """slurmctld's lines of lost hosts and of the jobs that went with them."""
    lost = fleet.frames["host_states"].filter(pl.col("user") == "slurm").group_by("start", maintain_order=True).agg("host")
    rows = [(at, f"error: Nodes {hostlist(hosts)} not responding, setting DOWN") for at, hosts in lost.iter_rows()]
    failed = fleet.frames["findings"].filter(pl.col("code") == "slurm.node_fail").join(fleet.frames["incidents"], on="incident_id")
    for row in failed.filter(pl.col("place") == 1).iter_rows(named=True):
        rows.append((row["ts"], f"requeue job JobId={row['job_id']} due to failure of node {row['host']}"))
    return _lines(f"[{at.isoformat(timespec='milliseconds')}] {text}" for at, text in sorted(rows))


def _snapshot(fleet: Fleet) -> str:
    """`sinfo` at the end."""
    held = set(fleet.frames["jobs"].filter(pl.col("end").is_null()).join(fleet.frames["job_hosts"], on=["job_id", "attempt"])["host"])
    away = fleet.frames["host_states"].filter((pl.col("start") <= fleet.now) & (pl.col("end") > fleet.now))
    word = dict.fromkeys(fleet.frames["hosts"]["host"], "idle") | dict(away.select("host", "state").iter_rows())
    word |= {host: "drng" if word[host] == "drain" else "alloc" for host in held}
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for host, state in word.items():
        groups[state].append(host)
    head = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST"
    return _lines([head, *(f"train*       up   infinite {len(names):6d} {state:>6s} {hostlist(names)}" for state, names in groups.items())])


def _inventory(fleet: Fleet) -> str:
    rows = fleet.frames["hosts"].select("host", "rack", "leaf", "gpus").iter_rows()
    return _lines(["host,rack,leaf_switch,gpu_model,gpus", *(f"{host},{rack},{leaf},H100,{gpus}" for host, rack, leaf, gpus in rows)])


def _kernels(fleet: Fleet) -> dict[str, str]:
    """Kernel logs: what bursts say, and a line of routine each day, so that silence can be read."""
    seen: defaultdict[str, list[tuple[datetime, str]]] = defaultdict(list)
    days = (fleet.now - START).days
    first = dict(fleet.frames["job_hosts"].group_by("host").agg(pl.col("start").min()).iter_rows())
    for host in fleet.frames["hosts"]["host"]:
        since = first.get(host, START) - timedelta(hours=1)
        seen[host] += [(at, ROUTINE) for n in range(days) if (at := START + timedelta(days=n, hours=6)) > since]
        seen[host] += [(since, ROUTINE), (fleet.now - timedelta(seconds=1), ROUTINE)]
    for burst in fleet.frames["bursts"].filter(pl.col("first") < fleet.now).iter_rows(named=True):
        text = _kernel_line(burst)
        # the kernel speaks two seconds before the scheduler ends the job
        at = burst["first"] - timedelta(seconds=2)
        if text:
            seen[burst["host"]] += [(at + timedelta(microseconds=90 * n), text) for n in range(min(MOST_LINES, burst["count"]))]
    return {
        host: _lines(f"{at.isoformat(timespec='microseconds')}+00:00 {host} kernel: {text}" for at, text in sorted(rows))
        for host, rows in seen.items()
    }


def _kernel_line(burst: Row) -> str | None:
    code = str(burst["code"])
    if code == "ib.link_down":
        return LINK_DOWN
    if not code.startswith("xid."):
        return None
    number = int(code.removeprefix("xid."))
    return xid(burst["device"], number, XIDS[number], 30100, "python3")


def _outputs(fleet: Fleet) -> dict[str, str]:
    """Output of each job that broke: a line of training and a checkpoint at every save, up to its end or to the hang."""
    rows: defaultdict[str, list[str]] = defaultdict(list)
    for row in fleet.broken.sort("start").iter_rows(named=True):
        rows[row["job_id"]] += _attempt(row)
    return {job: _lines(text) for job, text in rows.items()}


def _attempt(row: Row) -> Iterable[str]:
    stop = row["end"] - HUNG if row["cause"] == "hang" else row["end"] - timedelta(seconds=4)
    at, done = row["start"] + timedelta(minutes=4), 0
    saved = row["saved"]
    moments = [at, *_saves(row["start"], saved), stop]
    for at in moments:
        if not row["start"] < at <= stop:
            continue
        done += STEPS_PER_SAVE
        yield (
            f" [{at.strftime('%Y-%m-%d %H:%M:%S')}] iteration {done:8d}/  400000 | consumed samples: {done * 512:12d} | elapsed time per "
            f"iteration (ms): {STEP_S * 1000:.1f} | learning rate: 3.000000E-04 | global batch size:   512 | lm loss: 2.200000E+00 | "
            "loss scale: 1.0 | grad norm: 0.284 | number of skipped iterations:   0 | number of nan iterations:   0 |"
        )
        if saved is not None and at in moments[1:-1]:
            yield f"  successfully saved checkpoint from iteration {done:7d} to /scratch/run/ckpt [ t 1/2, p 1/1 ]"
    if row["cause"] == "hang":
        yield from _timeouts(row)


def _saves(start: datetime, saved: datetime | None) -> list[datetime]:
    hours = round((saved - start) / timedelta(hours=1)) if saved is not None else 0
    return [start + timedelta(hours=n) for n in range(1, hours + 1)]


def _timeouts(row: Row) -> Iterable[str]:
    at: datetime = row["end"] - timedelta(seconds=3)
    for rank in range(row["gpus"]):
        yield (
            f"[rank{rank}]:[E{at.strftime('%m%d %H:%M:%S')}.{at.microsecond:06d}000 ProcessGroupNCCL.cpp:632] [Rank {rank}] "
            "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=24481, OpType=ALLREDUCE, NumelIn=6291456, NumelOut=6291456, "
            f"Timeout(ms)=600000) ran for {600_020 + rank} milliseconds before timing out."
        )
