"""Drill plots of programs, schedulers and nothing at all (T11, T19-T24, none)."""

from __future__ import annotations

from triage import drill_lines as say
from triage.drill_plots import COLLECT, MEND, SURE, blameless, faulted, noise, opening, plot, records
from triage.drill_scene import Attempt, Scene, hostlist, plain
from triage.drill_truth import Case

REST = ["none", "monitor"]


def _fault(s: Scene) -> float:
    fault = s.start + (s.end - s.start) * s.rng.uniform(0.4, 0.85)
    opening(s, fault)
    return fault


@plot
def gpu_memory_used_up(s: Scene) -> Case:
    s.end = s.start + 100
    say.init(s, 4)
    for rank in range(len(s.hosts) * 8):
        s.out.append(
            f"[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {rank % 8} has a total "
            f"capacity of 79.11 GiB of which 1.{rank % 90:02d} GiB is free. Including non-PyTorch memory, this process has "
            "78.01 GiB memory in use. Of the allocated memory 75.20 GiB is allocated by PyTorch, and 1.10 GiB is reserved by "
            "PyTorch but unallocated."
        )
    say.torchrun(s, s.end - 3, 0, [(1, 1), (2, -15)])
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "CUDA out of memory on every rank",
        "The batch does not fit.",
        blameless(s, ["T19"], layer=["user"], manifestation=["fail_on_start", "fail_stop"], action=MEND, confidence=SURE),
    )


@plot
def type_error_on_one_rank(s: Scene) -> Case:
    fault = _fault(s)
    rank = s.rng.choice((0, 8))
    say.raised(
        s,
        rank,
        s.rng.choice(
            (
                "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'",
                "KeyError: 'tokens'",
                "AttributeError: 'dict' object has no attribute 'lr'",
                "ZeroDivisionError: division by zero",
            )
        ),
    )
    say.peer_closed(s, s.hosts[rank // 8], s.others(s.hosts[rank // 8])[:3])
    s.end = fault + 9
    say.torchrun(s, s.end - 2, rank, [(rank + 1, -15)])
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "A Python error on one rank; the others print NCCL errors",
        f"Rank {rank} raised; the rest is fall-out.",
        blameless(s, ["T20"], layer=["user"], action=MEND, confidence=SURE),
    )


@plot
def error_then_others_time_out(s: Scene) -> Case:
    fault = _fault(s)
    rank = s.rng.randrange(len(s.hosts) * 8)
    say.raised(s, rank, "IndexError: list index out of range", [("/srv/job/data/loader.py", 97, "next_batch")])
    s.end = say.timeouts(s, fault + 2, missing=[rank]) + 20
    blamed = 0 if rank else 5
    say.torchrun(s, s.end - 5, blamed, [(rank, 1)], -6)
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "One rank raises IndexError; the others time out ten minutes later",
        f"Rank {rank} left with a Python error; the timeouts are its consequence.",
        blameless(s, ["T20"], layer=["user"], action=MEND, ranks=[rank]),
    )


@plot
def import_error_at_start(s: Scene) -> Case:
    s.end = s.start + 35
    for rank in range(len(s.hosts) * 8):
        say.raised(s, rank, "ModuleNotFoundError: No module named 'flash_attn_3'", [("/srv/job/pretrain.py", 9, "<module>")])
    say.torchrun(s, s.end - 3, 0, [(1, 1)])
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "A module is missing",
        "The program cannot start.",
        blameless(s, ["T20"], layer=["user"], manifestation=["fail_on_start", "fail_stop"], action=MEND),
    )


@plot
def device_assert(s: Scene) -> Case:
    fault = _fault(s)
    rank = s.rng.randrange(len(s.hosts) * 8)
    s.out.append(
        "/opt/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1308: indexSelectLargeIndex: block: [41,0,0], thread: "
        "[32,0,0] Assertion `srcIndex < srcSelectDimSize` failed."
    )
    say.raised(s, rank, "RuntimeError: CUDA error: device-side assert triggered", [("/srv/job/model.py", 77, "embed")])
    host = s.hosts[rank // 8]
    s.log(host, fault, say.xid(s.device(rank % 8), 43, "Ch 00000010", 30100 + rank % 8, "python3"))
    s.end = fault + 11
    say.torchrun(s, s.end - 2, rank, [((rank + 1) % 8, -15)])
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "A device-side assert: a token id out of range",
        "The program's own assert; XID 43 follows from it.",
        blameless(s, ["T20", "T09", "T08"], layer=["user"], action=MEND),
    )


@plot
def nan_loss_alone(s: Scene) -> Case:
    fault = _fault(s)
    for n in range(4):
        say.step(s, fault + 3 * n, 3000, "nan", "nan")
    s.end = fault + 30
    if s.rng.random() < 0.5:
        say.raised(s, 0, "RuntimeError: Loss is NaN, stopping training")
        records(s, "FAILED")
    else:
        s.out.append("loss is nan; stopping")
        records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "The loss turns NaN; no hardware fault in sight",
        "Data, learning rate and a silent error stay open.",
        blameless(
            s,
            ["T11", "T20"],
            layer=["unknown", "user", "gpu"],
            confidence=["insufficient"],
            action=["hold_and_collect", "monitor", "rollback_change", "restart_job", "fix_and_resubmit"],
            gpu_hours=None,
            missing_any=["EUD", "diag", "replay", "bit", "NCCL test", "stress", "rank", "dcgm", "grad"],
        ),
    )


@plot
def nan_loss_after_an_ecc_error(s: Scene) -> Case:
    host, k = s.rng.choice(s.hosts), s.rng.randrange(8)
    fault = _fault(s)
    s.log(
        host,
        fault - 4,
        say.xid(s.device(k), 48, say.DBE),
        say.xid(s.device(k), 95, "Uncontained: LTC (0x2). RST: Yes, D-RST: No", 30100 + k),
    )
    for n in range(3):
        say.step(s, fault + 3 * n, 3000, "nan", "nan")
    s.end = fault + 30
    say.raised(s, 0, "RuntimeError: Loss is NaN, stopping training")
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "The loss turns NaN seconds after an uncontained ECC error",
        f"{s.device(k)} of {host} corrupted data.",
        faulted(s, host, ["T01", "T11"], devices=[s.device(k)], layer=["gpu"], manifestation=["fail_stop", "silent"], victims_any=None),
    )


@plot
def loss_spike(s: Scene) -> Case:
    say.init(s, 4)
    say.steps(s, s.end - 60, 20, 3000)
    for n, loss in enumerate(("5.912000E+00", "6.881000E+00", "4.402000E+00", "3.120000E+00", "2.310000E+00")):
        say.step(s, s.end - 57 + 3 * n, 3000, loss, "9.210")
    say.steps(s, s.end, 12, 3000)
    s.book("RUNNING")
    s.quiet(lines=2)
    return Case(
        "",
        "A loss spike that heals",
        "The loss jumped and came back; hosts are healthy.",
        blameless(s, ["T11", "none"], action=["monitor", "none", "hold_and_collect", "rollback_change"], gpu_hours=None),
    )


@plot
def steps_slow_down(s: Scene) -> Case:
    say.init(s, 4)
    base = s.rng.choice((3300.0, 5200.0, 8800.0))
    factor = s.rng.choice((1.06, 1.12, 1.3))
    turn = s.end - 40 * base * factor / 1000
    say.steps(s, turn, 30, base, 0.002)
    say.steps(s, s.end, 30, base * factor, 0.002)
    s.book("RUNNING")
    s.quiet(lines=2)
    return Case(
        "",
        "Each step is slower from one point on",
        "No file says why.",
        blameless(
            s,
            ["T22"],
            manifestation=["fail_slow"],
            confidence=["insufficient"],
            action=["hold_and_collect", "monitor"],
            gpu_hours=None,
            missing_any=["per-rank", "rank", "bench", "trace", "telemetry", "clock", "timer"],
        ),
    )


@plot
def healthy(s: Scene) -> Case:
    opening(s, s.end - 5)
    s.out.append("[after training is done] datetime: done")
    records(s, "COMPLETED", "0:0")
    s.extra.pop("sinfo.txt", None)
    s.quiet()
    return Case("", "A job that finished", "Nothing is wrong.", _nothing(s))


def _nothing(s: Scene) -> dict[str, object]:
    return {
        "class": ["none"],
        "action": ["none"],
        "manifestation": ["none"],
        "layer": ["unknown"],
        "confidence": ["probable"],
        "no_culprit": True,
        "healthy_hosts": list(s.hosts),
        "not_victims": list(s.hosts),
        "gpu_hours": [0, 0.01],
    }


@plot
def healthy_with_noise(s: Scene) -> Case:
    opening(s, s.end - 5)
    records(s, "COMPLETED", "0:0")
    s.extra.pop("sinfo.txt", None)
    s.quiet()
    host = s.rng.choice(s.hosts)
    s.log(host, s.end - 1900, *say.corrected_aer())
    s.log(
        host,
        s.end - 1200,
        (
            "EDAC MC1: 1 CE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x91ac "
            "offset:0x80 grain:32 syndrome:0x0)"
        ),
    )
    s.log(host, s.end - 4000, "igb 0000:c1:00.0 eno1: igb: eno1 NIC Link is Down")
    s.log(host, s.end - 3992, "igb 0000:c1:00.0 eno1: igb: eno1 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: RX")
    return Case(
        "",
        "A finished job with corrected errors about",
        "Corrected errors and a short loss of the management link did no harm.",
        {
            "class": ["none", "T16"],
            "action": ["none", "monitor", "drain_at_job_end"],
            "no_culprit": True,
            "gpu_hours": [0, 0.01],
            "not_victims": list(s.hosts),
        },
    )


@plot
def healthy_and_running(s: Scene) -> Case:
    opening(s, s.end - 2)
    s.book("RUNNING")
    s.quiet(lines=3)
    want = _nothing(s)
    del want["gpu_hours"]
    return Case("", "A job that runs well", "Nothing is wrong.", want)


@plot
def cancelled_while_healthy(s: Scene) -> Case:
    opening(s, s.end - 2)
    say.step_killed(s, s.end)
    s.book("CANCELLED by 3021", "0:0")
    say.allocated(s)
    s.controller.append((s.end, f"_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId={s.job} uid 3021"))
    s.quiet()
    return Case(
        "",
        "A user cancels a healthy job",
        "Nothing failed.",
        blameless(s, ["T23"], action=REST, layer=["scheduler", "user"], gpu_hours=None),
    )


@plot
def time_limit_with_teardown(s: Scene) -> Case:
    opening(s, s.end - 2)
    say.step_killed(s, s.end, " DUE TO TIME LIMIT")
    s.out += [f"Killing subprocess {30100 + n}" for n in range(24)]
    for rank in range(6):
        s.out.append(
            f"[rank{rank}]:[W ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed "
            "before we destruct ProcessGroupNCCL."
        )
    s.out.append("torch.distributed.elastic.multiprocessing.api.SignalException: Process 30100 got signal: 15")
    for host in s.hosts[:2]:
        for n in range(3):
            s.log(host, s.end + 2 + n, say.channel(s.device(n), 30100 + n))
    s.book("TIMEOUT", "0:0")
    if s.rng.random() < 0.5:
        say.allocated(s)
        s.controller.append((s.end, f"Time limit exhausted for JobId={s.job}"))
    s.quiet()
    return Case(
        "",
        "The time limit, with a noisy teardown",
        "The job reached its limit; not a failure.",
        blameless(s, ["T23"], action=[*REST, "fix_and_resubmit", "restart_job"], layer=["scheduler", "user"]),
    )


@plot
def preempted(s: Scene) -> Case:
    opening(s, s.end - 2)
    other = str(int(s.job) + 11)
    say.step_killed(s, s.end, " DUE TO PREEMPTION")
    s.book("PREEMPTED", "0:0")
    s.attempts.append(Attempt(other, "urgent", s.hosts[:1], s.end, s.end + 600, "RUNNING", user="u9"))
    say.allocated(s)
    s.controller += [
        (s.end, f"preempted JobId={s.job} has been requeued to reclaim resources for JobId={other}"),
        (s.end + 0.05, f"Requeuing JobId={s.job}"),
        (s.end + 0.06, f"sched: Allocate JobId={other} NodeList={s.hosts[0]} #CPUs=96 Partition=high"),
    ]
    s.quiet()
    return Case(
        "",
        "A job gives way",
        "Preempted: policy.",
        blameless(s, ["T23"], action=[*REST, "restart_job"], layer=["scheduler"], gpu_hours=None),
        ("--job", s.job),
    )


@plot
def drained_spare_beside_a_finished_job(s: Scene) -> Case:
    opening(s, s.end - 2)
    s.book("COMPLETED", "0:0")
    say.allocated(s)
    say.completed(s, 0)
    s.controller += [
        (s.end - 900, f"update_node: node {s.spares[0]} reason set to: firmware update, CHG0077"),
        (s.end - 900, f"update_node: node {s.spares[0]} state set to DRAINING"),
    ]
    s.extra["sinfo-R.txt"] = say.reasons([("firmware update, CHG0077", "ops", s.end - 900, s.spares[:1])])
    s.quiet()
    return Case(
        "",
        "An operator drains a spare for maintenance",
        "Nothing failed; planned work.",
        {
            "class": ["none", "T23"],
            "action": REST,
            "no_culprit": True,
            "healthy_hosts": [*s.hosts, s.spares[0]],
            "not_spares": s.spares[:1],
            "gpu_hours": [0, 0.01],
        },
    )


@plot
def prolog_fails(s: Scene) -> Case:
    host = s.rng.choice(s.hosts)
    s.end = s.start + 12
    say.allocated(s)
    s.controller += [
        (s.start + 9, f"error: slurmd error running JobId={s.job} on node(s)={host}: Prolog error"),
        (s.start + 9.01, f"drain_nodes: node {host} state set to DRAIN"),
        (s.start + 10, f"Requeuing JobId={s.job}"),
    ]
    s.extra[f"{host}.slurmd.log"] = f"[{plain(s.start + 8)}.200] error: [job {s.job}] prolog failed status=1:0\n"
    s.extra["sinfo-R.txt"] = say.reasons([("Prolog error", "slurm", s.start + 9, [host])])
    return Case(
        "",
        "The prolog fails on one host",
        f"{host}'s prolog failed and Slurm drained it; a service, not hardware.",
        {
            "class": ["T21"],
            "layer": ["system_software", "scheduler"],
            "culprits": [host],
            "healthy_hosts": s.others(host),
            "not_spares": [host],
            "manifestation": ["fail_on_start", "fail_stop"],
            "gpu_hours": [0, 1],
        },
    )


@plot
def epilog_fails(s: Scene) -> Case:
    host = s.hosts[0]
    s.hosts = [host]
    say.allocated(s)
    say.completed(s, 0)
    s.controller += [
        (s.end + 9, f"update_node: node {host} reason set to: Kill task failed"),
        (s.end + 9, f"update_node: node {host} state set to DRAINING"),
    ]
    s.extra[f"{host}.slurmd.log"] = (
        f"[{plain(s.end + 1)}.120] spank-epilog: error: pyxis: rmdir: failed to remove '/local/enroot/data': "
        f"Permission denied\n[{plain(s.end + 9)}.120] error: [job {s.job}] epilog failed status=1:0\n"
    )
    s.extra["sinfo-R.txt"] = say.reasons([("Kill task failed", "root", s.end + 9, [host])])
    return Case(
        "",
        "The epilog fails and the host drains",
        "A permission, not hardware.",
        {
            "class": ["T21"],
            "layer": ["system_software", "scheduler"],
            "action": ["fix_and_resubmit", "rollback_change", "hold_and_collect", "restart_job"],
            "not_spares": [host],
            "gpu_hours": [0, 0.01],
        },
    )


@plot
def container_does_not_start(s: Scene) -> Case:
    s.end = s.start + 25
    for host in s.hosts:
        s.out += [
            f"slurmstepd-{host}: error: pyxis: container start failed with error code: 1",
            f"slurmstepd-{host}: error: pyxis: printing enroot log file:",
            f"slurmstepd-{host}: error: pyxis:     [ERROR] No such file or directory: /images/train-9.sqsh",
            f"slurmstepd-{host}: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1",
        ]
        say.task_exit(s, host)
    records(s, "FAILED")
    s.quiet(lines=2)
    return Case(
        "",
        "The container does not start anywhere",
        "The image is missing.",
        blameless(s, ["T21", "T20"], layer=["system_software", "scheduler", "user"], manifestation=["fail_on_start", "fail_stop"]),
    )


@plot
def requeue_chain(s: Scene) -> Case:
    host, k = s.rng.choice(s.hosts), s.rng.randrange(8)
    length = (s.end - s.start) / 3
    first = Attempt(s.job, "pretrain-b", list(s.hosts), s.start - 7000, s.start - 4000, "PREEMPTED")
    second = Attempt(s.job, "pretrain-b", list(s.hosts), s.start - 3600, s.start - 300, "CANCELLED by 0")
    fault = s.start + 2 * length
    opening(s, fault)
    s.log(host, fault, *say.identity(s, s.device(k)), say.xid(s.device(k), 79, say.OFF_BUS))
    s.end = say.timeouts(s, fault + 1, missing=[s.rank(host, k)]) + 20
    s.attempts += [first, second]
    s.book("FAILED", "1:0")
    s.quiet()
    noise(s, fault, host)
    return Case(
        "",
        "The third attempt of a requeued job meets a lost GPU",
        f"{s.device(k)} of {host} fell off the bus under the third attempt.",
        faulted(s, host, ["T04"], devices=[s.device(k)], layer=["gpu", "host"]),
        ("--job", s.job),
    )


@plot
def failed_without_any_output(s: Scene) -> Case:
    s.book("FAILED", "1:0")
    return Case(
        "",
        "Accounting says FAILED and there is nothing else",
        "Nothing tells why.",
        blameless(
            s,
            ["T24", "T20"],
            confidence=["insufficient"],
            action=["hold_and_collect", "restart_job", "fix_and_resubmit"],
            layer=["unknown", "user"],
        ),
    )


def _events(rows: list[tuple[str, str, str, str, str]]) -> str:
    table = [("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"), *rows]
    return "".join(f"{when:<11s} {kind:<9s} {reason:<22s} {thing:<26s} {text}\n" for when, kind, reason, thing, text in table)


@plot
def pod_killed_for_memory(s: Scene) -> Case:
    node = s.hosts[0]
    s.extra["events.txt"] = _events(
        [
            ("3m", "Warning", "OOMKilling", f"node/{node}", "Memory cgroup out of memory: Killed process 4411 (python3)"),
            ("3m", "Warning", "BackOff", "pod/llm-worker-2", "Back-off restarting failed container trainer in pod llm-worker-2_ml"),
        ]
    )
    s.extra["pods.txt"] = (
        "NAME           READY   STATUS      RESTARTS   AGE   IP         NODE\nllm-worker-0   1/1     Running     0 "
        f"         3d    10.0.0.4   {s.spares[0]}\nllm-worker-2   0/1     OOMKilled   0          3d    10.0.0.6   "
        f"{node}\n"
    )
    return Case(
        "",
        "A pod is killed for memory",
        "The container's memory limit.",
        {"class": ["T18"], "no_culprit": True, "healthy_hosts": [node], "layer": ["user", "host"], "action": MEND},
    )


@plot
def pod_evicted_for_disk(s: Scene) -> Case:
    s.extra["events.txt"] = _events(
        [
            (
                "2m",
                "Warning",
                "Evicted",
                "pod/llm-worker-3",
                "The node was low on resource: ephemeral-storage. Container trainer was using 210Gi, request is 0.",
            )
        ]
    )
    return Case("", "A pod is evicted for disk space", "Ephemeral storage ran out.", {"class": ["T18", "T21"], "no_culprit": True})


@plot
def kubernetes_node_lost(s: Scene) -> Case:
    node = s.hosts[0]
    s.extra["events.txt"] = _events(
        [
            ("4m", "Normal", "NodeNotReady", f"node/{node}", f"Node {node} status is now: NodeNotReady"),
            ("3m", "Warning", "NodeNotReady", "pod/llm-worker-1", "Node is not ready"),
            ("1m", "Normal", "TaintManagerEviction", "pod/llm-worker-1", "Marking for deletion Pod ml/llm-worker-1"),
        ]
    )
    s.extra["nodes.txt"] = (
        f"NAME   STATUS     ROLES   AGE   VERSION\n{s.spares[0]}   Ready      gpu     80d   v1.31.2\n{node}   "
        "NotReady   gpu     80d   v1.31.2\n"
    )
    return Case(
        "",
        "A Kubernetes node stops reporting",
        f"The kubelet of {node} stopped reporting; why is not known.",
        {
            "class": ["T24", "T21", "T15"],
            "no_culprit": True,
            "confidence": ["insufficient"],
            "action": COLLECT,
            "not_spares": [node],
            "healthy_hosts": s.spares[:1],
            "missing_any": ["kernel", "BMC", "SEL", "kubelet", node],
        },
    )


@plot
def image_pull_fails(s: Scene) -> Case:
    s.extra["events.txt"] = _events(
        [
            ("50s", "Warning", "Failed", "pod/llm-worker-1", "Error: ImagePullBackOff"),
            ("50s", "Warning", "Failed", "pod/llm-worker-1", 'Failed to pull image "reg.example.org/train:9": not found'),
        ]
    )
    return Case(
        "",
        "The image cannot be pulled",
        "The registry has no such image.",
        {"class": ["T21"], "no_culprit": True, "layer": ["system_software", "scheduler", "user"]},
    )


@plot
def two_jobs_one_failed(s: Scene) -> Case:
    """The folder holds another job's user fault; the question names the job with the lost GPU."""
    host, k = s.rng.choice(s.hosts), s.rng.randrange(8)
    fault = s.start + (s.end - s.start) * 0.6
    opening(s, fault)
    s.log(host, fault, say.xid(s.device(k), 119, say.GSP.format(k), 30100 + k))
    s.end = say.timeouts(s, fault + 1, missing=[s.rank(host, k)]) + 15
    other = str(int(s.job) + 3)
    s.book("FAILED", "1:0")
    s.attempts.append(Attempt(other, "eval", s.spares[:1], fault + 100, s.end + 500, "FAILED", "1:0", user="u8"))
    s.extra[f"slurm-{other}.out"] = (
        '[rank0]: Traceback (most recent call last):\n[rank0]:   File "/srv/eval/run.py", line 4, in '
        "<module>\n[rank0]: FileNotFoundError: [Errno 2] No such file or directory: '/data/eval.json'\n"
    )
    s.quiet()
    return Case(
        "",
        "Two failed jobs in one folder; the question names one",
        f"The GSP of {s.device(k)} on {host} stopped answering.",
        faulted(s, host, ["T05"], devices=[s.device(k)]),
        ("--job", s.job),
    )


@plot
def partial_nodelist_after_shrink(s: Scene) -> Case:
    """Two hosts of the job are lost together, on different racks and leaves: neither facility nor switch is implied."""
    gone = s.hosts[:1]
    fault = _fault(s)
    s.end = fault + 90
    s.book("NODE_FAIL", "0:0")
    say.allocated(s)
    say.lost_node(s, gone, s.end)
    s.controller.append((s.end - 60, f"error: Nodes {hostlist(gone)} not responding"))
    say.node_failed(s, gone[0], s.end + 1, s.hosts[-1])
    s.quiet(s.others(*gone))
    return Case(
        "",
        "A host stops answering in two steps",
        f"{gone[0]} stopped answering; no log of it.",
        blameless(
            s, ["T24", "T15"], healthy_hosts=s.others(*gone), confidence=["insufficient"], action=COLLECT, victims_any=s.others(*gone)
        ),
    )
