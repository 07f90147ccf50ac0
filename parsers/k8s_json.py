"""Kubernetes objects as JSON: `kubectl get events|nodes|pods -o json`, single objects, and one object a line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from parsers import clocks
from parsers.contract import Document, DocumentDialect, Event, HostRecord, JobRecord, Record, Reject
from parsers.json_fields import Fields, fields, load, rows, settled, text
from parsers.k8s import FAILED, WAITS, assigned, coded, judged, labelled, node_state, placed

Numbered = tuple[int, Fields]
_KINDS = frozenset("Event Node Pod List EventList NodeList PodList PyTorchJob MPIJob Job Workload".split())
_WATCH = frozenset({"ADDED", "MODIFIED", "DELETED"})
_KIND = re.compile(rb'"kind"\s{0,20}:\s{0,20}"(?:Event|Node|Pod|List|EventList|NodeList|PodList|PyTorchJob|Job|Workload|WatchEvent)"')
_AUDIT = b"audit.k8s.io"
_PATIENCE = 20
_GPU = re.compile(r"nvidia\.com/(?:gpu|mig-)")
# Labels that name the job a pod belongs to, the trainer's own first.
_JOB_LABELS = (
    "training.kubeflow.org/job-name",
    "kubeflow.org/job-name",
    "pytorch-job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "batch.kubernetes.io/job-name",
    "job-name",
    "volcano.sh/job-name",
    "ray.io/cluster",
)


def _sniff(head: bytes) -> bool:
    """Of one object a line the first must be ours: a log of JSON lines may hold anything."""
    body = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not body.startswith((b"{", b"[")) or _AUDIT in head:
        return False
    try:
        first = fields(load(body.partition(b"\n")[0]))
        if first and not (first.get("kind") in _KINDS or "involvedObject" in first or "items" in first or first.get("type") in _WATCH):
            return False
    except (ValueError, RecursionError):
        pass
    return bool(_KIND.search(head)) and (b'"metadata"' in head or b'"involvedObject"' in head)


def _time(value: object) -> int | None:
    found = clocks.from_text(value) if isinstance(value, str) else None
    return found[0] if found else None


def _parse(document: Document) -> Iterator[Record]:
    whole = document.data.decode("utf-8", "replace").lstrip("\ufeff")
    try:
        tree = load(whole)
        objects: list[Numbered] = [(1, one) for one in (rows(tree) or [fields(tree)])]
    except RecursionError:
        yield Reject(1, "JSON nested too deep")
    except ValueError:
        yield from map(settled, _each_line(whole))
    else:
        yield from map(settled, _read(objects))


def _each_line(whole: str) -> Iterator[Record]:
    """One object a line. A text that begins with many lines that are none is one reject, not thousands."""
    objects: list[Numbered] = []
    bad: list[Reject] = []
    for number, line in enumerate(whole.split("\n"), 1):
        if not line.strip():
            continue
        try:
            objects.append((number, fields(load(line))))
        except (ValueError, RecursionError) as error:
            bad.append(Reject(number, f"no JSON: {str(error)[:80]}", line[:200]))
        if not objects and len(bad) == _PATIENCE:
            yield bad[0]
            return
    yield from bad
    yield from _read(objects)


def _unfold(objects: Iterable[Numbered]) -> Iterator[Numbered]:
    """The items of lists, and what a watch wraps."""
    for number, one in objects:
        items = rows(one.get("items"))
        wrapped = fields(one.get("object"))
        if items:
            yield from ((number, item) for item in items)
        else:
            yield number, wrapped or one


def _read(objects: Iterable[Numbered]) -> Iterator[Record]:
    jobs: defaultdict[str, list[Numbered]] = defaultdict(list)
    for number, one in _unfold(objects):
        kind = one.get("kind") or ("Event" if "involvedObject" in one else "Pod" if "containers" in fields(one.get("spec")) else None)
        if kind == "Event":
            yield from _event(one, number)
        elif kind == "Node":
            yield from _node(one, number)
        elif kind == "Pod":
            yield from _pod(one, number)
            name = _job_of(one)
            if name:
                jobs[name].append((number, one))
        elif kind in ("PyTorchJob", "Job", "Workload", "MPIJob"):
            yield from _finished(one, str(kind), number)
    for name, pods in jobs.items():
        yield _job(name, pods)


def _event(one: Fields, number: int) -> Iterator[Record]:
    about = fields(one.get("involvedObject")) or fields(one.get("regarding"))
    kind, name = str(about.get("kind") or "").lower(), text(about.get("name"))
    reason, message = str(one.get("reason") or ""), str(one.get("message") or one.get("note") or "")
    series = fields(one.get("series"))
    times = (one.get("lastTimestamp"), series.get("lastObservedTime"), one.get("eventTime"), one.get("firstTimestamp"))
    when = next((ts for value in times if (ts := _time(value)) is not None), None)
    if at := assigned(reason, message, number, when):
        yield at
    code = coded(str(one.get("type") or ""), reason, message)
    if code is None:
        return
    event = judged(code, reason, message.replace("\n", " "), kind or None, name, number)
    event.ts = when
    source = text(fields(one.get("source")).get("host"))
    if not event.host and source and kind == "pod":
        event.host = source
    yield event


def _node(one: Fields, number: int) -> Iterator[Record]:
    meta = fields(one.get("metadata"))
    name = text(meta.get("name"))
    if name is None:
        yield Reject(number, "node without name")
        return
    labels = {str(key): str(value) for key, value in fields(meta.get("labels")).items()}
    yield labelled_or_plain(name, labels, fields(one.get("status")), number)
    status, reason, ts = _readiness(one)
    if status:
        yield from node_state(name, status, number, reason, ts)
    for row in rows(fields(one.get("status")).get("conditions")):
        if row.get("status") == "True" and row.get("type") not in ("Ready", None):
            why = f"{row.get('type')}: {row.get('reason') or ''}"
            yield Event("k8s.node_not_ready", f"node {name} {why}", number, ts=_time(row.get("lastTransitionTime")), host=name, state=why)


def labelled_or_plain(name: str, labels: dict[str, str], status: Fields, number: int) -> HostRecord:
    """A node's inventory: labels first, then its capacity and address."""
    record = labelled(name, labels, number) or HostRecord(name, number, "k8s")
    capacity = text(fields(status.get("capacity")).get("nvidia.com/gpu"))
    if record.gpus is None and capacity and capacity.isascii() and capacity.isdigit() and len(capacity) < 6:
        record.gpus = int(capacity)
    addresses = {str(row.get("type")): text(row.get("address")) for row in rows(status.get("addresses"))}
    record.ip = addresses.get("InternalIP")
    return record


def _readiness(one: Fields) -> tuple[str, str | None, int | None]:
    """(status word, reason, since) as kubectl would print it."""
    spec, conditions = fields(one.get("spec")), rows(fields(one.get("status")).get("conditions"))
    ready = next((row for row in conditions if row.get("type") == "Ready"), None)
    if ready is None:
        return "", None, None
    taints = [str(row.get("key")) for row in rows(spec.get("taints")) if str(row.get("key")).startswith("node.kubernetes.io/")]
    word = "Ready" if ready.get("status") == "True" else "NotReady"
    if spec.get("unschedulable") is True:
        word += ",SchedulingDisabled"
    good = word == "Ready"
    reason = None if good else "; ".join([str(ready.get("reason") or word), *taints])
    return word, reason, None if word.startswith("Ready") else _time(ready.get("lastTransitionTime"))


def _pod(one: Fields, number: int) -> Iterator[Record]:
    meta, status, spec = fields(one.get("metadata")), fields(one.get("status")), fields(one.get("spec"))
    name, host = text(meta.get("name")) or "", text(spec.get("nodeName")) or ""
    phase, reason = str(status.get("phase") or ""), text(status.get("reason"))
    if name and host:
        yield placed(name, host, f"pod {name} on {host}", number)
    for row in [*rows(status.get("containerStatuses")), *rows(status.get("initContainerStatuses"))]:
        ended = fields(fields(row.get("state")).get("terminated")) or fields(fields(row.get("lastState")).get("terminated"))
        waiting = text(fields(fields(row.get("state")).get("waiting")).get("reason"))
        yield from _container(name, host, ended, waiting, number)
    if phase == "Failed" and reason:
        code = WAITS if reason == "UnexpectedAdmissionError" or reason.startswith("OutOf") else FAILED
        message = f"pod {name} {reason}: {status.get('message') or ''}"[:400]
        yield Event(code, message, number, host=host, job_id=_job_of(one), state=reason, attrs={"object": f"pod/{name}"})


def _container(name: str, host: str, ended: Fields, waiting: str | None, number: int) -> Iterator[Record]:
    code = ended.get("exitCode")
    if isinstance(code, int) and code != 0:
        reason = text(ended.get("reason")) or "Error"
        event = Event("k8s.pod_failed", f"pod {name} {reason} exit {code}", number, host=host, state=reason)
        event.ts = _time(ended.get("finishedAt"))
        event.exit_code = code
        event.signal = _signal(ended.get("signal"), code)
        event.attrs = {"object": f"pod/{name}"}
        yield event
    elif waiting and waiting not in ("ContainerCreating", "PodInitializing"):
        yield Event("k8s.pod_failed", f"pod {name} {waiting}", number, host=host, state=waiting, attrs={"object": f"pod/{name}"})


def _signal(told: object, code: int) -> int | None:
    if isinstance(told, int) and told:
        return told
    return code - 128 if 128 < code < 160 else None


def _job_of(pod: Fields) -> str | None:
    labels = fields(fields(pod.get("metadata")).get("labels"))
    return next((name for key in _JOB_LABELS if (name := text(labels.get(key)))), None)


def _pod_gpus(pod: Fields) -> int:
    total = 0
    for row in rows(fields(pod.get("spec")).get("containers")):
        limits = fields(fields(row.get("resources")).get("limits"))
        counts = [str(count) for key, count in limits.items() if _GPU.match(str(key))]
        total += sum(int(count) for count in counts if re.fullmatch("[0-9]{1,5}", count))
    return total


def _job(name: str, pods: list[Numbered]) -> JobRecord:
    """One attempt, as its pods show it: from the first start to the last end."""
    states = [fields(pod.get("status")) for _, pod in pods]
    phases = {str(status.get("phase")) for status in states}
    state = next((word for phase, word in _PHASES if phase in phases), None)
    hosts = dict.fromkeys(host for _, pod in pods if (host := text(fields(pod.get("spec")).get("nodeName"))))
    starts = [ts for status in states if (ts := _time(status.get("startTime")))]
    ends = [
        ts
        for status in states
        for row in rows(status.get("containerStatuses"))
        if (ts := _time(fields(fields(row.get("state")).get("terminated")).get("finishedAt")))
    ]
    over = state in ("FAILED", "COMPLETED")
    return JobRecord(
        name,
        pods[0][0],
        "k8s",
        name=name,
        user=text(fields(pods[0][1].get("metadata")).get("namespace")),
        state=state,
        hosts=tuple(hosts),
        nodes=len(hosts) or None,
        gpus=sum(_pod_gpus(pod) for _, pod in pods),
        start=min(starts, default=None),
        end=max(ends, default=None) if over else None,
    )


_PHASES = (("Failed", "FAILED"), ("Running", "RUNNING"), ("Pending", "PENDING"), ("Succeeded", "COMPLETED"))


def _finished(one: Fields, kind: str, number: int) -> Iterator[Record]:
    """Conditions of a training job or Kueue workload that tell of its end or eviction."""
    name = text(fields(one.get("metadata")).get("name")) or ""
    for row in rows(fields(one.get("status")).get("conditions")):
        word = str(row.get("type"))
        if row.get("status") != "True" or word not in ("Failed", "FailureTarget", "Evicted", "Preempted", "Restarting"):
            continue
        why = text(row.get("reason")) or word
        message = f"{kind} {name} {why}: {row.get('message') or ''}"[:400]
        yield Event("k8s.pod_failed", message, number, ts=_time(row.get("lastTransitionTime")), host="", job_id=name, state=why)


DIALECT = DocumentDialect("k8s_json", _sniff, _parse)
