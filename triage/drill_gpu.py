"""Drill plots of the GPU: memory, bus, firmware, links inside a host, and the faults that programs raise on it (T01-T09)."""

from __future__ import annotations

from collections.abc import Sequence

from triage import drill_lines as say
from triage.drill_plots import COLLECT, MEND, SURE, TAKE_HOST, blameless, failed, faulted, noise, opening, plot, records
from triage.drill_scene import Scene
from triage.drill_truth import Case


def _hang(s: Scene, host: str, local: int, fault: float, minutes: int = 10) -> None:
    """All ranks but one wait; their watchdogs print, and the job ends."""
    last = say.timeouts(s, fault + s.rng.uniform(1, 3), minutes * 60000, missing=[s.rank(host, local)])
    say.teardown_nccl(s, last, [0])
    s.end = last + s.rng.randint(15, 40)
    other = s.rng.choice(s.others(host))
    say.torchrun(s, s.end - 4, s.rank(other, 0), [(s.rank(other, 1), -6)], -6)
    say.step_killed(s, s.end - 2)


def _stop(s: Scene, host: str, local: int, fault: float, error: str) -> None:
    """One rank dies within seconds; the others lose it."""
    say.raised(s, s.rank(host, local), error)
    say.peer_closed(s, host, s.others(host)[:3])
    s.end = fault + s.rng.randint(8, 19)
    say.task_exit(s, host)
    say.step_killed(s, s.end - 1, reporter=s.rng.choice(s.hosts))


def _broken(
    s: Scene,
    classes: Sequence[str],
    messages: Sequence[str],
    how: str,
    title: str,
    truth: str,
    *,
    local: int,
    error: str = "",
    **more: object,
) -> Case:
    """One GPU of one host prints `messages` and the job hangs or stops."""
    host = s.rng.choice(s.hosts)
    fault = s.start + (s.end - s.start) * s.rng.uniform(0.5, 0.9)
    opening(s, fault)
    s.log(host, fault, *say.identity(s, s.device(local)), *messages)
    if how == "hang":
        _hang(s, host, local, fault, s.rng.choice((10, 10, 15, 30)))
    else:
        _stop(s, host, local, fault, error or "RuntimeError: CUDA error: unspecified launch failure")
    records(s, "FAILED", "1:0" if how == "hang" else s.rng.choice(("1:0", "134:0")))
    s.quiet()
    noise(s, fault, host)
    filled = truth.format(host=host, device=s.device(local))
    return Case("", title, filled, faulted(s, host, classes, **({"devices": [s.device(local)]} | more)))


@plot
def off_bus_hang(s: Scene) -> Case:
    k = s.rng.randrange(8)
    d = s.device(k)
    lines = [say.xid(d, 79, say.OFF_BUS), f"NVRM: GPU {d}.0: GPU has fallen off the bus."]
    return _broken(
        s,
        ["T04"],
        lines,
        "hang",
        "GPU off the bus, then timeouts on every other rank",
        "{device} of {host} fell off the bus; the other ranks waited for it.",
        local=k,
        layer=["gpu", "host"],
    )


@plot
def off_bus_three_lines(s: Scene) -> Case:
    k = s.rng.randrange(8)
    lines = [
        f"NVRM: The NVIDIA GPU {s.device(k)}.0",
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    ]
    return _broken(
        s,
        ["T04"],
        lines,
        "hang",
        "GPU lost, in the driver's form without an XID",
        "{device} of {host} fell off the bus; the driver printed no XID.",
        local=k,
        layer=["gpu", "host"],
    )


@plot
def off_bus_after_pcie_fatal(s: Scene) -> Case:
    k = s.rng.randrange(8)
    lines = [*say.fatal_aer("0000:15:01.0"), "pcieport 0000:15:01.0: pciehp: Slot(3): Link Down", say.xid(s.device(k), 79, say.OFF_BUS)]
    return _broken(
        s,
        ["T16", "T04"],
        lines,
        s.rng.choice(("hang", "stop")),
        "A fatal PCIe error, then the GPU behind it is lost",
        "A fatal PCIe error on {host} came first; {device} fell off the bus a moment later.",
        local=k,
        layer=["gpu", "host"],
        devices=None,
    )


@plot
def double_bit_error(s: Scene) -> Case:
    k = s.rng.randrange(8)
    d = s.device(k)
    lines = [
        say.xid(d, 48, say.DBE),
        *([say.remap(d, 63)] if s.rng.random() < 0.5 else []),
        say.channel(d, 30100 + k, 48 if s.rng.random() < 0.5 else None),
    ]
    return _broken(
        s,
        ["T01"],
        lines,
        "stop",
        "Uncorrectable GPU memory error ends a rank",
        "XID 48 on {device} of {host} ended one rank and with it the job.",
        local=k,
        error="RuntimeError: CUDA error: uncorrectable ECC error encountered",
        layer=["gpu"],
    )


@plot
def uncontained_95(s: Scene) -> Case:
    k = s.rng.randrange(8)
    d = s.device(k)
    lines = [
        say.xid(d, 95, "Uncontained: FBHUB (0x4). RST: Yes, D-RST: No", 30100 + k),
        say.channel(d, 30100 + k),
        say.xid(d, 154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
    ]
    return _broken(
        s,
        ["T01"],
        lines,
        "stop",
        "Uncontained ECC error",
        "XID 95 on {device} of {host}: the error was not contained.",
        local=k,
        error="RuntimeError: CUDA error: uncorrectable ECC error encountered",
        layer=["gpu"],
    )


@plot
def contained_94(s: Scene) -> Case:
    k = s.rng.randrange(8)
    d = s.device(k)
    lines = [*([say.remap(d, 63)] if s.rng.random() < 0.7 else []), say.xid(d, 94, "Contained: SM (0x1). RST: No, D-RST: No", 30100 + k)]
    return _broken(
        s,
        ["T02"],
        lines,
        "stop",
        "A contained ECC error ends one process",
        "XID 94 on {device} of {host} killed one rank; the GPU stays usable.",
        local=k,
        error="RuntimeError: CUDA error: uncorrectable ECC error encountered",
        layer=["gpu"],
        action=["restart_job", "restart_on_spares", "drain_at_job_end", "reset_gpu"],
    )


@plot
def gsp_119(s: Scene) -> Case:
    k = s.rng.randrange(8)
    d = s.device(k)
    lines = [say.xid(d, s.rng.choice((119, 119, 120)), say.GSP.format(k), 30100 + k)]
    lines += (
        [f"NVRM: Rate limiting GSP RPC error prints for GPU at PCI:{d} (printing 1 of every 30).  The GPU likely needs to be reset."]
        if s.rng.random() < 0.4
        else []
    )
    return _broken(
        s,
        ["T05"],
        lines,
        "hang",
        "GSP firmware stops answering",
        "The GSP of {device} on {host} stopped answering; the other ranks waited.",
        local=k,
        layer=["gpu", "system_software"],
    )


@plot
def gsp_asks_reboot(s: Scene) -> Case:
    k = s.rng.randrange(8)
    d = s.device(k)
    lines = [
        say.xid(d, 119, say.GSP.format(k)),
        say.xid(d, 154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"),
    ]
    return _broken(
        s,
        ["T05"],
        lines,
        "hang",
        "GSP timeout, and the driver asks for a reboot",
        "The GSP of {device} on {host} stopped answering and the driver asks for a reboot of the node.",
        local=k,
        layer=["gpu", "system_software"],
        action=["reboot_host", "isolate_now"],
    )


@plot
def pmu_then_mmu(s: Scene) -> Case:
    k = s.rng.randrange(8)
    d = s.device(k)
    lines = [say.xid(d, s.rng.choice((122, 122, 123)), say.PMU), say.mmu(d, 30100 + k), say.channel(d, 30100 + k, 31)]
    return _broken(
        s,
        ["T06"],
        lines,
        "stop",
        "PMU failure, then an MMU fault on the same GPU",
        "XID 122 on {device} of {host} came first; the MMU fault follows from it.",
        local=k,
        error="RuntimeError: CUDA error: an illegal memory access was encountered",
        layer=["gpu"],
    )


@plot
def nvlink_74(s: Scene) -> Case:
    k = s.rng.randrange(7)
    peer = (k + 3) % 8
    lines = [
        say.xid(s.device(k), 74, say.NVLINK.format(s.rng.randrange(18))),
        say.xid(s.device(peer), 74, say.NVLINK.format(s.rng.randrange(18))),
    ]
    return _broken(
        s,
        ["T07"],
        lines,
        s.rng.choice(("hang", "stop")),
        "An NVLink between two GPUs fails",
        "An NVLink inside {host} failed at {device}.",
        local=k,
        layer=["interconnect", "gpu"],
        devices=None,
    )


@plot
def nvlink5_149_fatal(s: Scene) -> Case:
    k = s.rng.randrange(8)
    d = s.device(k)
    lines = [
        say.xid(d, 149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 07 (0x004505c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"),
        say.xid(d, 154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
    ]
    return _broken(
        s,
        ["T07"],
        lines,
        "stop",
        "NVLink5 reports a fatal link event",
        "XID 149 (fatal) on {device} of {host}.",
        local=k,
        layer=["interconnect", "gpu"],
    )


@plot
def switch_fatal_many_gpus(s: Scene) -> Case:
    k = 2
    lines = [
        "nvidia-nvswitch2: SXid (PCI:0000:89:00.0): 20034, Fatal, Link 33 LTSSM Fault Up",
        "nvidia-nvswitch2: SXid (PCI:0000:89:00.0): 20034, Severity 1 Engine instance 33 Sub-engine instance 00",
        *(say.xid(s.device(n), 74, say.NVLINK.format(9)) for n in (0, 2, 5, 7)),
    ]
    return _broken(
        s,
        ["T07"],
        lines,
        s.rng.choice(("hang", "stop")),
        "An NVSwitch fails and four GPUs of the host report their links",
        "A fatal SXID on {host}; several GPUs lost NVLink.",
        local=k,
        layer=["interconnect", "gpu"],
        devices=None,
    )


@plot
def mmu_after_double_bit(s: Scene) -> Case:
    k = s.rng.randrange(8)
    d = s.device(k)
    lines = [say.xid(d, 48, say.DBE), say.mmu(d, 30100 + k), say.channel(d, 30100 + k, 31)]
    return _broken(
        s,
        ["T01"],
        lines,
        "stop",
        "A memory error, then an MMU fault on the same GPU",
        "XID 48 on {device} of {host} came first.",
        local=k,
        error="RuntimeError: CUDA error: an illegal memory access was encountered",
        layer=["gpu"],
    )


@plot
def teardown_45_everywhere(s: Scene) -> Case:
    k = s.rng.randrange(8)
    case = _broken(
        s,
        ["T04"],
        [say.xid(s.device(k), 79, say.OFF_BUS)],
        "hang",
        "A lost GPU, and XID 45 on every host when the job is torn down",
        "{device} of {host} was lost; the XID 45 lines on every host are teardown.",
        local=k,
        layer=["gpu", "host"],
    )
    for host in s.hosts:
        for n in range(0, 8, 2):
            s.log(host, s.end - 3 + n / 50, say.channel(s.device(n), 30100 + n))
    return case


@plot
def two_gpus_off_bus(s: Scene) -> Case:
    k = s.rng.randrange(6)
    lines = [say.xid(s.device(k), 79, say.OFF_BUS), say.xid(s.device(k + 1), 79, say.OFF_BUS)]
    return _broken(
        s,
        ["T04", "T16"],
        lines,
        "hang",
        "Two GPUs of one host are lost together",
        "{device} and its neighbour on {host} fell off the bus in the same second: power or board.",
        local=k,
        layer=["gpu", "host"],
        devices=[s.device(k), s.device(k + 1)],
    )


@plot
def debugger_near_the_report(s: Scene) -> Case:
    k = s.rng.randrange(8)
    code, text, pid = s.rng.choice(((119, say.GSP.format(k), 30100 + k), (79, say.OFF_BUS, None)))
    case = _broken(
        s,
        ["T05"] if code == 119 else ["T04"],
        [say.xid(s.device(k), code, text, pid)],
        "hang",
        "The fault came long before the report; a debugger's XID came just before it",
        "The GPU {device} of {host} failed long before the watchdogs printed; the application XID beside the report is unrelated.",
        local=k,
    )
    other = s.rng.choice(s.others(case.expect["culprits"][0]))
    near = s.end - 60
    s.log(
        other,
        near,
        s.rng.choice(
            (
                say.xid(s.device(1), 43, "Ch 0000001a", 88120, "cuda-gdb"),
                say.mmu(s.device(1), 88120),
                say.xid(s.device(1), 13, "Graphics SM Warp Exception on (GPC 2, TPC 1, SM 0): Illegal Address", 88120, "a.out"),
            )
        ),
    )
    return case


@plot
def remap_failure_64(s: Scene) -> Case:
    host, k = s.hosts[0], s.rng.randrange(8)
    s.log(host, s.end - 900, *say.identity(s, s.device(k)), say.remap(s.device(k), 64))
    s.quiet([host])
    return Case(
        "",
        "No spare rows left",
        f"XID 64 on {s.device(k)} of {host}: the GPU must be replaced.",
        {
            "class": ["T03"],
            "layer": ["gpu"],
            "action": ["replace_hardware", "isolate_now"],
            "confidence": SURE,
            "culprits": [host],
            "devices": [s.device(k)],
            "not_spares": [host],
        },
    )


@plot
def remap_event_63_only(s: Scene) -> Case:
    host, k = s.rng.choice(s.hosts), s.rng.randrange(8)
    opening(s, s.end)
    s.log(host, s.end - 1900, say.remap(s.device(k), 63))
    records(s, "COMPLETED", "0:0")
    s.quiet()
    return Case(
        "",
        "A row is marked for remapping under a job that finishes",
        f"XID 63 on {s.device(k)} of {host}; nothing failed; reset the GPU when the host is free.",
        {
            "class": ["T03"],
            "layer": ["gpu"],
            "action": ["drain_at_job_end", "reset_gpu", "monitor"],
            "culprits": [host],
            "healthy_hosts": s.others(host),
            "gpu_hours": [0, 0.01],
            "not_victims": s.others(host),
        },
    )


@plot
def mmu_on_every_host(s: Scene) -> Case:
    fault = s.start + 95
    say.init(s, 4)
    say.steps(s, fault - 1, 3)
    for n, host in enumerate(s.hosts):
        for local in range(s.rng.choice((3, 8))):
            s.log(host, fault + 0.15 * n + 0.01 * local, say.mmu(s.device(local), 30100 + local))
    for rank in (0, 1, 8, 9):
        s.out.append(f"[rank{rank}]: RuntimeError: CUDA error: an illegal memory access was encountered")
    s.end = fault + 9
    failed(s)
    return Case(
        "",
        "The same MMU fault on every host of one job",
        "An out-of-range access in the program; no GPU is bad.",
        blameless(s, ["T08", "T20"], layer=["user", "system_software"], action=MEND),
    )


@plot
def mmu_on_one_rank(s: Scene) -> Case:
    host, k = s.rng.choice(s.hosts), s.rng.randrange(8)
    fault = s.start + (s.end - s.start) * 0.4
    opening(s, fault)
    s.log(host, fault, say.mmu(s.device(k), 30100 + k))
    _stop(s, host, k, fault, "RuntimeError: CUDA error: an illegal memory access was encountered")
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "One MMU fault on one rank, nothing else",
        f"XID 31 on {s.device(k)} of {host}: program or hardware; one occurrence takes no host away.",
        blameless(s, ["T08", "T20"], action=[*MEND, *COLLECT], layer=["user", "unknown", "gpu", "system_software"]),
    )


@plot
def application_13_43(s: Scene) -> Case:
    s.hosts = s.hosts[:1]
    host, k = s.hosts[0], s.rng.randrange(8)
    fault = s.end - 9
    rows = [
        say.xid(s.device(k), 13, f"Graphics SM Warp Exception on (GPC {n % 7}, TPC {n % 5}, SM {n % 2}): Out Of Range Address")
        for n in range(12)
    ]
    s.log(host, fault, *rows, say.xid(s.device(k), 43, "Ch 00000010", 30100 + k, "python3"))
    say.raised(
        s, k, "RuntimeError: CUDA error: an illegal memory access was encountered", [("/home/u3021/exp/fused_norm.py", 61, "forward")]
    )
    say.torchrun(s, s.end - 2, k, [(0, -15)])
    s.quiet()
    records(s, "FAILED")
    return Case(
        "",
        "A user's kernel faults",
        f"XID 13 on many SMs and 43 on {host}: the user's own kernel.",
        blameless(s, ["T09", "T20"], layer=["user"], action=MEND),
    )


@plot
def ecc_by_cuda_without_kernel_log(s: Scene) -> Case:
    host, k = s.rng.choice(s.hosts), s.rng.randrange(8)
    fault = s.end - 12
    opening(s, fault)
    say.raised(s, s.rank(host, k), "RuntimeError: CUDA error: uncorrectable ECC error encountered")
    say.peer_closed(s, host, s.others(host)[:2])
    say.task_exit(s, host)
    say.step_killed(s, s.end - 1)
    s.quiet()
    s.hidden.add(host)
    records(s, "FAILED")
    return Case(
        "",
        "CUDA reports uncorrectable ECC; the host's kernel log is not there",
        f"Rank {s.rank(host, k)} on {host} met an uncorrectable ECC error.",
        faulted(
            s,
            host,
            ["T01"],
            confidence=["probable", "possible", "confirmed"],
            action=[*TAKE_HOST, "hold_and_collect"],
            ranks=[s.rank(host, k)],
            missing_any=[host, "kernel", "dmesg"],
        ),
    )


@plot
def gpu_init_failed_at_start(s: Scene) -> Case:
    host, k = s.rng.choice(s.hosts), s.rng.randrange(8)
    s.end = s.start + s.rng.randint(40, 110)
    s.log(
        host,
        s.start + 15,
        f"NVRM: GPU {s.device(k)}.0: RmInitAdapter failed! (0x62:0x40:2393)",
        f"NVRM: GPU {s.device(k)}.0: rm_init_adapter failed, device minor number {k}",
    )
    say.raised(s, s.rank(host, k), "RuntimeError: No CUDA GPUs are available", [("/srv/job/pretrain.py", 31, "main")])
    say.torchrun(s, s.end - 5, s.rank(host, k), [(s.rank(host, (k + 1) % 8), -15)])
    say.task_exit(s, host)
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "A GPU cannot be initialised when the job starts",
        f"{s.device(k)} of {host} does not initialise.",
        faulted(s, host, ["T04", "T05"], devices=[s.device(k)], manifestation=["fail_on_start", "fail_stop"], victims_any=None),
    )


@plot
def nonfatal_nvlink_beside_a_program_fault(s: Scene) -> Case:
    fault = s.end - 8
    opening(s, fault)
    host = s.rng.choice(s.hosts)
    s.log(
        host,
        fault - 1300,
        say.xid(
            s.device(2), 145, "RLW_REMAP Nonfatal XC1 i0 Link 03 (0x00000485 0x00000001 0x00000000 0x00000000 0x00000000 0x00000000)", 30102
        ),
    )
    for rank in range(0, len(s.hosts) * 8, 3):
        say.raised(
            s, rank, "ValueError: expected sequence of length 4096 at dim 1 (got 4095)", [("/srv/job/data/collate.py", 58, "collate")]
        )
    failed(s)
    return Case(
        "",
        "A non-fatal NVLink line long before a ValueError",
        "The program raised ValueError on the ranks; the non-fatal XID 145 twenty minutes earlier did no harm.",
        blameless(s, ["T20"], layer=["user"], action=MEND),
    )


@plot
def same_gpu_again(s: Scene) -> Case:
    k = s.rng.randrange(8)
    case = _broken(
        s,
        ["T04"],
        [say.xid(s.device(k), 79, say.OFF_BUS)],
        "hang",
        "The same GPU is lost for the third time in a week",
        "{device} of {host} fell off the bus again.",
        local=k,
        layer=["gpu", "host"],
    )
    host = case.expect["culprits"][0]
    for days in (2.3, 4.9):
        s.log(host, s.start - days * 86400, say.xid(s.device(k), 79, say.OFF_BUS))
        if s.style != "dmesg":
            s.log(host, s.start - days * 86400 + 1800, *say.boot_lines())
    if s.style == "dmesg":
        s.style, s.folder = "rsyslog", "{}.kern.log"
    case.expect["action"] = ["isolate_now", "replace_hardware", "restart_on_spares"]
    return case


@plot
def neighbour_job_at_risk(s: Scene) -> Case:
    k = s.rng.randrange(8)
    case = _broken(
        s,
        ["T04"],
        [say.xid(s.device(k), 79, say.OFF_BUS)],
        "hang",
        "A lost GPU on a host that another job shares",
        "{device} of {host} is lost; another job still runs on that host.",
        local=k,
        layer=["gpu", "host"],
    )
    host = case.expect["culprits"][0]
    if not s.attempts:
        s.book("FAILED", "1:0")
    other = str(int(s.job) + 7)
    row = type(s.attempts[0])(other, "serve", [host], s.start + 300, s.end + 900, "RUNNING", "0:0", 2, "u77")
    s.attempts.append(row)
    expect = {**case.expect, "at_risk_any": [other]}
    return Case("", case.title, case.truth, expect, ("--job", s.job))
