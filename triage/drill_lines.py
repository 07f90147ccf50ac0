"""What programs print in a drill: training output, the launcher, NCCL, the scheduler's step daemon, and the kernel's messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from triage.drill_scene import BUSES, Scene, hostlist, plain, stamp

# --- job output ------------------------------------------------------------------------------------------------------------------


def init(s: Scene, every: int = 1) -> None:
    """NCCL's lines that tie ranks to hosts and devices."""
    world = len(s.hosts) * s.gpus
    for host in s.hosts:
        for local in range(0, s.gpus, every):
            rank = s.rank(host, local)
            s.out.append(
                f"{host}:{30100 + local}:{30700 + local} [{local}] NCCL INFO ncclCommInitRank comm "
                f"0x5581{rank:04x}4000 rank {rank} nranks {world} "
                f"cudaDev {local} nvmlDev {local} busId {BUSES[local]}000 commId 0x4c1be07733ad0e91 - Init COMPLETE"
            )


def step(s: Scene, at: float, ms: float, loss: str = "", norm: str = "0.284") -> None:
    """One iteration line, printed at `at`."""
    s.iteration += 1
    loss = loss or f"{2.2 + 90 / (s.iteration + 50):.6E}"
    stamped = stamp(at).strftime("%Y-%m-%d %H:%M:%S")
    if s.train_style == "deepspeed":
        s.out.append(
            f"[{stamped},{int(at % 1 * 1000):03d}] [INFO] [logging.py:96:log_dist] [Rank 0] step={s.iteration}, "
            "skipped=0, lr=[0.0003], mom=[(0.9, 0.95)]"
        )
        s.out.append(
            f"steps: {s.iteration} loss: {float(loss) if loss != 'nan' else loss} iter time (s): {ms / 1000:.3f} "
            f"samples/sec: {512 * 1000 / ms:.3f}"
        )
        return
    s.out.append(
        f" [{stamped}] iteration {s.iteration:8d}/  400000 | consumed samples: {s.iteration * 512:12d} | elapsed "
        f"time per iteration (ms): {ms:.1f} | "
        f"learning rate: 3.000000E-04 | global batch size:   512 | lm loss: {loss} | loss scale: 1.0 | grad norm: {norm} | "
        f"number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def steps(s: Scene, last: float, count: int = 6, ms: float = 0, jitter: float = 0.004) -> float:
    """`count` iterations that end at `last`; returns the time of one in milliseconds."""
    ms = ms or s.step_ms
    for n in range(count):
        step(s, last - (count - 1 - n) * ms / 1000, ms * (1 + s.rng.uniform(-jitter, jitter)))
    return ms


def checkpoint(s: Scene, at: float, ms: float) -> None:
    """A checkpoint between two steps; sets `s.saved`."""
    step(s, at - 12, ms)
    s.out.append(f"saving checkpoint at iteration {s.iteration:7d} to /scratch/run/ckpt in torch_dist format")
    s.out.append(f"  successfully saved checkpoint from iteration {s.iteration:7d} to /scratch/run/ckpt [ t 1/2, p 1/1 ]")
    step(s, at, ms)
    s.saved = at


def glog(at: float) -> str:
    when = stamp(at)
    return f"E{when.month}{when.day:02d} {when.strftime('%H:%M:%S')}.{int(at % 1 * 1e9):09d}"


def timeouts(
    s: Scene,
    started: float,
    ms: int = 600000,
    ranks: Iterable[int] | None = None,
    missing: Sequence[int] = (),
    op: str = "ALLREDUCE",
    seq: int = 0,
) -> float:
    """The watchdog's line of each waiting rank, printed `ms` after `started`; returns the time of the last."""
    seq = seq or s.rng.randint(2000, 90000)
    chosen = list(ranks) if ranks is not None else [r for r in range(len(s.hosts) * s.gpus) if r not in missing]
    s.rng.shuffle(chosen)
    at = started + ms / 1000
    for n, rank in enumerate(chosen):
        ran = ms + 20 + n * 3
        at = started + ran / 1000 + s.rng.uniform(0, 0.2)
        s.out.append(
            f"[rank{rank}]:[{glog(at)} ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation "
            f"timeout: WorkNCCL(SeqNum={seq}, OpType={op}, "
            f"NumelIn=6291456, NumelOut=6291456, Timeout(ms)={ms}) ran for {ran} milliseconds before timing out."
        )
    return at


def teardown_nccl(s: Scene, at: float, ranks: Sequence[int]) -> None:
    """What follows the watchdog on some ranks."""
    for rank in ranks:
        s.out.append(
            f"[rank{rank}]:[{glog(at)} ProcessGroupNCCL.cpp:681] [Rank {rank}] Some NCCL operations have failed or "
            "timed out. Due to the asynchronous nature of CUDA kernels, "
            "subsequent GPU operations might run on corrupted/incomplete data."
        )
        s.out.append(
            f"[rank{rank}]:[{glog(at)} ProcessGroupNCCL.cpp:695] [Rank {rank}] To avoid data inconsistency, we are "
            "taking the entire process down."
        )


def heartbeat(s: Scene, at: float, rank: int) -> None:
    s.out.append(
        f"[rank{rank}]:[{glog(at)} ProcessGroupNCCL.cpp:1553] [PG ID 0 PG GUID 0 Rank {rank}] ProcessGroupNCCL's "
        "watchdog got stuck for 480 seconds without making progress in monitoring "
        "enqueued collectives. This typically indicates a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking the "
        "watchdog, and could be triggered by another thread holding the GIL inside "
        "a CUDA api, or other deadlock-prone behaviors."
    )


def peer_closed(s: Scene, by: str, to: Iterable[str], local: int = 1) -> None:
    """NCCL's fall-out on the hosts `to`: the connection to `by` broke."""
    for host in to:
        s.out.append(
            f"{host}:{30100 + local}:{30900 + local} [{local}] misc/socket.cc:71 NCCL WARN socketProgress: "
            f"Connection closed by remote peer {by}<{39000 + s.rng.randint(0, 999)}>"
        )
        s.out.append(f"{host}:{30100 + local}:{30900 + local} [{local}] NCCL INFO misc/socket.cc:809 -> 6")
        rank = s.rank(host, local)
        s.out.append(
            f"[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: "
            "../torch/csrc/distributed/c10d/NCCLUtils.hpp:268, remote process exited or there was a network error, "
            "NCCL version 2.21.5"
        )


def completions(s: Scene, peer_ip: str, to: Iterable[str], status: int = 12) -> None:
    """Completion errors that the peers of a broken port print."""
    for n, host in enumerate(to):
        s.out.append(
            f"{host}:{30100 + n % 8}:{30800 + n % 8} [{n % 8}] transport/net_ib.cc:1615 NCCL WARN NET/IB : Got "
            f"completion from peer {peer_ip}<{40000 + n}> with status={status} opcode=129 "
            f"len=131072 vendor err {129 if status == 12 else 249} (Recv) localGid ::ffff:10.21.3.{n + 1} remoteGids::ffff:{peer_ip}"
        )


def raised(
    s: Scene, rank: int, error: str, frames: Sequence[tuple[str, int, str]] = (("/srv/job/pretrain.py", 214, "train_step"),)
) -> None:
    """A Python traceback on one rank."""
    s.out.append(f"[rank{rank}]: Traceback (most recent call last):")
    for path, line, name in frames:
        s.out.append(f'[rank{rank}]:   File "{path}", line {line}, in {name}')
    s.out.append(f"[rank{rank}]: {error}")


def torchrun(s: Scene, at: float, root: int, exits: Sequence[tuple[int, int]], code: int = 1, node: str = "") -> None:
    """torchrun's block: the other exits as (rank, code), then the rank that it calls the root cause."""
    when = stamp(at).strftime("%Y-%m-%d_%H:%M:%S")
    s.out += ["torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "=" * 60, "pretrain.py FAILED", "-" * 60, "Failures:"]
    for n, (rank, status) in enumerate(exits, 1):
        s.out += _exit(s, n, when, rank, status, node)
    s.out += ["-" * 60, "Root Cause (first observed failure):", *_exit(s, 0, when, root, code, node), "=" * 60]


def _exit(s: Scene, number: int, when: str, rank: int, code: int, node: str) -> list[str]:
    host = node or s.hosts[rank // s.gpus]
    pid = 30100 + rank % s.gpus
    signal = {-15: "  (SIGTERM)", -9: "  (SIGKILL)", -6: "  (SIGABRT)", -11: "  (SIGSEGV)", -7: "  (SIGBUS)"}.get(code, " ")
    note = (
        f"Signal {-code} ({signal.strip(' ()')}) received by PID {pid}"
        if code < 0
        else "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    )
    return [
        f"[{number}]:",
        f"  time      : {when}",
        f"  host      : {host}",
        f"  rank      : {rank} (local_rank: {rank % s.gpus})",
        f"  exitcode  : {code} (pid: {pid}){signal}",
        "  error_file: <N/A>",
        f"  traceback : {note}",
    ]


def step_killed(s: Scene, at: float, why: str = "", reporter: str = "") -> None:
    """The last lines of srun and slurmstepd; `why` such as ` DUE TO TIME LIMIT`."""
    s.out.append("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.")
    s.out.append(f"slurmstepd: error: *** STEP {s.job}.0 ON {reporter or s.hosts[0]} CANCELLED AT {plain(at)}{why} ***")


def node_failed(s: Scene, host: str, at: float, reporter: str = "") -> None:
    s.out.append(f"srun: error: Node failure on {host}")
    step_killed(s, at, " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", reporter)


def task_exit(s: Scene, host: str, code: str = "Exited with exit code 1") -> None:
    s.out.append(f"srun: error: {host}: task {s.hosts.index(host)}: {code}")


# --- the scheduler ---------------------------------------------------------------------------------------------------------------


def allocated(s: Scene) -> None:
    s.controller.append((s.start, f"sched: Allocate JobId={s.job} NodeList={hostlist(s.hosts)} #CPUs={96 * len(s.hosts)} Partition=train"))


def completed(s: Scene, code: int) -> None:
    s.controller.append((s.end, f"_job_complete: JobId={s.job} WEXITSTATUS {code}"))
    s.controller.append((s.end + 0.002, f"_job_complete: JobId={s.job} done"))


def lost_node(s: Scene, hosts: Sequence[str], at: float, job: str | None = None) -> None:
    """The controller gives up on hosts and requeues the job."""
    s.controller.append((at, f"requeue job JobId={job or s.job} due to failure of node {hosts[0]}"))
    s.controller.append((at + 0.001, f"error: Nodes {hostlist(hosts)} not responding, setting DOWN"))


def sinfo(rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """`sinfo` with states; rows are (state, hosts)."""
    lines = ["PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST"]
    lines += [f"train*       up   infinite {len(hosts):6d} {state:>6s} {hostlist(hosts)}" for state, hosts in rows if hosts]
    return "\n".join(lines) + "\n"


def reasons(rows: Sequence[tuple[str, str, float, Sequence[str]]]) -> str:
    """`sinfo -R`; rows are (reason, user, time, hosts)."""
    lines = ["REASON               USER      TIMESTAMP           NODELIST"]
    lines += [f"{reason[:20]:<20s} {user:<9s} {plain(at)} {hostlist(hosts)}" for reason, user, at, hosts in rows]
    return "\n".join(lines) + "\n"


def inventory(s: Scene, rack: str, leaf: str, elsewhere: str = "") -> str:
    """An inventory CSV; spares stand on `elsewhere` where that is given."""
    lines = ["host,rack,leaf_switch,gpu_model,gpus"]
    lines += [f"{host},{rack},{leaf},H100,8" for host in s.hosts]
    lines += [f"{host},{rack},{elsewhere or leaf},H100,8" for host in s.spares]
    return "\n".join(lines) + "\n"


# --- the kernel ------------------------------------------------------------------------------------------------------------------


def xid(device: str, code: int, text: str, pid: int | None = None, name: str = "pt_main_thread") -> str:
    who = f"pid={pid}, name={name}" if pid else "pid='<unknown>', name=<unknown>"
    return f"NVRM: Xid (PCI:{device}): {code}, {who}, {text}"


def identity(s: Scene, device: str) -> tuple[str, str]:
    tail = "".join(s.rng.choices("0123456789abcdef", k=12))
    return (
        f"NVRM: GPU at PCI:{device}: GPU-7f31c0de-19a4-4b60-8e55-{tail}",
        f"NVRM: GPU Board Serial Number: 16{s.rng.randint(10**10, 10**11 - 1)}",
    )


def mmu(device: str, pid: int | None = 30100, address: str = "7f21_d4a00000") -> str:
    return xid(
        device,
        31,
        f"Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_2 faulted @ 0x{address}. Fault "
        "is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
        pid,
    )


def channel(device: str, pid: int, previous: int | None = None) -> str:
    return xid(device, 45, "Ch 00000012" + (f" caused by previous Xid {previous}" if previous else ""), pid)


def remap(device: str, code: int) -> str:
    text = (
        "Row Remapper: New row (0x00000003a51c08c0) marked for remapping, reset gpu to activate."
        if code == 63
        else "Row Remapper Error: (0x00000003a51c08c0) - All reserved rows for bank are remapped"
    )
    return xid(device, code, text)


DBE = (
    "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at physAddr 0x3a51c08c0 "
    "partition 5, subpartition 1."
)
OFF_BUS = "GPU has fallen off the bus."
GSP = "Timeout after 45s of waiting for RPC response from GPU{} GSP! Expected function 76 (GSP_RM_CONTROL) (0x20800a4c 0x10)."
PMU = "PMU SPI Failure: Failed to read 0x200 bytes at 0x31000"
NVLINK = "NVLink: fatal error detected on link {}(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)"


def corrected_aer(port: str = "0000:16:02.0") -> tuple[str, ...]:
    return (
        f"pcieport {port}: AER: Corrected error received: {port}",
        f"pcieport {port}: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        f"pcieport {port}:   device [8086:347a] error status/mask=00000001/00002000",
    )


def fatal_aer(port: str) -> tuple[str, ...]:
    return (
        f"pcieport {port}: AER: Uncorrected (Fatal) error received: {port}",
        f"pcieport {port}: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)",
        f"pcieport {port}:   device [8086:352a] error status/mask=00000020/00100000",
    )


def boot_lines() -> tuple[str, ...]:
    return (
        "Linux version 6.5.0-41-generic (build@lab) (gcc 12.3.0) #41-Ubuntu SMP",
        "Command line: BOOT_IMAGE=/boot/vmlinuz-6.5.0-41-generic root=/dev/md0 ro",
        "x86/fpu: Supporting XSAVE feature 0x001: 'x87 floating point registers'",
    )


def oom_lines(job: str, pid: int, task: str = "python3") -> tuple[str, ...]:
    return (
        f"{task} invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0",
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0-1,oom_memcg=/slurm/uid_3021/job_{job},task_memcg=/slurm/uid_3021/job_{job}/step_0,task={task},pid={pid},uid=3021",
        f"Memory cgroup out of memory: Killed process {pid} ({task}) total-vm:91002312kB, anon-rss:67108864kB, "
        "file-rss:90112kB, shmem-rss:2048kB, UID:3021 pgtables:150112kB oom_score_adj:0",
    )
