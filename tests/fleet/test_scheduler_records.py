"""A short story of a scheduler, told by its own records: attempts, requeues, preemption and downtime come out to the second.

The shapes are those of Slurm 22.05; a host is lost twice under a job of four hosts, the job comes back by preempting two others, and in the
end an operator takes the host away.
"""

from __future__ import annotations

from typing import Any

import pytest

from triage import desk
from triage.store import Store

SACCT = """\
JobID|JobIDRaw|JobName|User|Partition|NNodes|NodeList|AllocTRES|Submit|Start|End|State|ExitCode|Reason
1|1|pretrain|ana|high|4|cn-[01-04]|billing=4,cpu=384,gres/gpu=32,node=4|2031-05-06T10:00:00|2031-05-06T10:00:00|2031-05-06T10:20:00|NODE_FAIL|0:0|None
1|1|pretrain|ana|high|4|cn-[01-04]|billing=4,cpu=384,gres/gpu=32,node=4|2031-05-06T10:20:00|2031-05-06T10:22:30|2031-05-06T11:22:30|NODE_FAIL|0:0|None
1|1|pretrain|ana|high|4|cn-[01-04]|billing=4,cpu=384,gres/gpu=32,node=4|2031-05-06T11:22:30|2031-05-06T11:24:50|2031-05-06T11:30:50|NODE_FAIL|0:0|None
2|2|sweep-a|bob|low|1|cn-01|billing=1,cpu=96,gres/gpu=8,node=1|2031-05-06T10:20:10|2031-05-06T10:20:30|2031-05-06T10:22:30|PREEMPTED|0:0|None
3|3|sweep-b|bob|low|1|cn-02|billing=1,cpu=96,gres/gpu=8,node=1|2031-05-06T10:20:10|2031-05-06T10:20:30|2031-05-06T10:22:30|PREEMPTED|0:0|None
3|3|sweep-b|bob|low|1|cn-06|billing=1,cpu=96,gres/gpu=8,node=1|2031-05-06T10:22:30|2031-05-06T10:24:45|2031-05-06T10:44:45|COMPLETED|0:0|None
4|4|sweep-c|bob|low|1|cn-05|billing=1,cpu=96,gres/gpu=8,node=1|2031-05-06T10:20:10|2031-05-06T10:20:30|2031-05-06T10:50:30|COMPLETED|0:0|None
"""
EVENTS = """\
Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User
sim|cn-03|2031-05-06T10:20:00|2031-05-06T10:20:40|DOWN*|Not responding|slurm(64030)
sim|cn-03|2031-05-06T11:22:30|2031-05-06T11:22:50|DOWN*|Not responding|slurm(64030)
sim|cn-03|2031-05-06T11:30:50|Unknown|DOWN|third failure today, RMA ticket 1182|root(0)
sim|cn-05|2031-05-06T10:50:30|Unknown|DRAIN|Kernel: Xid 94 on GPU 3, row remap pending|slurm(64030)
"""
CONTROLLER = """\
[2031-05-06T10:20:00.648] requeue job JobId=1 due to failure of node cn-03
[2031-05-06T10:20:00.649] error: Nodes cn-03 not responding, setting DOWN
[2031-05-06T10:20:38.397] Node cn-03 now responding
[2031-05-06T10:22:30.972] preempted JobId=2 has been requeued to reclaim resources for JobId=1
[2031-05-06T10:22:30.973] preempted JobId=3 has been requeued to reclaim resources for JobId=1
[2031-05-06T10:41:10.664] update_node: node cn-05 reason set to: Kernel: Xid 94 on GPU 3, row remap pending
[2031-05-06T10:41:10.664] update_node: node cn-05 state set to DRAINING
[2031-05-06T11:22:30.424] requeue job JobId=1 due to failure of node cn-03
[2031-05-06T11:22:30.425] error: Nodes cn-03 not responding, setting DOWN
[2031-05-06T11:30:50.898] update_node: node cn-03 reason set to: third failure today, RMA ticket 1182
[2031-05-06T11:30:50.898] requeue job JobId=1 due to failure of node cn-03
[2031-05-06T11:30:50.898] update_node: node cn-03 state set to DOWN
[2031-05-06T12:00:00.000] Node cn-06 now responding
"""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> desk.Setup:
    folder = tmp_path_factory.mktemp("records")
    for name, text in {"sacct.txt": SACCT, "events.txt": EVENTS, "slurmctld.log": CONTROLLER}.items():
        (folder / name).write_text(text)
    setup = desk.Setup(str(folder / "story.duckdb"))
    desk.ingest(setup, [str(folder)])
    return setup


@pytest.fixture(scope="module")
def figures(db: desk.Setup) -> dict[str, Any]:
    return desk.stats(db, None)


def test_every_attempt_is_there_to_the_second(db: desk.Setup) -> None:
    with Store(db.path, write=False) as store:
        rows = store.frame("jobs").sort("job_id", "start").select("job_id", "attempt", "state", "start", "end", "preemptor", "failed_host")
    told = [
        (job, attempt, state, f"{start:%H:%M:%S}", f"{end:%H:%M:%S}", by, lost) for job, attempt, state, start, end, by, lost in rows.rows()
    ]
    assert told == [
        ("1", 0, "NODE_FAIL", "10:00:00", "10:20:00", None, "cn-03"),
        ("1", 1, "NODE_FAIL", "10:22:30", "11:22:30", None, "cn-03"),
        ("1", 2, "NODE_FAIL", "11:24:50", "11:30:50", None, "cn-03"),
        ("2", 0, "PREEMPTED", "10:20:30", "10:22:30", "1", None),
        ("3", 0, "PREEMPTED", "10:20:30", "10:22:30", "1", None),
        ("3", 1, "COMPLETED", "10:24:45", "10:44:45", None, None),
        ("4", 0, "COMPLETED", "10:20:30", "10:50:30", None, None),
    ]


def test_preemption_costs_what_was_taken(figures: dict[str, Any]) -> None:
    cost = figures["preemption"]
    assert cost["first_order_gpu_hours"] == pytest.approx(32 * (1200 + 1800) / 3600)
    assert cost["second_order_gpu_hours"] == pytest.approx(2 * 8 * 120 / 3600)
    assert (cost["preemptions"], cost["preemptions_by_failed_jobs"]) == (2, 2)
    assert cost["instigators"][0]["instigator"] == "1"


def test_an_operators_act_is_no_failure(figures: dict[str, Any]) -> None:
    every = next(row for row in figures["rates"] if row["what"] == "r_f, all jobs")
    assert every["failures"] == 2


def test_retries_are_one_chain(figures: dict[str, Any]) -> None:
    (chain,) = [row for row in figures["retries"] if row["name"] == "pretrain"]
    assert (chain["attempts"], chain["automatic"], chain["success"], chain["median_gap_s"]) == (3, True, False, 145.0)


def test_downtime_is_counted_once(figures: dict[str, Any]) -> None:
    found = figures["availability"]
    assert (found["outages"], found["mttr_h"] * 3600) == (2, pytest.approx(30))
    # until the last stamp, 12:00:00: cn-03 since 11:30:50, cn-05 since the operator's word at 10:41:10
    out = 40 + 20 + (29 * 60 + 10) + (78 * 60 + 50)
    assert figures["exposure"]["out_host_days"] * 86_400 == pytest.approx(out, abs=1)
    lost = {row["class"]: row["host_hours_out"] * 3600 for row in figures["by_class"] if row["host_hours_out"]}
    assert lost == {"T24": pytest.approx(60)}
