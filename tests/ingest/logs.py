"""Generated logs: lines of several kinds, also hostile ones, for properties."""

from __future__ import annotations

from hypothesis import strategies as st

HOSTS = ("qx-01", "qx-02", "qx-03")
LINES = (
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=812, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=4242, name=python3, Ch 08, intr 0. MMU Fault: ENGINE GRAPHICS faulted @ 0x7f_10000000.",
    "NVRM: Xid (PCI:0000:86:00): 94, pid=991, name=python3, Contained: SM (0x1). RST: No, D-RST: No",
    "NVRM: Xid (rubbish",
    "pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3b:00.0",
    "mlx5_core 0000:9f:00.0 ib2: Link down",
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x10 offset:0x0 grain:32)",
    "Out of memory: Killed process 4242 (python3) total-vm:1kB, anon-rss:2kB, file-rss:0kB, shmem-rss:0kB, UID:1000 "
    "pgtables:1kB oom_score_adj:0",
    "usb 1-1: new high-speed USB device number 4 using xhci_hcd",
    'audit: type=1400 audit(1772424000.175:23341): apparmor="STATUS"',
)
PLAIN = (
    "[rank3]:[E1112 05:10:00.104312001 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=88121, OpType=ALLREDUCE, NumelIn=4194304, NumelOut=4194304, Timeout(ms)=600000) "
    "ran for 600012 milliseconds before timing out.",
    "Traceback (most recent call last):",
    '  File "train.py", line 40, in main',
    "    loss = model(batch)",
    "TypeError: forward() missing 1 required positional argument",
    "JobID|State|NodeList|Start|End",
    "4711|FAILED|qx-[01-02]|2026-03-02T04:00:00|2026-03-02T05:00:00",
    "slurmstepd: error: *** JOB 4711 ON qx-01 CANCELLED AT 2026-03-02T05:00:00 DUE TO NODE FAILURE ***",
    "NCCL WARN something odd",
    "",
    "\x1b[31mNVRM: Xid (PCI:0000:3b:00): 48, pid=1, DBE\x1b[0m",
    " 10%|#         | 1/10 [00:01<00:09]\r 20%|##        | 2/10 [00:02<00:08]\rNVRM: Xid (PCI:0000:3b:00): 63, pid=1, row",
    "a" * 70_000 + " NVRM: Xid (PCI:0000:3b:00): 74, pid=1, NVLink " + "b" * 30_000,
)


def framed(second: int, host: str, text: str, kind: int) -> str:
    """The text as a syslog, journal or dmesg line, or bare."""
    if kind == 0:
        return f"Mar  2 04:{second // 60 % 60:02d}:{second % 60:02d} {host} kernel: {text}"
    if kind == 1:
        return f"2026-03-02T04:{second // 60 % 60:02d}:{second % 60:02d}.25+00:00 {host} kernel: [{9000 + second}.000125] {text}"
    return f"[{9000 + second}.250000] {text}"


KERNEL = st.builds(
    lambda step, host, text, kind, times: [(step, host, text, kind)] * times,
    st.integers(0, 3),
    st.sampled_from(HOSTS),
    st.sampled_from(LINES),
    st.integers(0, 2),
    st.sampled_from((1, 1, 1, 2, 5, 40)),
)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """A log of up to a few hundred lines, ends of lines and of the file varied."""
    second, lines = 0, []
    for part in draw(st.lists(st.one_of(KERNEL, st.sampled_from(PLAIN)), max_size=30)):
        if isinstance(part, str):
            lines.append(part)
            continue
        for step, host, text, kind in part:
            second += step
            lines.append(framed(second, host, text, kind))
    end = draw(st.sampled_from(("\n", "\n", "\r\n")))
    noise = draw(st.sampled_from((b"", b"\xff\xfe broken \x80\n", b"NVRM: Xid (PCI:0000:3b:00): 79, cut h")))
    return end.join(lines).encode() + (end.encode() if lines else b"") + noise
