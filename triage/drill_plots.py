"""The register of drill plots, and what most of them share: how a job opens, how it ends, what lies about, and what to expect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from triage import drill_lines as say
from triage.drill_scene import Scene
from triage.drill_truth import Case

Plot = Callable[[Scene], Case]
PLOTS: dict[str, Plot] = {}

TAKE_HOST = ["isolate_now", "reboot_host", "reset_gpu", "replace_hardware", "restart_on_spares"]
SURE = ["confirmed", "probable"]
STOP = ["fail_stop", "fail_hang"]
COLLECT = ["hold_and_collect", "restart_job", "restart_on_spares"]
MEND = ["fix_and_resubmit", "rollback_change", "restart_job"]


def plot(function: Plot) -> Plot:
    """Registers a plot under its name, with dashes."""
    PLOTS[function.__name__.strip("_").replace("_", "-")] = function
    return function


def opening(s: Scene, fault: float, *, every: int = 0, ms: float = 0) -> float:
    """The job starts, perhaps saves a checkpoint, and steps until `fault`; returns the step time in milliseconds."""
    say.init(s, every or s.rng.choice((1, 1, 4)))
    if s.rng.random() < 0.4 and fault - s.start > 2400:
        say.checkpoint(s, s.rng.uniform(s.start + 600, fault - 900), ms or s.step_ms)
        # the excerpt leaves out the steps between the checkpoint and the last ones
        s.iteration += int((fault - (s.saved or fault)) * 1000 / (ms or s.step_ms))
    return say.steps(s, fault - 1, s.rng.randint(5, 14), ms)


def records(s: Scene, state: str, code: str = "1:0", controller: Callable[[], None] | None = None) -> None:
    """What the scheduler kept: accounting, the controller's log, or both."""
    which = s.rng.choice(("sacct", "sacct", "both", "controller" if state in ("FAILED", "COMPLETED") else "both"))
    if which != "controller":
        s.book(state, code)
    if which != "sacct":
        say.allocated(s)
        if controller:
            controller()
        elif state == "FAILED":
            say.completed(s, int(code.split(":", maxsplit=1)[0]) or 1)
        elif state == "COMPLETED":
            say.completed(s, 0)
    if s.rng.random() < 0.4:
        s.extra["sinfo.txt"] = say.sinfo((("idle", s.spares[:2]), ("drain", s.spares[2:]), ("alloc", s.hosts)))


def failed(s: Scene) -> None:
    """The job's end as all see it: its step is killed, the scheduler says FAILED, the other hosts' logs go on."""
    say.step_killed(s, s.end - 1)
    records(s, "FAILED")
    s.quiet()


def noise(s: Scene, around: float, culprit: str) -> None:
    """Things that look like causes and are none, on healthy hosts."""
    healthy = s.others(culprit)
    for _ in range(s.rng.choice((0, 1, 1, 2))):
        host = s.rng.choice(healthy or s.spares)
        kind = s.rng.choice(("aer", "remap", "user", "segfault", "ce", "eth"))
        if kind == "aer":
            s.log(host, around - s.rng.uniform(-60, 900), *say.corrected_aer())
        elif kind == "remap":
            s.log(host, s.start + s.rng.uniform(60, 600), say.remap(s.device(6), 63))
        elif kind == "user":
            s.log(s.spares[0], around + s.rng.uniform(-20, 500), say.xid(s.device(1), 43, "Ch 0000001c", 77120, "python3"))
        elif kind == "segfault":
            s.log(
                host,
                around - 1200,
                "node_exporter[4411]: segfault at 8 ip 000000000045d1a2 sp 000000c000123e80 error 4 in node_exporter[400000+8c1000]",
            )
        elif kind == "ce":
            s.log(
                host,
                around - 700,
                (
                    "EDAC MC1: 1 CE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x91ac "
                    "offset:0x80 grain:32 syndrome:0x0)"
                ),
            )
        else:
            s.log(host, around - 3000, "igb 0000:c1:00.0 eno1: igb: eno1 NIC Link is Down")
            s.log(host, around - 2994, "igb 0000:c1:00.0 eno1: igb: eno1 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: RX")


def faulted(s: Scene, culprit: str, classes: Sequence[str], **more: Any) -> dict[str, Any]:
    """What to expect where one host's own hardware, kernel or services broke the job."""
    want: dict[str, Any] = {
        "class": list(classes),
        "manifestation": STOP,
        "action": TAKE_HOST,
        "confidence": SURE,
        "culprits": [culprit],
        "healthy_hosts": s.others(culprit),
    }
    if s.others(culprit):
        want |= {"victims_any": s.others(culprit), "not_victims": [culprit]}
    return _costed(s, want, more)


def blameless(s: Scene, classes: Sequence[str], **more: Any) -> dict[str, Any]:
    """What to expect where no host is to blame."""
    want: dict[str, Any] = {"class": list(classes), "no_culprit": True, "healthy_hosts": list(s.hosts)}
    return _costed(s, want, more)


def _costed(s: Scene, want: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    want["not_spares"] = list(s.hosts) + (s.spares[2:] if "sinfo.txt" in s.extra else [])
    counted = any(" nranks " in line for line in s.out)
    if s.attempts or (s.controller and counted):
        want["gpu_hours"] = s.lost()
    want |= more
    return {key: value for key, value in want.items() if value is not None}
