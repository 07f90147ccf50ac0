"""Folders of logs that are made rather than kept: a job on two hundred hosts, and texts that want to be more than text."""

from __future__ import annotations

from pathlib import Path

LINE = "2026-07-01T{at}.000000+00:00 {host} kernel: {text}\n"
INIT = "{h}:90:91 [0] NCCL INFO comm 0x9 rank {r} nranks {n} cudaDev 0 nvmlDev 0 busId 1a000 commId 0x4 - Init COMPLETE"
TIMEOUT = (
    "[rank{r}]:[E701 11:10:02.100000000 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600031 milliseconds before timing out."
)
ACCOUNTING = "JobID|JobName|State|ExitCode|NNodes|NodeList|Start|End\n"
LOST = "NVRM: Xid (PCI:0000:5d:00): 79, pid=7, GPU has fallen off the bus."
CONTAINED = "NVRM: Xid (PCI:0000:{bus}:00): 94, pid=811, name=python3, Contained: SM (0x1). RST: No, D-RST: No"
UUID = "GPU-0badf00d-1111-2222-3333-4444555566"
XID = "NVRM: Xid (PCI:0000:5d:00):"
PIECES = (
    "<script>window.zq=1</script>",
    "<img src=x onerror=window.zq=1>",
    "<svg onload=window.zq=1>",
    '"><iframe src=//zq.example>',
    "\x1b[31;1m\x1b]0;zq\x07",
    "\u202ezq\u2066\u200b",
    "{{7*7}}${zq}",
    "[zq](javascript:window.zq=1)",
)
"""Script, markup, terminal escapes, turned writing, templates, links."""


def big_folder(folder: Path, hosts: int = 200) -> None:
    """A job on many hosts in racks of twenty: one loses a GPU, some had faults of their own before, three have no kernel log."""
    names = [f"k{n // 20:02d}-n{n % 20:02d}" for n in range(hosts)]
    for place, host in enumerate(names):
        if place % 67 == 5:
            continue
        text = [LINE.format(at="10:00:00", host=host, text="usb 1-1: device")]
        text += [LINE.format(at=f"10:{n:02d}:00", host=host, text=CONTAINED.format(bus=f"{n + 20:x}")) for n in range(1, place % 29 // 6)]
        text += [LINE.format(at="11:00:00", host=host, text=LOST)] * (place == 77)
        text += [LINE.format(at="12:00:00", host=host, text="usb 1-1: device")]
        (folder / f"{host}.kern.log").write_text("".join(text), encoding="utf-8")
    out = [INIT.format(h=host, r=rank, n=hosts) for rank, host in enumerate(names)]
    out += [TIMEOUT.format(r=r) for r in range(hosts)]
    (folder / "slurm-900.out").write_text("\n".join(out) + "\n", encoding="utf-8")
    record = f"900|big|FAILED|1:0|{hosts}|{','.join(names)}|2026-07-01T10:00:00|2026-07-01T11:10:30\n"
    (folder / "sacct.txt").write_text(ACCOUNTING + record, encoding="utf-8")
    rows = [f"{host},rack-{host[:3]},leaf-{int(host[1:3]) // 2},8,H100\n" for host in names]
    (folder / "inventory.csv").write_text("host,rack,leaf_switch,gpus,gpu_model\n" + "".join(rows), encoding="utf-8")


def hostile_folder(folder: Path) -> None:
    """Every place that a log gives to a report holds one of PIECES: hosts, racks, jobs, users, reasons, messages, paths."""
    inner = folder / "logs <b>zq<i>"
    inner.mkdir()
    for place, piece in enumerate(PIECES):
        host = f"edge-{place:02d}"
        text = [
            LINE.format(at="10:00:00", host=host, text=f"NVRM: GPU at PCI:0000:5d:00: GPU-0badf00d-1111-2222-3333-4444555566{place:02d}"),
            LINE.format(at="10:30:00", host=host, text=f"NVRM: Xid (PCI:0000:5d:00): 63, pid=7, name={piece}, Row remap pending"),
            LINE.format(
                at=f"11:00:{place:02d}", host=host, text=f"NVRM: Xid (PCI:0000:5d:00): 79, pid=7, name={piece}, GPU has fallen off."
            ),
        ]
        name = piece.replace("/", "_")
        (inner / f"{host}.{name}.log").write_text("".join(text), encoding="utf-8")
    record = "{n}|{piece}|FAILED|1:0|8|{hosts}|2026-07-01T10:00:00|2026-07-01T{end}\n"
    rows = [record.format(n=n, piece=piece, hosts=f"{PIECES[n % 3]},edge-09", end=f"10:1{n}:30") for n, piece in enumerate(PIECES)]
    own = record.format(n=77, piece=PIECES[0], hosts="edge-[00-07]", end="11:01:30")
    (inner / "sacct.txt").write_text(ACCOUNTING + "".join(rows) + own, encoding="utf-8")
    inventory = [f'edge-{n:02d},"{piece}","{piece}",8,"{piece}"\n' for n, piece in enumerate(PIECES) if '"' not in piece]
    odd = [f'"{piece}",r1,l1,8,H100\n' for piece in PIECES if '"' not in piece]
    (inner / "inventory.csv").write_text("host,rack,leaf_switch,gpus,gpu_model\n" + "".join(inventory + odd), encoding="utf-8")
    trace = [f'[rank{n}]:   File "/x/{piece}.py", line 1\n[rank{n}]: RuntimeError: {piece}\n' for n, piece in enumerate(PIECES)]
    init = [INIT.format(h=f"edge-{n:02d}", r=n, n=len(PIECES)) + "\n" for n in range(len(PIECES))]
    (inner / "slurm-77.out").write_text("".join([*init, "[rank0]: Traceback (most recent call last):\n", *trace]), encoding="utf-8")
    drained = "".join(f'"{piece}"|root|2026-07-01T11:00:09|edge-0{n}\n' for n, piece in enumerate(PIECES))
    (inner / "reasons.txt").write_text("REASON|USER|TIMESTAMP|NODELIST\n" + drained, encoding="utf-8")


__all__ = ["PIECES", "big_folder", "hostile_folder"]
