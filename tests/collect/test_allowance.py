"""What may be run, and what may not, however it is dressed."""

from __future__ import annotations

import shlex
import time

import pytest

from triage import rulebook
from triage.collect_allowance import SHAPES, is_host, refused
from triage.collect_plan import Scope, rest
from triage.rulebook import Rulebook

ALLOWED = """
sacct -D -P -j 48213_7 -o JobIDRaw,State,NodeList
sacct -a -D -X -S 2026-09-17T04:21:26 -E 2026-09-17T05:00:00 -N gpu-[001-004]
scontrol show node gpu-[001-004,7]
scontrol -d show job 48213
scontrol show topology
sinfo -R -o %100E|%12u|%19H|%N
squeue
sacctmgr -P show event start=2026-09-17T04:21:26 nodes=gpu-7
journalctl -k --utc --no-pager -o short-iso-precise --since @1789618886
journalctl --list-boots
kubectl get pods -n ml -o json
kubectl get events -A --sort-by=.lastTimestamp
kubectl describe node kn-7
kubectl logs -n ml llm-worker-0 --all-containers --timestamps --previous
nvidia-smi -q -d ROW_REMAPPER,ECC -i 0000:ba:00
ipmitool sel elist
"""
REFUSED = """
scontrol update nodename=gpu-7 state=drain
scontrol requeue 7
scontrol show node gpu-7 update nodename=gpu-8
scontrol -d
sacctmgr -i delete user ada
sacctmgr show user
sacctmgr show event where set x
sacct --format=JobID -o
scancel 7
journalctl --vacuum-time=1s
journalctl --rotate
journalctl -k --file=/etc/shadow
journalctl -k -D /tmp
kubectl delete pod x
kubectl get secrets -A -o json
kubectl get pods --kubeconfig=/tmp/k
kubectl get pods -o go-template=x
kubectl exec llm-worker-0 ls
kubectl logs -f llm-worker-0
kubectl logs llm-worker-0 --follow
kubectl get pods -w
nvidia-smi --gpu-reset -i 0
nvidia-smi -q -f /etc/passwd
nvidia-smi -pm 1
ipmitool chassis power off
ipmitool sel clear
bash -c id
sh
env sacct
/usr/bin/sacct -a
ssh gpu-7 reboot
dcgmi diag -r 3
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.mark.parametrize("command", lines(ALLOWED))
def test_reading_is_allowed(command: str) -> None:
    assert refused(shlex.split(command)) is None or refused(command.split()) is None


@pytest.mark.parametrize("command", lines(REFUSED))
def test_all_else_is_refused(command: str) -> None:
    assert refused(shlex.split(command)) is not None


@pytest.mark.parametrize("word", ["$(id)", "`id`", "a;id", "a|id", "a&id", "a>x", "a b", "a\nb", "'", '"', "*", "~", "\\", "\x00", "{a,b}"])
def test_a_word_for_a_shell_is_refused(word: str) -> None:
    assert refused(["scontrol", "show", "node", word])
    assert refused(["journalctl", "-u", word], remote=True)


def test_brackets_and_pipes_do_not_travel() -> None:
    assert refused(["scontrol", "show", "node", "gpu-[1-2]"]) is None
    assert refused(["scontrol", "show", "node", "gpu-[1-2]"], remote=True)


@pytest.mark.parametrize("name", ["-oProxyCommand=id", "", "a b", "a;b", "$(id)", "../x", "a/b", "a" * 300, ".", "a."])
def test_no_option_or_path_passes_for_a_host(name: str) -> None:
    assert not is_host(name)


@pytest.mark.parametrize("program", SHAPES)
def test_a_hostile_line_is_cheap(program: str) -> None:
    began = time.perf_counter()
    for word in ("a-" * 9000, "-n " * 3000, "1," * 9000, "1-1_" * 4000, "[" * 9000):
        refused([program, *word.split(" "), "!"])
        refused([program, "-N", word, "!"])
        refused([program, "show", "node", word, "!"])
    assert time.perf_counter() - began < 2


@pytest.fixture(scope="module")
def book() -> Rulebook:
    return rulebook.load()


def test_what_the_shipped_rules_ask_for_is_mostly_brought(book: Rulebook) -> None:
    values = {"host": "gpu-7", "device": "0000:3b:00", "job": "48213", "from": "2026-09-17 04:21:26", "to": "2026-09-17 05:00:00"}
    asked = {c.command for row in book.classes.values() for c in row.collect}
    filled = tuple(("of gpu-7", rulebook.fill(c, values)) for c in sorted(asked))
    plan = rest(Scope(job="48213", hosts=("gpu-7",), suspects=("gpu-7",), asked=filled))
    programs = {e.argv[0] for e in plan.errands}
    assert {"journalctl", "ipmitool", "nvidia-smi", "ibstat", "lspci", "last", "kubectl"} <= programs
    assert not programs & {"dcgmi", "grep", "tail", "python", "ping", "all_reduce_perf"}
    print(f"left to a person: {[w for w, _ in plan.skipped]}")
