"""Drill plots of the host, its rack and its disks: power, heat, crashes, PCIe, memory, storage and used-up resources (T10, T15-T18)."""

from __future__ import annotations

from triage import drill_lines as say
from triage.drill_plots import COLLECT, MEND, SURE, TAKE_HOST, blameless, failed, faulted, noise, opening, plot, records
from triage.drill_scene import Scene, hostlist, stamp
from triage.drill_truth import Case


def sel(rows: list[tuple[float, str]]) -> str:
    """`ipmitool sel list`; rows are (time, text after the stamp)."""
    return "".join(f"{n:4x} | {stamp(at).strftime('%m/%d/%Y | %H:%M:%S')} | {text}\n" for n, (at, text) in enumerate(rows, 1))


def _node_fail(s: Scene, host: str, fault: float) -> None:
    """Slurm notices the loss one to four minutes later; the step's reporter is another host."""
    s.end = fault + s.rng.randint(60, 240)
    say.node_failed(s, host, s.end + 1, s.others(host)[0])
    s.book("NODE_FAIL", "0:0")
    say.allocated(s)
    say.lost_node(s, [host], s.end)


def _lost(s: Scene, minutes: float = 0) -> tuple[str, float]:
    host = s.rng.choice(s.hosts[1:])
    fault = s.start + (s.end - s.start) * s.rng.uniform(0.4, 0.9)
    opening(s, fault)
    return host, fault


@plot
def panic(s: Scene) -> Case:
    host, fault = _lost(s)
    s.style = s.style if s.style != "dmesg" else "rsyslog"
    s.log(
        host,
        fault,
        "BUG: unable to handle page fault for address: ffffa01c00b23000",
        "#PF: supervisor read access in kernel mode",
        "Oops: 0000 [#1] PREEMPT SMP NOPTI",
        "Kernel panic - not syncing: Fatal exception",
    )
    _node_fail(s, host, fault)
    s.quiet()
    _cut(s, host, fault + 0.01, fault + 400)
    noise(s, fault, host)
    return Case(
        "",
        "A kernel panic takes a host down",
        f"The kernel of {host} panicked.",
        faulted(s, host, ["T15"], layer=["host", "system_software"]),
    )


def _cut(s: Scene, host: str, silent: float, boot: float | None) -> None:
    """The kernel log of `host` has nothing after `silent`, but for a boot at `boot`."""
    s.kernel[host] = [row for row in s.kernel[host] if row[0] <= silent]
    if boot:
        s.log(host, boot, *say.boot_lines())
        s.log(host, boot + 20, "nvidia-uvm: Loaded the UVM driver, major device number 506.")


@plot
def lockup(s: Scene) -> Case:
    host, fault = _lost(s)
    lines = (
        ["NMI watchdog: Watchdog detected hard LOCKUP on cpu 41", "rcu: INFO: rcu_sched detected stalls on CPUs/tasks:"]
        if s.rng.random() < 0.5
        else [
            "watchdog: BUG: soft lockup - CPU#41 stuck for 26s! [kworker/41:1:8812]",
            "watchdog: BUG: soft lockup - CPU#41 stuck for 52s! [kworker/41:1:8812]",
        ]
    )
    s.log(host, fault, *lines)
    _node_fail(s, host, fault)
    s.quiet()
    _cut(s, host, fault + 0.1, None)
    return Case(
        "",
        "A locked-up kernel",
        f"The kernel of {host} locked up and the host stopped answering.",
        faulted(s, host, ["T15"], layer=["host", "system_software"], action=[*TAKE_HOST, "hold_and_collect"]),
    )


@plot
def spontaneous_reboot(s: Scene) -> Case:
    host, fault = _lost(s)
    s.style, s.folder = ("rsyslog", "{}.kern.log") if s.style.startswith("dmesg") else (s.style, s.folder)
    _node_fail(s, host, fault)
    s.quiet()
    _cut(s, host, fault, fault + 280)
    boot = int(fault + 280)
    s.controller.append(
        (fault + 360, f"validate_node_specs: Node {host} unexpectedly rebooted boot_time={boot} last response={int(fault) - 20}")
    )
    return Case(
        "",
        "A host reboots by itself without a trace",
        f"{host} rebooted; its log breaks off and starts again.",
        faulted(
            s,
            host,
            ["T15", "T24"],
            layer=["host", "unknown"],
            action=[*TAKE_HOST, "hold_and_collect"],
            confidence=None,
            manifestation=["fail_stop"],
            missing_any=["BMC", "SEL", "IPMI", "kdump", "pstore", "crash"],
        ),
    )


@plot
def orderly_reboot_under_a_job(s: Scene) -> Case:
    host, fault = _lost(s)
    s.style, s.folder, s.zone = "rsyslog", "{}.kern.log", 0
    _node_fail(s, host, fault)
    s.quiet()
    _cut(s, host, fault - 1, fault + 200)
    s.log(host, fault, "reboot: Restarting system")
    s.extra[f"{host}.messages"] = (
        f"{stamp(fault - 6).isoformat(timespec='microseconds')} {host} systemd-logind[1201]: System is rebooting.\n"
        f"{stamp(fault - 2).isoformat(timespec='microseconds')} {host} systemd[1]: Reached target reboot.target - System Reboot.\n"
    )
    return Case(
        "",
        "Somebody reboots a host under a job",
        f"{host} was rebooted in an orderly way while the job ran: operation, not a fault.",
        blameless(s, ["T23", "T15", "T24"], healthy_hosts=s.others(host)),
    )


@plot
def uncorrectable_dimm(s: Scene) -> Case:
    host, fault = _lost(s)
    s.log(
        host,
        fault - 2000,
        (
            "EDAC MC3: 1 CE memory read error on CPU_SrcID#1_MC#1_Chan#0_DIMM#1 (channel:0 slot:1 page:0x77aa "
            "offset:0x40 grain:32 syndrome:0x0)"
        ),
    )
    s.log(
        host,
        fault,
        "mce: Uncorrected hardware memory error in user-access at 2fb1c0de40",
        "Memory failure: 0x2fb1c0d: Sending SIGBUS to pt_main_thread:30104 due to hardware memory corruption",
        "EDAC MC3: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#0_DIMM#1 (channel:0 slot:1 page:0x2fb1c0d offset:0x0 grain:32)",
    )
    s.end = fault + 14
    say.peer_closed(s, host, s.others(host)[:2])
    say.torchrun(s, s.end - 3, s.rank(host, 4), [(s.rank(host, 0), -15)], -7)
    say.task_exit(s, host, "Bus error")
    records(s, "FAILED", "135:0")
    s.quiet()
    noise(s, fault, host)
    if s.rng.random() < 0.5:
        s.extra[f"{host}.sel.txt"] = sel(
            [(fault - 2000, "Memory #0x53 | Correctable ECC | Asserted"), (fault, "Memory #0x53 | Uncorrectable ECC | Asserted")]
        )
    return Case("", "An uncorrectable DIMM error kills a rank", f"{host} has a bad DIMM.", faulted(s, host, ["T16"], layer=["host"]))


@plot
def pcie_fatal_takes_nic(s: Scene) -> Case:
    host, fault = _lost(s)
    s.log(
        host,
        fault,
        *say.fatal_aer("0000:40:01.1"),
        "pcieport 0000:40:01.1: pciehp: Slot(5): Link Down",
        "mlx5_core 0000:41:00.0: poll_health:825: device's health compromised - reached miss count.",
    )
    say.completions(s, "10.21.7.44", s.others(host)[:4])
    say.peer_closed(s, host, s.others(host)[:2])
    s.end = fault + 25
    say.step_killed(s, s.end - 1, reporter=s.others(host)[0])
    records(s, "FAILED")
    s.quiet()
    noise(s, fault, host)
    return Case(
        "",
        "A fatal PCIe error removes a network card",
        f"The PCIe path of a NIC in {host} failed.",
        faulted(s, host, ["T16", "T12"], layer=["host", "network"]),
    )


@plot
def rack_without_power(s: Scene) -> Case:
    fault = s.start + (s.end - s.start) * 0.7
    if len(s.hosts) < 4:
        s.hosts = [*s.hosts, *s.spares][:4]
    lost, kept = s.hosts[:-1], s.hosts[-1]
    opening(s, fault)
    s.end = fault + 75
    for host in lost:
        s.extra[f"{host}.sel.txt"] = sel(
            [
                (fault, "Power Supply #0x61 | Power Supply AC lost | Asserted"),
                (fault, "Power Supply #0x62 | Power Supply AC lost | Asserted"),
                (fault + 1, "Power Unit #0x01 | Power off/down | Asserted"),
            ]
        )
    say.node_failed(s, hostlist(lost), s.end + 1, kept)
    say.allocated(s)
    say.lost_node(s, lost, s.end)
    s.quiet([kept])
    s.extra["inventory.csv"] = "host,rack,leaf_switch\n" + "".join(f"{h},r4,l4\n" for h in lost) + f"{kept},r5,l5\n"
    if s.rng.random() < 0.5:
        s.book("NODE_FAIL", "0:0")
    return Case(
        "",
        "A rack loses power",
        "Every host of one rack lost both supplies in the same second.",
        blameless(s, ["T10", "T15", "T16"], layer=["facility"], action=["escalate_facility"], victims_any=[kept]),
    )


@plot
def one_host_without_power(s: Scene) -> Case:
    host, fault = _lost(s)
    s.extra[f"{host}.sel.txt"] = sel(
        [
            (fault, "Power Supply #0x61 | Failure detected | Asserted"),
            (fault, "Power Supply #0x62 | Power Supply AC lost | Asserted"),
            (fault + 1, "Power Unit #0x01 | Power off/down | Asserted"),
        ]
    )
    _node_fail(s, host, fault)
    s.quiet()
    _cut(s, host, fault, None)
    return Case(
        "",
        "One host loses power",
        f"{host} alone lost power.",
        faulted(s, host, ["T10", "T15", "T16"], layer=["host", "facility"], action=[*TAKE_HOST, "escalate_facility", "hold_and_collect"]),
    )


@plot
def hot_rack(s: Scene) -> Case:
    fault = s.start + (s.end - s.start) * 0.6
    opening(s, fault)
    for n, host in enumerate(s.hosts):
        rows = [
            (fault + 7 * n, "Temperature Inlet Temp | Upper Non-critical going high | Asserted | Reading 41 > Threshold 40 degrees C"),
            (fault + 90 + 7 * n, "Temperature Inlet Temp | Upper Critical going high | Asserted | Reading 47 > Threshold 45 degrees C"),
        ]
        s.extra[f"{host}.sel.txt"] = sel(rows)
        s.log(host, fault + 120 + n, "CPU12: Package temperature is above threshold, cpu clock is throttled (total events = 7)")
    say.steps(s, fault + 400, 8, 6900)
    s.book("RUNNING")
    s.end = fault + 400
    s.attempts[0].end = s.end
    s.quiet(lines=2)
    s.extra["inventory.csv"] = "host,rack,leaf_switch\n" + "".join(f"{h},r4,l4\n" for h in s.hosts)
    return Case(
        "",
        "The whole rack is hot",
        "All hosts of a rack report inlet temperature above the limit: cooling.",
        blameless(s, ["T10"], layer=["facility"], action=["escalate_facility"], gpu_hours=None),
    )


@plot
def one_hot_host(s: Scene) -> Case:
    host, fault = _lost(s)
    s.log(
        host,
        fault - 60,
        *(f"CPU{n}: Package temperature is above threshold, cpu clock is throttled (total events = {n})" for n in (3, 17, 44)),
    )
    s.log(
        host,
        fault,
        "thermal thermal_zone0: acpitz: critical temperature reached (103 C), shutting down",
        "thermal thermal_zone0: HARDWARE PROTECTION shutdown (Temperature too high)",
    )
    s.extra[f"{host}.sel.txt"] = sel(
        [
            (fault - 200, "Fan FAN4 | Lower Critical going low  | Asserted | Reading 0 < Threshold 500 RPM"),
            (fault - 20, "Temperature CPU1 Temp | Upper Critical going high | Asserted | Reading 104 > Threshold 100 degrees C"),
        ]
    )
    _node_fail(s, host, fault)
    s.quiet()
    _cut(s, host, fault + 1, None)
    return Case(
        "",
        "One host overheats and shuts down",
        f"A fan of {host} stopped; the host shut itself down.",
        faulted(s, host, ["T10", "T15"], layer=["host", "gpu", "facility"]),
    )


@plot
def file_server_evicts_all(s: Scene) -> Case:
    fault = s.start + (s.end - s.start) * 0.6
    ost = f"work-OST00{s.rng.randint(10, 40)}"
    opening(s, fault)
    for n, host in enumerate(s.hosts):
        s.log(
            host,
            fault + n / 5,
            (
                f"Lustre: {ost}-osc-ffff8a01b3c0d{n}00: Connection to {ost} (at 172.16.8.31@o2ib1) was lost; in "
                "progress operations using this service will wait for recovery to complete"
            ),
        )
        s.log(
            host,
            fault + 180 + n / 5,
            (
                f"LustreError: 167-0: {ost}-osc-ffff8a01b3c0d{n}00: This client was evicted by {ost}; in progress "
                "operations using this service will fail."
            ),
        )
    for host in s.hosts:
        s.out.append(f"[rank{s.rank(host)}]: OSError: [Errno 5] Input/output error: '/scratch/run/ckpt/part_{s.rank(host):03d}.pt'")
    s.end = fault + 200
    failed(s)
    return Case(
        "",
        "A file server evicts its clients",
        f"{ost} failed for all hosts: storage.",
        blameless(s, ["T17"], layer=["storage"], action=["escalate_storage", "restart_job", "hold_and_collect"], confidence=SURE),
    )


@plot
def nfs_server_hangs(s: Scene) -> Case:
    fault = s.start + (s.end - s.start) * 0.6
    opening(s, fault)
    for n, host in enumerate(s.hosts):
        s.log(host, fault + n, "nfs: server nas-proj not responding, still trying")
        s.log(host, fault + 150 + n, f"INFO: task pt_main_thread:3010{n} blocked for more than 122 seconds.")
    s.end = say.timeouts(s, fault + 4, 600000) + 20
    failed(s)
    return Case(
        "",
        "The NFS server stops answering; every rank times out",
        "nas-proj stopped answering every host; the NCCL timeouts follow from it.",
        blameless(
            s,
            ["T17"],
            layer=["storage"],
            action=["escalate_storage", "restart_job", "hold_and_collect"],
            confidence=SURE,
            manifestation=["fail_hang", "fail_stop"],
        ),
    )


@plot
def local_nvme_fails(s: Scene) -> Case:
    host, fault = _lost(s)
    s.log(
        host,
        fault,
        "nvme nvme2: I/O 411 (I/O Cmd) QID 9 timeout, aborting",
        "nvme nvme2: Abort status: 0x371",
        "blk_update_request: I/O error, dev nvme2n1, sector 88120344 op 0x1:(WRITE) flags 0x8800 phys_seg 4 prio class 0",
        "EXT4-fs error (device nvme2n1): ext4_journal_check_start:83: comm pt_data_worker: Detected aborted journal",
        "EXT4-fs (nvme2n1): Remounting filesystem read-only",
    )
    rank = s.rank(host, 3)
    say.raised(s, rank, f"OSError: [Errno 30] Read-only file system: '/local/cache/shard_{rank:04d}.bin'")
    say.peer_closed(s, host, s.others(host)[:2])
    s.end = fault + 12
    say.task_exit(s, host)
    failed(s)
    noise(s, fault, host)
    return Case(
        "",
        "The local NVMe of one host fails",
        f"{host}'s NVMe failed; its file system went read-only.",
        faulted(s, host, ["T17", "T16", "T18"], layer=["storage", "host"]),
    )


@plot
def host_memory_used_up(s: Scene) -> Case:
    host, fault = _lost(s)
    pid, rank = s.rng.randint(40000, 60000), s.rank(host, 5)
    s.log(host, fault, *say.oom_lines(s.job, pid))
    say.raised(
        s,
        rank,
        f"RuntimeError: DataLoader worker (pid {pid}) is killed by signal: Killed. ",
        [("/opt/py/lib/python3.11/site-packages/torch/utils/data/dataloader.py", 1133, "_try_get_data")],
    )
    say.peer_closed(s, host, s.others(host)[:2])
    s.end = fault + 8
    s.out.append(f"slurmstepd: error: Detected 1 oom_kill event in StepId={s.job}.0. Some of the step tasks have been OOM Killed.")
    say.task_exit(s, host, "Out Of Memory")
    s.book("OUT_OF_MEMORY", "0:125")
    s.quiet()
    return Case(
        "",
        "The kernel kills a data-loader worker for memory",
        f"The job's memory cgroup on {host} was full.",
        blameless(
            s, ["T18"], layer=["user", "host"], action=MEND, confidence=SURE, manifestation=["fail_stop"], victims_any=s.others(host)
        ),
    )


@plot
def no_space_left(s: Scene) -> Case:
    fault = s.start + (s.end - s.start) * 0.6
    opening(s, fault)
    for host in s.hosts:
        say.raised(
            s,
            s.rank(host),
            f"OSError: [Errno 28] No space left on device: '/scratch/run/ckpt/part_{s.rank(host):03d}.pt'",
            [("/opt/py/lib/python3.11/site-packages/torch/serialization.py", 850, "save")],
        )
    s.end = fault + 15
    say.torchrun(s, s.end - 3, 0, [(1, -15)])
    records(s, "FAILED")
    s.quiet()
    return Case(
        "",
        "The scratch space is full",
        "The checkpoint could not be written: no space left (or over quota).",
        blameless(s, ["T18", "T17"], layer=["user", "host", "storage"], action=[*MEND, "escalate_storage", "hold_and_collect"]),
    )


@plot
def one_client_loses_the_server(s: Scene) -> Case:
    host, fault = _lost(s)
    s.log(
        host,
        fault,
        (
            "LustreError: 167-0: work-OST0007-osc-ffff8a01b3c0d800: This client was evicted by work-OST0007; in "
            "progress operations using this service will fail."
        ),
    )
    say.raised(s, s.rank(host, 2), "OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/scratch/data/shard_17.bin'")
    say.peer_closed(s, host, s.others(host)[:2])
    s.end = fault + 14
    failed(s)
    return Case(
        "",
        "One client is evicted, the others are not",
        f"Only {host} lost the file server: its client, its link, or the server.",
        blameless(s, ["T17"], layer=["storage", "network", "host"], no_culprit=None, healthy_hosts=s.others(host), action=None),
    )


@plot
def operator_downs_a_host(s: Scene) -> Case:
    host, fault = _lost(s)
    s.end = fault
    s.book("NODE_FAIL", "0:0")
    say.allocated(s)
    s.controller += [
        (fault, f"update_node: node {host} reason set to: swap power supply, CHG0041"),
        (fault + 0.001, f"requeue job JobId={s.job} due to failure of node {host}"),
        (fault + 0.002, f"update_node: node {host} state set to DOWN"),
    ]
    say.node_failed(s, host, fault + 1, s.others(host)[0])
    s.extra["sinfo-R.txt"] = say.reasons([("swap power supply, CHG0041", "ops", fault, [host])])
    s.quiet()
    return Case(
        "",
        "An operator sets a host DOWN under a job",
        f"An operator took {host} down for planned work.",
        blameless(
            s, ["T23"], layer=["scheduler"], healthy_hosts=s.others(host), action=["none", "monitor", "restart_job", "restart_on_spares"]
        ),
    )


@plot
def node_fail_without_its_log(s: Scene) -> Case:
    host, fault = _lost(s)
    _node_fail(s, host, fault)
    s.quiet()
    s.hidden.add(host)
    return Case(
        "",
        "A host is lost and its log was not collected",
        f"Slurm lost {host}; nothing of that host is in the folder.",
        blameless(
            s,
            ["T24", "T15"],
            layer=["unknown", "host"],
            healthy_hosts=s.others(host),
            action=COLLECT,
            confidence=["insufficient"],
            missing_any=[host, "kernel", "BMC", "SEL"],
            victims_any=s.others(host),
            not_victims=[host],
        ),
    )


@plot
def node_fail_with_a_quiet_log(s: Scene) -> Case:
    host, fault = _lost(s)
    _node_fail(s, host, fault)
    s.quiet(lines=9)
    return Case(
        "",
        "A host is lost although its kernel log is quiet and goes on",
        f"Slurm lost {host}; its kernel log runs on without a trace: slurmd or the network.",
        blameless(
            s,
            ["T24", "T21", "T15"],
            healthy_hosts=s.others(host),
            no_culprit=None,
            action=[*COLLECT, "monitor", "isolate_now"],
            layer=["unknown", "scheduler", "system_software", "host", "network"],
            confidence=["insufficient", "possible"],
        ),
    )


@plot
def same_host_lost_twice(s: Scene) -> Case:
    host = s.rng.choice(s.hosts[1:])
    third = (s.end - s.start) / 3
    first_end = s.start + third
    s.attempts.append(type(s.book("NODE_FAIL"))(s.job, "pretrain-b", list(s.hosts), s.start, first_end, "NODE_FAIL"))
    s.attempts.pop(0)
    say.allocated(s)
    say.lost_node(s, [host], first_end)
    s.controller += [(first_end + 30, f"Node {host} now responding"), (first_end + 31, f"update_node: node {host} state set to IDLE")]
    s.controller.append(
        (first_end + 60, f"sched: Allocate JobId={s.job} NodeList={hostlist(s.hosts)} #CPUs={96 * len(s.hosts)} Partition=train")
    )
    say.lost_node(s, [host], s.end)
    s.attempts.append(type(s.attempts[0])(s.job, "pretrain-b", list(s.hosts), first_end + 60, s.end, "NODE_FAIL"))
    return Case(
        "",
        "The same host takes the job down twice",
        f"{host} was lost under two attempts.",
        {
            "class": ["T24", "T15", "T21"],
            "culprits": [host],
            "healthy_hosts": s.others(host),
            "victims_any": s.others(host),
            "not_victims": [host],
            "not_spares": list(s.hosts),
            "missing_any": ["kernel", "BMC", "SEL", "dmesg"],
            "action": ["isolate_now", "restart_on_spares", "hold_and_collect", "drain_at_job_end", "reboot_host"],
        },
        ("--job", s.job),
    )
