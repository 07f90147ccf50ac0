"""Drill plots that set traps: faults at the wrong time or place, records that mislead, and causes that hide behind others."""

from __future__ import annotations

from datetime import UTC, datetime

from triage import drill_lines as say
from triage.drill_plots import COLLECT, MEND, SURE, TAKE_HOST, blameless, failed, faulted, noise, opening, plot, records
from triage.drill_scene import Attempt, Scene, framed, stamp
from triage.drill_truth import Case


def _fault(s: Scene, low: float = 0.4, high: float = 0.85) -> float:
    fault = s.start + (s.end - s.start) * s.rng.uniform(low, high)
    opening(s, fault)
    return fault


def _move(s: Scene, day: datetime, style: str) -> None:
    """Puts the whole scene at another time, in another kernel style."""
    length = s.end - s.start
    s.start = day.timestamp()
    s.end = s.start + length
    s.style, s.zone, s.folder = style, 0, "{}.kern.log"


def _lost_gpu(s: Scene, host: str, fault: float, minutes: int = 10) -> int:
    """XID 79 on a GPU of `host`, and the watchdogs of the others; returns the local rank."""
    k = s.rng.randrange(8)
    s.log(host, fault, say.xid(s.device(k), 79, say.OFF_BUS))
    s.end = say.timeouts(s, fault + 1, minutes * 60000, missing=[s.rank(host, k)]) + 20
    return k


@plot
def lost_gpu_at_new_year(s: Scene) -> Case:
    _move(s, datetime(s.rng.choice((2026, 2027)), 12, 31, 21, 10, tzinfo=UTC), s.rng.choice(("bsd", "bsd_seconds", "journal")))
    s.end = s.start + 4 * 3600
    host = s.rng.choice(s.hosts)
    fault = s.start + s.rng.uniform(2.7, 3.4) * 3600
    opening(s, fault)
    k = _lost_gpu(s, host, fault, 30)
    records(s, "FAILED")
    s.quiet()
    noise(s, fault, host)
    return Case(
        "",
        "A lost GPU around midnight of New Year, in logs without a year",
        f"{s.device(k)} of {host} fell off the bus.",
        faulted(s, host, ["T04"], devices=[s.device(k)], layer=["gpu", "host"]),
    )


@plot
def fault_after_the_job_had_failed(s: Scene) -> Case:
    fault = _fault(s)
    say.raised(s, 3, "KeyError: 'position_ids'", [("/srv/job/model.py", 140, "forward")])
    say.peer_closed(s, s.hosts[0], s.hosts[1:3])
    s.end = fault + 9
    say.torchrun(s, s.end - 3, 3, [(4, -15)])
    s.book("FAILED", "1:0")
    s.log(s.hosts[-1], s.end + 1080, say.xid(s.device(5), 79, say.OFF_BUS))
    s.quiet()
    return Case(
        "",
        "A GPU is lost 18 minutes after the job failed with a KeyError",
        "The program raised KeyError; the GPU was lost later.",
        blameless(s, ["T20"], layer=["user"], action=MEND, healthy_hosts=s.hosts[:-1]),
        ("--job", s.job),
    )


@plot
def lost_gpu_on_a_host_outside_the_job(s: Scene) -> Case:
    fault = _fault(s)
    s.log(s.spares[0], fault - 20, say.xid(s.device(5), 79, say.OFF_BUS))
    s.end = say.timeouts(s, fault) + 25
    s.book("FAILED", "1:0")
    s.quiet([*s.hosts, s.spares[0]])
    return Case(
        "",
        "A GPU is lost on a host that the job does not use",
        "The job's timeouts stay unexplained: the lost GPU is elsewhere.",
        blameless(
            s,
            ["T13"],
            confidence=["insufficient"],
            layer=["unknown"],
            action=["hold_and_collect", "restart_job"],
            manifestation=["fail_hang"],
        ),
        ("--job", s.job),
    )


@plot
def health_check_drains_after_the_fault(s: Scene) -> Case:
    host, fault = s.rng.choice(s.hosts), _fault(s)
    k = _lost_gpu(s, host, fault)
    s.book("FAILED", "1:0")
    say.allocated(s)
    say.completed(s, 1)
    s.controller += [
        (fault + 120, f"update_node: node {host} reason set to: HealthCheck: Xid 79 GPU {k}"),
        (fault + 120, f"update_node: node {host} state set to DRAINING"),
    ]
    s.extra["sinfo-R.txt"] = say.reasons([(f"HealthCheck: Xid 79 GPU {k}", "root", fault + 120, [host])])
    s.quiet()
    return Case(
        "",
        "The health check drains the host after the GPU was lost",
        f"{s.device(k)} of {host} fell off the bus; the drain is a consequence.",
        faulted(s, host, ["T04"], devices=[s.device(k)], layer=["gpu", "host"]),
    )


@plot
def operator_drain_beside_another_hosts_fault(s: Scene) -> Case:
    host, fault = s.rng.choice(s.hosts), _fault(s)
    other = s.rng.choice(s.others(host))
    k = _lost_gpu(s, host, fault)
    s.book("FAILED", "1:0")
    say.allocated(s)
    say.completed(s, 1)
    s.controller += [
        (fault - 1500, f"update_node: node {other} reason set to: firmware update planned, CHG0102"),
        (fault - 1500, f"update_node: node {other} state set to DRAINING"),
    ]
    s.quiet()
    return Case(
        "",
        "An operator marks one host for draining; another loses a GPU",
        f"{s.device(k)} of {host} fell off the bus; {other} was only marked for planned work.",
        faulted(s, host, ["T04"], devices=[s.device(k)]),
    )


@plot
def survived_nvlink_error_hours_before(s: Scene) -> Case:
    host, fault = s.rng.choice(s.hosts), _fault(s, 0.7, 0.9)
    s.log(
        s.others(host)[0],
        s.start + 300,
        say.xid(s.device(2), 74, "NVLink: Link training failed for link 4(0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"),
    )
    k = _lost_gpu(s, host, fault)
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "An NVLink error that the job survived, and a lost GPU much later",
        f"{s.device(k)} of {host} fell off the bus.",
        faulted(s, host, ["T04"], devices=[s.device(k)]),
    )


@plot
def fatal_machine_check_panic(s: Scene) -> Case:
    host, fault = s.rng.choice(s.hosts[1:]), _fault(s)
    s.style, s.folder = ("rsyslog", "{}.kern.log") if s.style == "dmesg" else (s.style, s.folder)
    s.log(
        host,
        fault,
        "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000001010090",
        "mce: [Hardware Error]: RIP !INEXACT! 10:<ffffffff8aa01fb1> {intel_idle+0x71/0xe0}",
        "mce: [Hardware Error]: PROCESSOR 0:606a6 TIME 1790000000 SOCKET 0 APIC 18 microcode d0003d1",
        "Kernel panic - not syncing: Fatal machine check",
    )
    s.end = fault + 130
    say.node_failed(s, host, s.end + 1, s.hosts[0])
    s.book("NODE_FAIL", "0:0")
    s.quiet()
    s.kernel[host] = [row for row in s.kernel[host] if row[0] <= fault + 1]
    s.extra[f"{host}.sel.txt"] = f"   1 | {stamp(fault).strftime('%m/%d/%Y | %H:%M:%S')} | Processor #0x90 | IERR | Asserted\n"
    return Case(
        "",
        "A fatal machine check panics the kernel",
        f"The processor or memory of {host} failed.",
        faulted(s, host, ["T16", "T15"], layer=["host"]),
    )


@plot
def program_memory_hog_kills_the_daemon(s: Scene) -> Case:
    host, fault = s.rng.choice(s.hosts), _fault(s)
    s.log(
        host,
        fault,
        "pt_data_worker invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0",
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task_memcg=/system.slice,task=pt_data_worker,pid=51210,uid=3021",
        (
            "Out of memory: Killed process 51210 (pt_data_worker) total-vm:905000000kB, anon-rss:604857600kB, "
            "file-rss:0kB, shmem-rss:0kB, UID:3021 pgtables:1200000kB oom_score_adj:0"
        ),
    )
    say.raised(s, s.rank(host, 2), "RuntimeError: DataLoader worker (pid 51210) is killed by signal: Killed. ")
    s.end = fault + 9
    say.peer_closed(s, host, s.others(host)[:2])
    failed(s)
    return Case(
        "",
        "The host itself runs out of memory",
        f"The data-loader workers used up the memory of {host}.",
        blameless(s, ["T18"], layer=["user", "host"], action=MEND, confidence=SURE),
    )


@plot
def shared_memory_too_small(s: Scene) -> Case:
    fault = _fault(s, 0.05, 0.2)
    rank = s.rng.randrange(8)
    s.out.append("ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).")
    say.raised(
        s,
        rank,
        (
            "RuntimeError: DataLoader worker (pid 41877) is killed by signal: Bus error. It is possible that "
            "dataloader's workers are out of shared memory. Please try to raise your shared memory limit."
        ),
    )
    s.end = fault + 9
    say.torchrun(s, s.end - 2, rank, [((rank + 1) % 8, -15)])
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "The data loader runs out of shared memory",
        "The container's /dev/shm is too small.",
        blameless(s, ["T18"], layer=["user", "host", "system_software"], action=MEND),
    )


@plot
def rendezvous_waits_for_one(s: Scene) -> Case:
    s.end = s.start + 640
    s.out.append(
        f"[{say.glog(s.end - 8)} socket.cpp:957] [c10d] The client socket has timed out after 600s while trying to "
        f"connect to ({s.hosts[0]}, 29400)."
    )
    s.out.append(
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. "
        f"{len(s.hosts) * 8 - 8}/{len(s.hosts) * 8} clients joined."
    )
    s.book("FAILED", "1:0")
    s.quiet()
    return Case(
        "",
        "The rendezvous waits in vain for eight clients",
        "One host's processes never joined; which and why is not in these files.",
        blameless(
            s,
            ["T14", "T21", "T13"],
            confidence=["insufficient", "possible"],
            manifestation=["fail_on_start", "fail_stop", "fail_hang"],
            action=[*COLLECT, "fix_and_resubmit"],
        ),
    )


@plot
def stale_file_handles_everywhere(s: Scene) -> Case:
    fault = _fault(s)
    for host in s.hosts:
        say.raised(
            s,
            s.rank(host, 1),
            "OSError: [Errno 116] Stale file handle: '/data/shards/shard_0091.bin'",
            [("/srv/job/data/loader.py", 41, "read")],
        )
    s.end = fault + 7
    failed(s)
    return Case(
        "",
        "Stale file handles on every host",
        "The file server's export changed or restarted.",
        blameless(s, ["T17"], layer=["storage"], action=["escalate_storage", "restart_job", "hold_and_collect"]),
    )


@plot
def host_reports_seven_gpus(s: Scene) -> Case:
    host = s.rng.choice(s.hosts)
    s.controller.append(
        (s.end, f"error: Setting node {host} state to INVAL with reason:gres/gpu count reported lower than configured (7 < 8)")
    )
    s.controller.append((s.start, f"Node {host} now responding"))
    s.extra["sinfo-R.txt"] = say.reasons([("gres/gpu count reported lower than configured (7 < 8)", "slurm", s.end, [host])])
    return Case(
        "",
        "A host reports seven of eight GPUs",
        f"A GPU of {host} is missing.",
        {
            "class": ["T04", "T21"],
            "culprits": [host],
            "healthy_hosts": s.others(host),
            "not_spares": [host],
            "action": [*TAKE_HOST, "hold_and_collect", "drain_at_job_end"],
        },
    )


@plot
def all_hosts_in_one_kernel_file(s: Scene) -> Case:
    host, fault = s.rng.choice(s.hosts), _fault(s)
    s.style, s.zone = s.rng.choice((("rsyslog", 0), ("offset", 120), ("zulu", 0)))
    k = _lost_gpu(s, host, fault)
    records(s, "FAILED")
    s.quiet()
    noise(s, fault, host)
    lines = sorted(line for name in s.kernel for line in framed(s, name).splitlines())
    s.hidden |= set(s.kernel)
    s.extra["kern-all.log"] = "\n".join(lines) + "\n"
    return Case(
        "",
        "One central kernel log of all hosts",
        f"{s.device(k)} of {host} fell off the bus.",
        faulted(s, host, ["T04"], devices=[s.device(k)], layer=["gpu", "host"]),
    )


@plot
def labelled_output(s: Scene) -> Case:
    host, k = s.rng.choice(s.hosts), s.rng.randrange(8)
    fault = _fault(s)
    s.log(host, fault, say.xid(s.device(k), 48, say.DBE), say.channel(s.device(k), 30100 + k))
    say.raised(s, s.rank(host, k), "RuntimeError: CUDA error: uncorrectable ECC error encountered")
    say.peer_closed(s, host, s.others(host)[:2])
    s.end = fault + 11
    s.out = [f"{s.rng.randrange(len(s.hosts))}: {line}" for line in s.out]
    say.task_exit(s, host)
    say.step_killed(s, s.end - 1, reporter=s.rng.choice(s.hosts))
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "Output labelled by srun; a double-bit error",
        f"XID 48 on {s.device(k)} of {host}.",
        faulted(s, host, ["T01"], devices=[s.device(k)], layer=["gpu"]),
    )


@plot
def slow_and_one_host_hot(s: Scene) -> Case:
    host = s.rng.choice(s.hosts)
    turn = s.end - 600
    say.init(s, 4)
    say.steps(s, turn, 16, 3320, 0.002)
    for n in range(4):
        s.log(
            host,
            turn + 60 * n,
            f"CPU{9 + n}: Package temperature is above threshold, cpu clock is throttled (total events = {40 * (n + 1)})",
        )
    say.steps(s, s.end, 40, 4200, 0.002)
    s.book("RUNNING")
    s.quiet(lines=2)
    return Case(
        "",
        "Every step is slower since one host throttles its processors",
        f"{host} runs hot and slows the whole job down.",
        {
            "class": ["T10", "T22"],
            "manifestation": ["fail_slow"],
            "culprits": [host],
            "healthy_hosts": s.others(host),
            "not_spares": list(s.hosts),
        },
    )


@plot
def unreproducible_nan_on_one_gpu(s: Scene) -> Case:
    host, k = s.rng.choice(s.hosts), s.rng.randrange(8)
    fault, rank = _fault(s), s.rank(host, k)
    s.out += [
        (
            f"ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank {rank} at iteration #{s.iteration} "
            "invocation #1 (message='found NaN in local grad norm for bucket #3 in backward pass before data-parallel "
            "communication collective')"
        ),
        (
            f"ERROR:megatron.core.rerun_state_machine:Rank {rank}, node {host}, device {k}, iteration #{s.iteration}: "
            "First rerun: unexpected result is not reproducible within the tolerance (0.284 != nan). Transient error!"
        ),
    ]
    s.end = fault + 60
    s.out.append(
        f"[rank{rank}]: AssertionError: Rank {rank}: found NaN in local grad norm in backward pass before "
        f"data-parallel communication collective. Device: {k}, node: {host}"
    )
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "A NaN on one GPU that does not come back when the step is run again",
        f"Rank {rank} on {host} computed a NaN once: a silent error is likely.",
        {
            "class": ["T11"],
            "culprits": [host],
            "ranks": [rank],
            "healthy_hosts": s.others(host),
            "not_spares": list(s.hosts),
            "layer": ["gpu", "unknown"],
        },
    )


@plot
def two_attempts_with_different_causes(s: Scene) -> Case:
    """The first attempt lost a host; the last, which counts, met a user error."""
    lost = s.hosts[-1]
    first = Attempt(s.job, "pretrain-b", list(s.hosts), s.start - 9000, s.start - 600, "NODE_FAIL")
    fault = _fault(s)
    say.raised(
        s, 0, "RuntimeError: Error(s) in loading state_dict for GPT: size mismatch for head.weight", [("/srv/job/pretrain.py", 90, "load")]
    )
    s.end = fault + 6
    say.torchrun(s, s.end - 2, 0, [(1, -15)])
    s.attempts.append(first)
    s.book("FAILED", "1:0")
    s.controller += [
        (first.end, f"requeue job JobId={s.job} due to failure of node {lost}"),
        (first.end, f"error: Nodes {lost} not responding, setting DOWN"),
        (first.end + 200, f"Node {lost} now responding"),
        (first.end + 210, f"update_node: node {lost} state set to IDLE"),
    ]
    s.quiet()
    return Case(
        "",
        "The last attempt fails for another reason than the first",
        "The last attempt ended with a state_dict mismatch; the lost host belongs to the attempt before.",
        blameless(s, ["T20"], layer=["user"], action=MEND, gpu_hours=None),
        ("--job", s.job),
    )


@plot
def switch_noise_and_a_gsp_timeout(s: Scene) -> Case:
    host, fault = s.rng.choice(s.hosts), _fault(s)
    other, k = s.rng.choice(s.others(host)), s.rng.randrange(8)
    for n in range(6):
        s.log(
            other,
            fault - 400 + 60 * n,
            "nvidia-nvswitch1: SXid (PCI:0000:88:00.0): 12028, Non-fatal, Link 51 egress non-posted PRIV error (First)",
        )
    s.log(host, fault, say.xid(s.device(k), 119, say.GSP.format(k), 30100 + k))
    s.end = say.timeouts(s, fault + 1, missing=[s.rank(host, k)]) + 20
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "Non-fatal switch lines on one host, a GSP timeout on another",
        f"The GSP of {s.device(k)} on {host} stopped answering.",
        faulted(s, host, ["T05"], devices=[s.device(k)]),
    )


@plot
def file_server_and_a_remapped_row(s: Scene) -> Case:
    fault = _fault(s)
    host = s.rng.choice(s.hosts)
    s.log(host, fault - 1200, say.remap(s.device(4), 63))
    for n, name in enumerate(s.hosts):
        s.log(
            name,
            fault + n,
            (
                "Lustre: fast-OST0003-osc-ffff9c11d2a1e800: Connection to fast-OST0003 (at 172.20.1.9@tcp) was lost; "
                "in progress operations using this service will wait for recovery to complete"
            ),
        )
        s.log(
            name,
            fault + 160 + n,
            (
                "LustreError: 167-0: fast-OST0003-osc-ffff9c11d2a1e800: This client was evicted by fast-OST0003; in "
                "progress operations using this service will fail."
            ),
        )
        s.out.append(f"[rank{s.rank(name)}]: OSError: [Errno 5] Input/output error: '/fast/ckpt/part_{s.rank(name)}.pt'")
    s.end = fault + 190
    failed(s)
    return Case(
        "",
        "A file server evicts all clients; one host also has a remapped row",
        "Storage; the remapped row twenty minutes earlier did no harm.",
        blameless(s, ["T17"], layer=["storage"], action=["escalate_storage", "restart_job", "hold_and_collect"]),
    )


@plot
def invalid_use_of_nccl(s: Scene) -> Case:
    s.end = s.start + 50
    for rank in range(0, len(s.hosts) * 8, 2):
        say.raised(
            s,
            rank,
            (
                "torch.distributed.DistBackendError: NCCL error in: "
                "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, invalid usage (run with NCCL_WARN=1 for "
                "details), NCCL version 2.21.5"
            ),
        )
    s.out.append(f"{s.hosts[0]}:30100:30700 [0] init.cc:943 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1a000")
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "Two ranks were given the same GPU",
        "The launcher's configuration.",
        blameless(s, ["T20"], layer=["user", "system_software"], manifestation=["fail_on_start", "fail_stop"]),
    )


@plot
def lost_gpu_without_the_others_logs(s: Scene) -> Case:
    """Only the culprit's kernel log was collected."""
    host, fault = s.rng.choice(s.hosts), _fault(s)
    k = _lost_gpu(s, host, fault)
    s.quiet([host])
    s.kernel = {host: s.kernel[host]}
    records(s, "FAILED")
    return Case(
        "",
        "A lost GPU; only that host's kernel log was collected",
        f"{s.device(k)} of {host} fell off the bus.",
        faulted(s, host, ["T04"], devices=[s.device(k)]),
    )


@plot
def quiet_hang_with_one_log_missing(s: Scene) -> Case:
    host, fault = s.rng.choice(s.hosts), _fault(s)
    s.end = say.timeouts(s, fault, 1800000, ranks=[r for r in range(len(s.hosts) * 8) if r // 8 != s.hosts.index(host)]) + 15
    records(s, "FAILED")
    s.quiet(s.others(host))
    return Case(
        "",
        "One whole host is silent among the timeouts, and its kernel log is missing",
        f"Every rank but those of {host} timed out; {host} is the first to look at.",
        blameless(
            s,
            ["T13"],
            healthy_hosts=s.others(host),
            culprits=[host],
            confidence=["insufficient", "possible"],
            action=COLLECT,
            missing_any=[host],
            manifestation=["fail_hang"],
        ),
    )
