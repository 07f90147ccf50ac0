"""Drill plots of the network and of hangs: links, switches, timeouts, flight records and lost peers (T12-T14)."""

from __future__ import annotations

import json
import pickle

from triage import drill_lines as say
from triage.drill_plots import COLLECT, SURE, TAKE_HOST, blameless, failed, faulted, noise, opening, plot, records
from triage.drill_scene import Scene, hostlist
from triage.drill_truth import Case

OPEN = ["unknown", "user", "system_software", "gpu", "network", "host"]


def _fault(s: Scene) -> float:
    fault = s.start + (s.end - s.start) * s.rng.uniform(0.4, 0.85)
    opening(s, fault)
    return fault


@plot
def link_flaps(s: Scene) -> Case:
    host, fault = s.rng.choice(s.hosts), _fault(s)
    port = s.rng.choice(
        (
            "mlx5_core 0000:5e:00.0 mlx5_3: Port: 1 Link {}",
            "mlx5_core 0000:5e:00.0 ibs3: Link {}",
            "mlx5_core 0000:5e:00.0 enp94s0f0np0: Link {}",
        )
    )
    down, up = ("DOWN", "ACTIVE") if "Port" in port else ("down", "up")
    for n in range(3):
        s.log(host, fault - 190 + 90 * n, port.format(down))
        s.log(host, fault - 183 + 90 * n, port.format(up))
    s.log(host, fault, port.format(down))
    say.completions(s, f"10.21.9.{s.hosts.index(host) + 1}", s.others(host)[:4])
    say.completions(s, f"10.21.9.{s.hosts.index(host) + 1}", s.others(host)[:2], 5)
    s.end = fault + 40
    failed(s)
    noise(s, fault, host)
    return Case(
        "",
        "A port flaps; its peers print completion errors",
        f"The port of {host} flapped.",
        faulted(s, host, ["T12"], layer=["network"], action=["escalate_network", "isolate_now", "restart_on_spares"]),
    )


@plot
def link_stays_down(s: Scene) -> Case:
    host, fault = s.rng.choice(s.hosts), _fault(s)
    s.log(
        host,
        fault,
        "mlx5_core 0000:5e:00.0: Port module event: module 0, Cable unplugged",
        "mlx5_core 0000:5e:00.0 mlx5_3: Port: 1 Link DOWN",
    )
    s.end = say.timeouts(s, fault + 1, 600000) + 20
    failed(s)
    noise(s, fault, host)
    return Case(
        "",
        "A link goes down for good; every rank times out ten minutes later",
        f"A port of {host} lost its cable.",
        faulted(s, host, ["T12"], layer=["network"], action=["escalate_network", "isolate_now", "restart_on_spares"]),
    )


@plot
def leaf_switch_restarts(s: Scene) -> Case:
    s.hosts, s.spares = s.hosts if len(s.hosts) > 3 else [*s.hosts, *s.spares][:4], s.spares
    fault = _fault(s)
    under = s.hosts[:-1]
    for n, host in enumerate(under):
        for port in range(2):
            s.log(host, fault + n / 9, f"mlx5_core 0000:5e:00.{port} mlx5_{port}: Port: 1 Link DOWN")
            s.log(host, fault + 95 + n / 9, f"mlx5_core 0000:5e:00.{port} mlx5_{port}: Port: 1 Link ACTIVE")
    say.completions(s, "10.21.9.1", s.hosts[1:4])
    s.end = fault + 30
    failed(s)
    s.extra["topology.conf"] = (
        f"SwitchName=leaf7 Nodes={hostlist(under)}\nSwitchName=leaf8 Nodes={s.hosts[-1]}\nSwitchName=spine1 Switches=leaf[7-8]\n"
    )
    return Case(
        "",
        "A leaf switch restarts",
        "All hosts of one leaf lost their ports at once: the switch, not the hosts.",
        blameless(s, ["T12"], layer=["network"], action=["escalate_network"], confidence=SURE),
    )


@plot
def completions_without_a_link_event(s: Scene) -> Case:
    fault = _fault(s)
    say.completions(s, "10.21.9.77", s.hosts)
    s.end = fault + 30
    failed(s)
    return Case(
        "",
        "Completion errors, and no host saw a link event",
        "Retries ran out towards one address; which port or switch it was is not in these files.",
        blameless(
            s, ["T12", "T14"], layer=["network", "unknown"], action=["escalate_network", *COLLECT], confidence=["possible", "insufficient"]
        ),
    )


@plot
def slower_after_a_link_loss(s: Scene) -> Case:
    host = s.rng.choice(s.hosts)
    fault = s.end - 900
    say.init(s, 4)
    say.steps(s, fault, 14, 3300)
    s.log(host, fault, "mlx5_core 0000:5e:00.0 mlx5_3: Port: 1 Link DOWN")
    say.steps(s, s.end, 20, 5100)
    s.book("RUNNING")
    s.quiet(lines=2)
    return Case(
        "",
        "Half as fast since a link went down",
        f"A port of {host} went down; the library routes around it and each step is 50 % longer.",
        faulted(
            s,
            host,
            ["T12", "T22"],
            layer=["network"],
            manifestation=["fail_slow"],
            action=["escalate_network", "isolate_now", "drain_at_job_end", "restart_on_spares", "monitor"],
            confidence=["confirmed", "probable", "possible"],
            gpu_hours=None,
            victims_any=None,
        ),
    )


@plot
def same_timeout_everywhere(s: Scene) -> Case:
    fault = _fault(s)
    s.end = say.timeouts(s, fault, s.rng.choice((600000, 1800000))) + 30
    say.torchrun(s, s.end - 8, s.rng.randrange(len(s.hosts) * 8), [(1, -6)], -6)
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "Every rank reports the same timeout; nothing else",
        "A symptom: user code, system software and hardware stay open.",
        blameless(
            s,
            ["T13"],
            layer=["unknown"],
            manifestation=["fail_hang"],
            confidence=["insufficient"],
            action=["hold_and_collect", "restart_job"],
            missing_any=["flight", "py-spy", "stack", "trace", "dump"],
        ),
    )


@plot
def one_rank_missing_from_the_timeouts(s: Scene) -> Case:
    fault = _fault(s)
    rank = s.rng.randrange(len(s.hosts) * 8)
    s.end = say.timeouts(s, fault, missing=[rank]) + 30
    blamed = 0 if rank else 1
    say.torchrun(s, s.end - 8, blamed, [(2 if rank != 2 else 3, -6)], -6)
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "One rank is silent while the others time out; torchrun blames another",
        f"Rank {rank} never printed; torchrun names rank {blamed} because it exited first.",
        blameless(s, ["T13"], manifestation=["fail_hang"], ranks=[rank], confidence=["possible", "insufficient"], action=COLLECT),
    )


def _entry(number: int, state: str, created: float, seq: int) -> dict[str, object]:
    done = int((created + 0.2) * 1e9) if state == "completed" else None
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": ["0", "default_pg"],
        "thread_name": "python3",
        "thread_id": "7",
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": int(created * 1e9),
        "input_sizes": [[8192, 16]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[8192, 16]],
        "output_dtypes": ["BFloat16"],
        "state": state,
        "time_discovered_started_ns": None if state == "scheduled" else int((created + 0.001) * 1e9),
        "time_discovered_completed_ns": done,
        "retired": state == "completed",
        "timeout_ms": 600000,
        "is_p2p": False,
        "frames": [
            {"name": "all_reduce", "filename": "/opt/py/torch/distributed/distributed_c10d.py", "line": 2501},
            {"name": "train_step", "filename": "/srv/job/pretrain.py", "line": 214},
        ],
    }


def _dump(world: int, entries: list[dict[str, object]], last: int, completed: int) -> dict[str, object]:
    return {
        "version": "2.9",
        "nccl_version": "2.21.5",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(world)))}},
        "pg_status": {"0": {"last_enqueued_collective": last, "last_started_collective": last, "last_completed_collective": completed}},
        "entries": entries,
    }


def _dumps(s: Scene, rows: dict[int, dict[str, object]]) -> None:
    as_json = s.rng.random() < 0.5
    for rank, dump in rows.items():
        name = f"{s.hosts[rank // s.gpus]}_rank_{rank}" if s.rng.random() < 0.5 else f"nccl_trace_rank_{rank}"
        s.extra[name + (".json" if as_json else "")] = json.dumps(dump) if as_json else pickle.dumps(dump, protocol=2)


@plot
def flight_rank_behind(s: Scene) -> Case:
    s.hosts = s.hosts[:2]
    fault = _fault(s)
    rank, world, seq = s.rng.randrange(16), 16, s.rng.randint(100, 4000)
    rows: dict[int, dict[str, object]] = {}
    for n in range(world):
        entries = [_entry(k, "completed", fault - 3 + k / 2, seq - 4 + k) for k in range(4)]
        if n != rank:
            entries.append(_entry(4, "started", fault, seq))
        rows[n] = _dump(world, entries, seq if n != rank else seq - 1, seq - 1)
    if s.rng.random() < 0.4:
        del rows[rank]
    _dumps(s, rows)
    s.end = say.timeouts(s, fault, missing=[rank], seq=seq) + 25
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "Flight records: one rank never entered the collective",
        f"Rank {rank} did not enter collective {seq}.",
        blameless(
            s,
            ["T13", "T20"],
            manifestation=["fail_hang"],
            ranks=[rank],
            confidence=["possible", "insufficient"],
            action=[*COLLECT, "fix_and_resubmit"],
        ),
    )


@plot
def flight_slow_rank(s: Scene) -> Case:
    s.hosts = s.hosts[:2]
    rank, world = s.rng.randrange(16), 16
    begin = s.end - 60
    rows = {}
    for n in range(world):
        late = 1.3 if n == rank else 0.0
        rows[n] = _dump(
            world, [_entry(k, "completed", begin + 2.0 * k + late + s.rng.uniform(0, 0.02), 500 + k) for k in range(8)], 507, 507
        )
    _dumps(s, rows)
    say.init(s)
    say.steps(s, s.end, 14, 2000)
    s.book("RUNNING")
    s.quiet(lines=2)
    return Case(
        "",
        "One rank enters every collective late",
        f"Rank {rank} is 1.3 s late each step.",
        blameless(
            s, ["T22"], no_culprit=None, healthy_hosts=[s.hosts[1 - rank // 8]], manifestation=["fail_slow"], ranks=[rank], gpu_hours=None
        ),
    )


@plot
def hang_cancelled_by_its_user(s: Scene) -> Case:
    fault = _fault(s)
    s.end = fault + s.rng.randint(3000, 7000)
    say.heartbeat(s, fault + 900, s.rng.randrange(8))
    say.heartbeat(s, fault + 900, 8)
    say.step_killed(s, s.end)
    s.book("CANCELLED by 3021", "0:0")
    say.allocated(s)
    s.controller.append((s.end, f"_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId={s.job} uid 3021"))
    s.quiet()
    return Case(
        "",
        "A user cancels a job that has hung for an hour",
        "The job hung; the cancel is only how it ended.",
        blameless(s, ["T13"], manifestation=["fail_hang"], confidence=["insufficient", "possible"], action=COLLECT),
    )


@plot
def hang_until_the_time_limit(s: Scene) -> Case:
    fault = _fault(s)
    say.timeouts(s, fault, 1800000, ranks=range(6))
    s.end = fault + 9000
    say.step_killed(s, s.end, " DUE TO TIME LIMIT")
    s.book("TIMEOUT", "0:0")
    s.quiet()
    return Case(
        "",
        "A hang that lasts until the time limit",
        "The steps stopped hours before the limit; the limit is only how it ended.",
        blameless(s, ["T13"], manifestation=["fail_hang"], confidence=["insufficient", "possible"], action=COLLECT),
    )


@plot
def lost_gpu_then_user_cancel(s: Scene) -> Case:
    host, k, fault = s.rng.choice(s.hosts), s.rng.randrange(8), _fault(s)
    s.log(host, fault, say.xid(s.device(k), 79, say.OFF_BUS))
    s.end = fault + s.rng.randint(500, 1500)
    say.step_killed(s, s.end)
    s.book("CANCELLED by 3021", "0:0")
    s.quiet()
    return Case(
        "",
        "A GPU is lost, the job hangs, the user cancels it before any timeout",
        f"{s.device(k)} of {host} fell off the bus; the cancel is the outcome.",
        faulted(s, host, ["T04"], devices=[s.device(k)], layer=["gpu", "host"]),
    )


@plot
def refused_by_one_peer(s: Scene) -> Case:
    silent = s.rng.choice(s.hosts)
    s.end = s.start + 70
    for host in s.others(silent):
        s.out.append(
            f"{host}:30100:30700 [0] include/socket.h:403 NCCL WARN Connect to "
            f"{silent}<{50000 + s.rng.randint(0, 999)}> failed : Connection refused"
        )
        s.out.append(
            f"[rank{s.rank(host)}]: RuntimeError: NCCL error in: "
            "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, unhandled system error (run with "
            "NCCL_DEBUG=INFO for details), NCCL version 2.21.5"
        )
    s.book("FAILED", "1:0")
    s.quiet(s.others(silent))
    return Case(
        "",
        "One peer refuses every connection and printed nothing",
        f"The refused connections are fall-out; look at {silent} first.",
        blameless(
            s,
            ["T14", "T24", "T21"],
            manifestation=["fail_on_start", "fail_stop"],
            confidence=["insufficient"],
            action=COLLECT,
            healthy_hosts=s.others(silent),
            missing_any=[silent, "kernel", "dmesg"],
            victims_any=s.others(silent),
        ),
    )


@plot
def peer_reset_without_a_cause(s: Scene) -> Case:
    fault = _fault(s)
    gone = s.rng.choice(s.hosts)
    say.peer_closed(s, gone, s.others(gone))
    s.end = fault + 14
    say.step_killed(s, s.end - 1)
    records(s, "FAILED")
    s.quiet(s.others(gone))
    return Case(
        "",
        "All hosts lose the connection to one host; its log is missing",
        f"{gone} closed its connections; why is not in these files.",
        blameless(
            s,
            ["T14", "T24"],
            healthy_hosts=s.others(gone),
            confidence=["insufficient", "possible"],
            action=COLLECT,
            missing_any=[gone, "kernel", "dmesg"],
        ),
    )


@plot
def lost_gpu_seen_through_a_wrong_root(s: Scene) -> Case:
    host, k, fault = s.rng.choice(s.hosts), s.rng.randrange(8), _fault(s)
    s.log(host, fault, say.xid(s.device(k), 79, say.OFF_BUS))
    missing = s.rank(host, k)
    s.end = say.timeouts(s, fault + 1, missing=[missing]) + 20
    blamed = s.rank(s.others(host)[0], 0)
    say.torchrun(s, s.end - 6, blamed, [(blamed + 1, -6), (blamed + 2, -6)], -6)
    records(s, "FAILED")
    s.quiet()
    noise(s, fault, host)
    return Case(
        "",
        "torchrun names a healthy rank as the root; the kernel knows better",
        f"{s.device(k)} of {host} fell off the bus.",
        faulted(s, host, ["T04"], devices=[s.device(k)], action=TAKE_HOST),
    )
