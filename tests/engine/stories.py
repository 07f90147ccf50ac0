"""A small incident as files: a GPU leaves the bus under a job, whose ranks time out ten minutes later."""

from __future__ import annotations

from pathlib import Path

LOST = """\
2026-06-01T10:00:00.000000+00:00 {host} kernel: CPU17: Core temperature/speed normal
2026-06-01T10:49:05.000000+00:00 {host} kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
2026-06-01T12:00:00.000000+00:00 {host} kernel: CPU18: Core temperature/speed normal
"""
QUIET = "\n".join(line for line in LOST.splitlines() if "Xid" not in line) + "\n"
YEARLESS = "Jun  1 10:58:59 n3 kernel: [ 9001.000001] mlx5_core 0000:1a:00.0: mlx5_1: Port: 1 Link DOWN\n"
SACCT = """\
JobID|JobName|User|Partition|NNodes|NodeList|AllocTRES|Submit|Start|End|Elapsed|State|ExitCode
8842|pretrain|ann|gpu|3|n[1-3]|gres/gpu=24,node=3|2026-06-01T09:58:00|2026-06-01T10:00:03|2026-06-01T11:00:00|00:59:57|FAILED|1:0
8843|eval|ann|gpu|1|n4|gres/gpu=8,node=1|2026-06-01T09:58:00|2026-06-01T11:30:00|2026-06-01T11:40:00|00:10:00|COMPLETED|0:0
"""
TIMEOUT = (
    "[rank{rank}]:[E601 10:59:0{rank}.000000000 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
)
STORY = {
    "n1.kern.log": QUIET.format(host="n1"),
    "n2.kern.log": LOST.format(host="n2"),
    "n3.kern.log": YEARLESS + YEARLESS.replace("10:58:59", "10:59:30").replace("DOWN", "UP"),
    "sacct.txt": SACCT,
    "slurm-8842.out": "".join(TIMEOUT.format(rank=rank) for rank in range(6)),
}


def story(folder: Path) -> Path:
    """Write the story into a new folder."""
    folder.mkdir()
    for name, text in STORY.items():
        (folder / name).write_text(text)
    return folder
