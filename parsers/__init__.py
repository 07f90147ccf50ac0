"""Dialects of logs, in the order in which they are asked. A new one is one module and one line here."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from parsers import (
    boot_clock,
    c10d,
    disks,
    exceptions,
    fabric,
    flight,
    gpu_tables,
    gpu_tools,
    inventory,
    ipmi,
    k8s,
    k8s_json,
    kernel,
    launch,
    links,
    nccl,
    nvrm,
    oom,
    pcie,
    sacct,
    sacctmgr,
    scontrol,
    sinfo,
    slurm_json,
    slurmctld,
    slurmd,
    slurmstep,
    squeue,
    stacks,
    storage,
    torchrun,
    train,
    xid,
)
from parsers.contract import Dialect

MODULES: tuple[ModuleType, ...] = (
    xid,
    nvrm,
    pcie,
    boot_clock,
    kernel,
    oom,
    disks,
    links,
    storage,
    fabric,
    ipmi,
    gpu_tools,
    gpu_tables,
    slurmctld,
    slurmd,
    slurmstep,
    sacct,
    squeue,
    sinfo,
    scontrol,
    sacctmgr,
    slurm_json,
    k8s,
    k8s_json,
    inventory,
    nccl,
    c10d,
    torchrun,
    train,
    exceptions,
    launch,
    flight,
    stacks,
)


def _all() -> Iterator[Dialect]:
    for module in MODULES:
        if hasattr(module, "DIALECTS"):
            yield from module.DIALECTS
        elif hasattr(module, "DIALECT"):
            yield module.DIALECT


DIALECTS: tuple[Dialect, ...] = tuple(_all())
