"""The drill that the README shows: eight hosts, a lost GPU, a checkpoint, one log missing, and a spare worth having."""

from __future__ import annotations

from datetime import UTC, datetime

from triage import drill_lines as say
from triage.drill_plots import SURE, faulted, plot
from triage.drill_scene import ROUTINE, Attempt, Scene
from triage.drill_truth import Case

DAY = 86400.0


def _stage(s: Scene) -> None:
    """Names and clocks that do not depend on the seed."""
    s.hosts = [f"gpu-{n:03d}" for n in range(41, 49)]
    s.spares = ["gpu-049", "gpu-050", "gpu-051"]
    s.job, s.out_name = "48213", "slurm-{job}.out"
    s.style, s.zone, s.domain, s.folder, s.packed = "rsyslog", 0, "", "{}.kern.log", False
    s.train_style, s.step_ms, s.iteration = "megatron", 4210.0, 61200
    s.start = datetime(2026, 9, 17, 1, 12, 40, tzinfo=UTC).timestamp()


def _history(s: Scene, spare: str) -> None:
    """Thirty days of one idle host: finished jobs, and a kernel log that runs on without a fault."""
    for n in range(29, 0, -1):
        begin = s.start - n * DAY + 7200
        end = begin + 5 * 3600 + n * 60
        s.attempts.append(Attempt(str(47100 + 31 * (30 - n)), "eval-nightly", [spare], begin, end, "COMPLETED", user="u3044"))
        s.log(spare, begin + 90, s.rng.choice(ROUTINE))
    s.log(spare, s.start - 30 * DAY, s.rng.choice(ROUTINE))
    s.log(spare, s.end + 600, s.rng.choice(ROUTINE))


def _inventory(s: Scene) -> str:
    rows = ["host,rack,leaf_switch,gpu_model,gpus"]
    for n, host in enumerate([*s.hosts, *s.spares]):
        rack, leaf = ("r07", "leaf-07a") if n < 9 else ("r08", "leaf-08a")
        rows.append(f"{host},{rack},{leaf},H100-SXM5-80GB,8")
    return "\n".join(rows) + "\n"


@plot
def gpu_off_the_bus(s: Scene) -> Case:
    _stage(s)
    host, local, unread = "gpu-044", 5, "gpu-047"
    fault = s.start + 3 * 3600 + 1425.31
    say.init(s)
    say.checkpoint(s, fault - 1610, s.step_ms)
    say.steps(s, fault - 2, 9)
    device = s.device(local)
    s.log(host, fault, *say.identity(s, device), say.xid(device, 79, say.OFF_BUS), f"NVRM: GPU {device}.0: GPU has fallen off the bus.")
    s.log("gpu-042", fault - 700, *say.corrected_aer())
    last = say.timeouts(s, fault + 1.2, 600000, missing=[s.rank(host, local)], op="ALLREDUCE", seq=244871)
    s.end = last + 22
    say.torchrun(s, s.end - 9, 0, [(1, -6), (9, -6)], -6)
    say.step_killed(s, s.end - 2)
    _history(s, s.spares[0])
    s.book("FAILED", "1:0", name="pretrain-34b")
    s.quiet(lines=4)
    s.hidden.add(unread)
    s.extra["inventory.csv"] = _inventory(s)
    s.extra["sinfo.txt"] = say.sinfo((("idle", s.spares[:2]), ("drain", [*s.spares[2:], host]), ("idle", s.others(host))))
    want = {
        "devices": [device],
        "layer": ["gpu", "host"],
        "confidence": SURE,
        "spares_any": [s.spares[0]],
        "not_spares": [*s.hosts, s.spares[2]],
    }
    want["action"] = ["isolate_now", "reboot_host", "restart_on_spares"]
    want["evidence_any"] = ["fallen off the bus"]
    truth = f"{device} of {host} fell off the bus; 63 ranks waited. torchrun names rank 0, which only waited. {unread}'s log is missing."
    return Case("", "A GPU falls off the bus under a job of 64", truth, faulted(s, host, ["T04"], **want), ("--job", s.job))
