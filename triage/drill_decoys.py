"""Drill plots with decoys: stale records, healed blips, other people's faults, and shapes that hide the time or the job."""

from __future__ import annotations

from triage import drill_lines as say
from triage.drill_host import sel
from triage.drill_plots import COLLECT, MEND, SURE, blameless, faulted, noise, opening, plot, records
from triage.drill_scene import Attempt, Scene, plain, stamp
from triage.drill_truth import Case


def _fault(s: Scene) -> float:
    fault = s.start + (s.end - s.start) * s.rng.uniform(0.4, 0.85)
    opening(s, fault)
    return fault


def _gone(s: Scene, fault: float) -> tuple[str, str]:
    """A GPU falls off the bus and the others time out; returns host and device."""
    host, k = s.rng.choice(s.hosts), s.rng.randrange(8)
    s.log(host, fault, say.xid(s.device(k), 79, say.OFF_BUS))
    s.end = say.timeouts(s, fault + 1, missing=[s.rank(host, k)]) + 20
    return host, s.device(k)


def _sold(s: Scene, title: str, truth: str, host: str, device: str, args: tuple[str, ...] = ()) -> Case:
    return Case("", title, truth, faulted(s, host, ["T04"], devices=[device], layer=["gpu", "host"]), args)


@plot
def stale_event_log_of_a_healthy_host(s: Scene) -> Case:
    fault = _fault(s)
    host, device = _gone(s, fault)
    other = s.rng.choice(s.others(host))
    old = fault - 40 * 86400
    s.extra[f"{other}.sel.txt"] = sel(
        [
            (old, "Power Supply #0x61 | Power Supply AC lost | Asserted"),
            (old + 2, "Power Unit #0x01 | Power off/down | Asserted"),
            (old + 500, "Memory #0x53 | Correctable ECC | Asserted"),
        ]
    )
    records(s, "FAILED")
    s.quiet()
    return _sold(
        s,
        "A BMC log with entries of last month beside a lost GPU",
        f"{device} of {host} fell off the bus; {other}'s BMC entries are forty days old.",
        host,
        device,
    )


@plot
def stale_drain_reasons(s: Scene) -> Case:
    fault = _fault(s)
    host, device = _gone(s, fault)
    rows = [("Not responding", "slurm", fault - 21 * 86400, s.spares[:1]), ("bad DIMM, RMA 8812", "ops", fault - 60 * 86400, s.spares[1:2])]
    s.extra["sinfo-R.txt"] = say.reasons(rows)
    records(s, "FAILED")
    s.quiet()
    return _sold(
        s,
        "Drain reasons of weeks ago beside a lost GPU",
        f"{device} of {host} fell off the bus; the reasons concern other hosts.",
        host,
        device,
    )


@plot
def ports_without_cables_since_boot(s: Scene) -> Case:
    fault = _fault(s)
    for host in s.hosts:
        s.log(
            host,
            s.start - 86400,
            *say.boot_lines(),
            "mlx5_core 0000:5f:00.1: Port module event: module 1, Cable unplugged",
            "mlx5_core 0000:5f:00.1 enp95s0f1np1: Link down",
        )
    host, device = _gone(s, fault)
    if s.style == "dmesg":
        s.style, s.folder = "rsyslog", "{}.kern.log"
    records(s, "FAILED")
    s.quiet()
    return _sold(
        s,
        "Spare ports without cables on every host, since boot",
        f"{device} of {host} fell off the bus; the unplugged ports were never used.",
        host,
        device,
    )


@plot
def storage_blip_an_hour_before(s: Scene) -> Case:
    fault = _fault(s)
    for n, host in enumerate(s.hosts):
        s.log(
            host,
            fault - 4000 + n / 10,
            "Lustre: work-OST0004-osc-ffff8a01b3c0d800: Connection to work-OST0004 (at 172.16.8.31@o2ib1) was lost; "
            "in progress operations using this service will wait for recovery to complete",
        )
        s.log(
            host,
            fault - 3990 + n / 10,
            "Lustre: work-OST0004-osc-ffff8a01b3c0d800: Connection restored to 172.16.8.31@o2ib1 (at 172.16.8.31@o2ib1)",
        )
    say.raised(s, 2, "ValueError: too many values to unpack (expected 3)", [("/srv/job/data/batch.py", 77, "pack")])
    s.end = fault + 8
    say.torchrun(s, s.end - 2, 2, [(3, -15)])
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "A storage blip that healed an hour before a ValueError",
        "The program raised ValueError; the storage had long recovered.",
        blameless(s, ["T20"], layer=["user"], action=MEND),
    )


@plot
def controller_missed_a_ping(s: Scene) -> Case:
    fault = _fault(s)
    host = s.rng.choice(s.hosts)
    say.raised(s, 1, "AssertionError: seq_len must be divisible by 8", [("/srv/job/pretrain.py", 66, "main")])
    s.end = fault + 8
    say.torchrun(s, s.end - 2, 1, [(2, -15)])
    s.book("FAILED", "1:0")
    say.allocated(s)
    say.completed(s, 1)
    s.controller += [(fault - 700, f"error: Nodes {host} not responding"), (fault - 660, f"Node {host} now responding")]
    s.quiet()
    return Case(
        "",
        "The controller missed a ping ten minutes before an AssertionError",
        "The program's assertion; the host answered again after forty seconds.",
        blameless(s, ["T20"], layer=["user"], action=MEND),
    )


@plot
def another_jobs_memory_kill(s: Scene) -> Case:
    fault = _fault(s)
    other = str(int(s.job) - 5)
    s.log(s.hosts[0], fault + 100, *say.oom_lines(other, 61022, "julia"))
    s.end = say.timeouts(s, fault) + 20
    s.book("FAILED", "1:0")
    s.attempts.append(Attempt(other, "sim", s.hosts[:1], s.start - 50, fault + 101, "OUT_OF_MEMORY", "0:125", 0, "u71"))
    s.quiet()
    want = blameless(
        s, ["T13"], confidence=["insufficient"], layer=["unknown"], manifestation=["fail_hang"], action=["hold_and_collect", "restart_job"]
    )
    return Case(
        "",
        "A neighbour job is killed for memory while ours hangs",
        "The killed process belongs to another job; our hang stays unexplained.",
        want,
        ("--job", s.job),
    )


@plot
def timeouts_without_stamps(s: Scene) -> Case:
    """An old PyTorch prints no times; only accounting and `ran for` place the true start."""
    host, k = s.rng.choice(s.hosts), s.rng.randrange(8)
    fault = s.start + (s.end - s.start) * 0.7
    say.init(s, 4)
    s.log(host, fault, say.xid(s.device(k), 119, say.GSP.format(k), 30100 + k))
    for rank in range(len(s.hosts) * 8):
        if rank != s.rank(host, k):
            s.out.append(
                f"[E ProcessGroupNCCL.cpp:828] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, "
                f"TensorShape=[1], Timeout(ms)=1800000) ran for {1802000 + rank} milliseconds before timing out."
            )
    s.end = fault + 1820
    s.book("FAILED", "1:0")
    s.log(s.others(host)[0], s.end - 100, say.xid(s.device(0), 43, "Ch 0000001a", 99120, "cuda-gdb"))
    s.quiet()
    return Case(
        "",
        "Timeouts without stamps, half an hour after a GSP timeout",
        f"The GSP of {s.device(k)} on {host} stopped answering.",
        faulted(s, host, ["T05"], devices=[s.device(k)]),
    )


@plot
def running_and_waiting_for_a_lost_gpu(s: Scene) -> Case:
    host, k = s.rng.choice(s.hosts), s.rng.randrange(8)
    fault = s.end - 1500
    opening(s, fault)
    s.log(host, fault, say.xid(s.device(k), 79, say.OFF_BUS))
    s.book("RUNNING")
    s.quiet()
    want = faulted(s, host, ["T04"], devices=[s.device(k)], manifestation=["fail_hang"], gpu_hours=None)
    return Case(
        "",
        "The job still runs, and has waited for a lost GPU for 25 minutes",
        f"{s.device(k)} of {host} fell off the bus; no watchdog has printed yet.",
        want,
    )


@plot
def running_without_progress(s: Scene) -> Case:
    opening(s, s.end - 4000)
    s.book("RUNNING")
    s.quiet()
    want = blameless(
        s, ["T13"], manifestation=["fail_hang"], confidence=["insufficient"], layer=["unknown"], action=["hold_and_collect"], gpu_hours=None
    )
    return Case("", "A running job without progress for an hour, and nothing else", "No step for an hour; nothing says why.", want)


@plot
def driver_update_and_gsp_timeouts_everywhere(s: Scene) -> Case:
    if len(s.hosts) < 4:
        s.hosts = [*s.hosts, *s.spares][:4]
    fault = _fault(s)
    for n, host in enumerate(s.hosts):
        s.log(host, fault + 400 * n - 1600, say.xid(s.device(n % 8), 119, say.GSP.format(n % 8), 30100 + n % 8))
    s.end = say.timeouts(s, fault + 1) + 20
    records(s, "FAILED")
    s.quiet()
    want = blameless(s, ["T05"], layer=["system_software", "gpu"], no_culprit=None, healthy_hosts=None)
    return Case(
        "", "GSP timeouts on every host within an hour", "The same firmware fault on every host: driver or firmware, not one GPU.", want
    )


@plot
def multi_instance_gpu(s: Scene) -> Case:
    host, k = s.rng.choice(s.hosts), s.rng.randrange(8)
    s.hosts = [host]
    d = s.device(k)
    s.log(
        host, s.end - 20, f"NVRM: Xid (PCI:{d} GPU-I:03 GPU-CI:00): 94, pid=44120, name=serve.py, Contained: SM (0x1). RST: No, D-RST: No"
    )
    s.out.append("RuntimeError: CUDA error: uncorrectable ECC error encountered")
    s.book("FAILED", "1:0")
    s.quiet()
    want = {
        "class": ["T02"],
        "layer": ["gpu"],
        "culprits": [host],
        "devices": [d],
        "action": ["restart_job", "restart_on_spares", "drain_at_job_end", "reset_gpu"],
    }
    return Case("", "A contained error in one slice of a GPU", f"XID 94 in a slice of {d} on {host}.", want)


@plot
def device_plugin_names_a_uuid(s: Scene) -> Case:
    host, k = s.hosts[0], s.rng.randrange(8)
    uuid, serial = say.identity(s, s.device(k))
    s.log(host, s.end - 90, uuid, serial, say.xid(s.device(k), 48, say.DBE))
    name = uuid.rsplit(" ", maxsplit=1)[1]
    s.quiet([host])
    s.extra["device-plugin.log"] = (
        f"{stamp(s.end - 89).strftime('%Y/%m/%d %H:%M:%S')} XidCriticalError: Xid=48 on Device={name}, the device will go unhealthy.\n"
    )
    want = {"class": ["T01"], "layer": ["gpu"], "culprits": [host], "devices": [s.device(k)], "not_spares": [host]}
    return Case("", "The device plug-in names a UUID; the kernel ties it to a GPU", f"XID 48 on {s.device(k)} of {host}.", want)


@plot
def array_task(s: Scene) -> Case:
    fault = _fault(s)
    parent, task = s.job, "4"
    host, device = _gone(s, fault)
    s.book("FAILED", "1:0")
    s.attempts[0].job = f"{parent}_{task}"
    s.attempts.append(Attempt(f"{parent}_5", "pretrain-b", s.spares[:1], s.start, s.end + 50, "COMPLETED"))
    s.out_name = f"slurm-{parent}_{task}.out"
    s.quiet()
    noise(s, fault, host)
    return _sold(
        s,
        "A task of an array job meets a lost GPU",
        f"{device} of {host} fell off the bus under task {task}.",
        host,
        device,
        ("--job", f"{parent}_{task}"),
    )


@plot
def program_missing(s: Scene) -> Case:
    s.end = s.start + 4
    s.out.append(
        s.rng.choice(
            (
                "/usr/bin/python3: can't open file '/srv/job/pretrian.py': [Errno 2] No such file or directory",
                f"/var/spool/slurmd/job{s.job}/slurm_script: line 14: torchrun: command not found",
            )
        )
    )
    s.book("FAILED", "2:0" if "python3" in s.out[0] else "127:0")
    s.quiet(lines=2)
    want = blameless(s, ["T20"], layer=["user"], manifestation=["fail_on_start", "fail_stop"], action=MEND, confidence=SURE, gpu_hours=None)
    return Case("", "The program does not exist", "A wrong path in the batch script.", want)


@plot
def killed_rank_without_a_word(s: Scene) -> Case:
    fault = _fault(s)
    rank = s.rng.randrange(len(s.hosts) * 8)
    s.end = fault + 12
    say.torchrun(s, s.end - 3, rank, [((rank + 1) % 8 + rank // 8 * 8, -15)], -9)
    records(s, "FAILED")
    s.quiet()
    want = blameless(s, ["T24", "T18", "T20"], confidence=["insufficient"], action=[*COLLECT, "fix_and_resubmit"], ranks=[rank])
    return Case(
        "", "A rank is killed by signal 9 and nothing says by whom", f"Rank {rank} was killed; no kernel log speaks of memory.", want
    )


@plot
def lost_gpu_asked_for_by_time(s: Scene) -> Case:
    """Two attempts in the folder; the question names a moment of the first."""
    fault = _fault(s)
    host, device = _gone(s, fault)
    s.book("FAILED", "1:0")
    s.attempts.append(Attempt(str(int(s.job) + 40), "next", s.hosts[:1], s.end + 3600, s.end + 5000, "CANCELLED by 7"))
    s.quiet()
    return _sold(
        s,
        "The question is about a moment, not a job",
        f"{device} of {host} fell off the bus.",
        host,
        device,
        ("--at", plain(fault + 200) + "Z"),
    )
