"""kubectl's events, pods, nodes and descriptions as text.

A row of events is known by `Normal|Warning` and the reason behind it, whatever the other columns. Ages are relative to
an unknown moment: such rows have no time of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from parsers import clocks
from parsers.columns import Kinds, Rows, read_header
from parsers.contract import Dialect, Event, HostRecord, HostStateRecord, Line, LineDialect, Record, SectionDialect, Window

_TEXT = 400
NOT_READY, FAILED, WAITS, PLACED = "k8s.node_not_ready", "k8s.pod_failed", "k8s.unschedulable", "k8s.pod_placed"
_REASONS = {
    NOT_READY: (
        "NodeNotReady NodeHasDiskPressure NodeHasInsufficientMemory NodeHasMemoryPressure NodeHasInsufficientPID NodeHasPIDPressure "
        "NodeStatusUnknown NodeNetworkUnavailable KubeletNotReady ContainerRuntimeUnhealthy KubeletUnhealthy NodeNotHealthy GPUUnhealthy"
    ),
    "k8s.node_ready": "NodeReady NodeSchedulable",
    "k8s.node_cordoned": "NodeNotSchedulable",
    "host.boot": "Rebooted",
    "host.oom_kill": "OOMKilling SystemOOM",
    "host.hung_task": "TaskHung",
    "host.panic": "KernelOops KernelPanic",
    "host.fs_error": "FilesystemIsReadOnly",
    FAILED: (
        "Failed BackOff Evicted OOMKilled Error CrashLoopBackOff ImagePullBackOff ErrImagePull ContainerCannotRun FailedMount "
        "FailedAttachVolume FailedCreatePodSandBox FailedPodSandBoxStatus FailedKillPod FailedPostStartHook FailedCreate "
        "TaintManagerEviction Preempted Preempting ExceededGracePeriod DeadlineExceeded BackoffLimitExceeded NodeLost ContainerGone "
        "PyTorchJobFailed PyTorchJobRestarting MPIJobFailed TFJobFailed JobFailed RayJobFailed JobSetFailed FailedJobs "
        "EvictedDueToPreempted EvictedDueToPodsReadyTimeout EvictedDueToAdmissionCheck EvictedDueToNodeFailures NodeShutdown NodeAffinity "
        "StartError Terminated DisruptionTarget"
    ),
    WAITS: (
        "FailedScheduling UnexpectedAdmissionError NotTriggerScaleUp OutOfcpu OutOfmemory OutOfpods OutOfnvidia.com/gpu InsufficientQuota "
        "QuotaExceeded Unschedulable SchedulingGated FailedAllocation FailedPrepareDynamicResources Inadmissible"
    ),
}
CODES = {reason: code for code, reasons in _REASONS.items() for reason in reasons.split()}
# Normal rows that tell of trouble; the others of type Normal are everyday.
_TOLD_AS_NORMAL = frozenset(
    "NodeNotReady NodeReady NodeNotSchedulable NodeSchedulable Rebooted TaintManagerEviction BackOff Preempted Preempting "
    "NotTriggerScaleUp NodeHasDiskPressure NodeHasInsufficientMemory NodeHasInsufficientPID NodeStatusUnknown "
    "PyTorchJobFailed PyTorchJobRestarting EvictedDueToPreempted EvictedDueToPodsReadyTimeout EvictedDueToAdmissionCheck "
    "EvictedDueToNodeFailures DisruptionTarget".split()
)
# 4m12s   Warning   NodeNotReady   Node/kgpu-3   Node kgpu-3 status is now: NodeNotReady
_EVENT = re.compile(r"(?:^|[\s│|])(Normal|Warning)\s{1,40}([A-Za-z][\w./-]{2,60})\s{1,80}(\S.{0,2000})")
# Node/kgpu-3 | pod/ft-worker-1 | Pod   ft-worker-1 (object and kind of older tables)
_OBJECT = re.compile(
    r"(?<!\S)((?i:(?=[jmnprsw])(?:node|pod|job|pytorchjob|mpijob|workload|rayjob|jobset|replicaset|statefulset)))s?(?:\.[\w.]{1,60})?/([a-z0-9][\w.-]{0,252})"
)
# Node kgpu-3 status is now: NodeNotReady | Node kgpu-3 has been rebooted, boot id: 4f1c...
_NODE = re.compile(r"\bNode (\S{1,253}) (?:status is now|has been rebooted|event: )")
_ON_NODE = re.compile(r"(?:\bon node \"?|^kubelet, |kubelet, )([a-z0-9][\w.-]{0,252})")
# Successfully assigned ml/ft-worker-1 to kgpu-3
_ASSIGNED = re.compile(r"Successfully assigned (?:[\w.-]{1,253}/)?([a-z0-9][\w.-]{0,252}) to ([a-z0-9][\w.-]{0,252})")
_HAS_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S{0,8}")


def coded(kind: str, reason: str, message: str) -> str | None:
    """The event code of a Kubernetes event; None where it tells of no trouble."""
    if kind != "Warning" and reason not in _TOLD_AS_NORMAL:
        return None
    return CODES.get(reason) or (WAITS if "due to no healthy devices" in message else None)


def placed(pod: str, node: str, text: str, number: int, ts: int | None = None) -> Event:
    """Where a pod runs: inside it, the pod's name is the host's name."""
    return Event(PLACED, text.strip()[:_TEXT], number, ts=ts, host=node, peer=pod)


def assigned(reason: str, message: str, number: int, ts: int | None = None) -> Event | None:
    """The placement that a `Scheduled` event tells."""
    found = _ASSIGNED.search(message) if reason == "Scheduled" else None
    return placed(found[1], found[2], f"{reason}: {message}", number, ts) if found else None


def judged(code: str, reason: str, message: str, kind: str | None, name: str | None, number: int) -> Event:
    """One Kubernetes event about object `kind`/`name`."""
    node = _NODE.search(message) or _ON_NODE.search(message)
    about = name if kind == "node" else None
    event = Event(code, f"{reason}: {message}"[:_TEXT], number, host=about or (node[1].rstrip('.,;:"') if node else ""), state=reason)
    event.attrs = {"object": f"{kind}/{name}"} if kind and name else {}
    event.peer = name if kind == "pod" else None
    if reason == "Rebooted":
        event.severity = "unexpected"
    return event


def _event_row(window: Window) -> Iterable[Record]:
    raw = window.line.raw[:_READ].rstrip(" │|┃║\r")
    found = _EVENT.search(raw)
    if not found:
        return ()
    kind, reason, rest = found.groups()
    stamp = _HAS_STAMP.match(raw.lstrip())
    read = clocks.from_text(stamp[0]) if stamp else None
    if at := assigned(reason, rest, window.line.number, read[0] if read else None):
        return (at,)
    code = coded(kind, reason, rest)
    if code is None:
        return ()
    about = _OBJECT.search(rest)
    event = judged(code, reason, rest, about[1].lower() if about else None, about[2] if about else None, window.line.number)
    if read:
        event.ts = read[0]
    return (event,)


# "Event occurred" object="ml/ft-worker-1" fieldPath="" kind="Pod" apiVersion="v1" type="Warning" reason="Evicted" message="..."
_OCCURRED = re.compile(
    r'"Event occurred" object="(?:[^"/]{1,253}/)?([^"/]{1,253})"(?: fieldPath="[^"]{0,200}")? kind="(\w{1,60})" apiVersion="[^"]{0,80}" '
    r'type="(Normal|Warning)" reason="(\w{1,60})" message="([^\n]{0,2000})'
)
# Event(v1.ObjectReference{Kind:"Pod", Namespace:"ml", Name:"ft-worker-1", ...}): type: 'Warning' reason: 'Evicted' ...
_REFERENCE = re.compile(
    r'Event\(v1\.ObjectReference\{Kind:"(\w{1,60})", Namespace:"[^"]{0,253}", Name:"([^"]{1,253})"[^{}]{0,600}\}\): '
    r"type: '(Normal|Warning)' reason: '(\w{1,60})' ([^\n]{0,2000})"
)
# "Recording event message for node" node="kgpu-3" event="NodeNotReady"
_RECORDED = re.compile(r'Recording event message for node" node="([^"]{1,253})" event="(\w{1,60})"')


def _klog(window: Window) -> Iterable[Record]:
    """Events as the controllers and the kubelet log them."""
    line, text = window.line, window.line.text[:_READ]
    if found := _OCCURRED.search(text):
        name, about, kind, reason, message = found.groups()
    elif found := _REFERENCE.search(text):
        about, name, kind, reason, message = found.groups()
    elif found := _RECORDED.search(text):
        about, name, kind, reason, message = "Node", found[1], "Normal", found[2], f"Node {found[1]} status is now: {found[2]}"
    else:
        return ()
    code = coded(kind, reason, message)
    return (judged(code, reason, message.rstrip('"'), about.lower(), name, line.number),) if code else ()


# Taints:   node.kubernetes.io/unreachable:NoExecute
_TAINT = re.compile(r"node\.kubernetes\.io/([a-z-]{1,40})(?:=\S{0,60})?:(?:NoSchedule|NoExecute)(?! op=)")
# Ready  Unknown  Thu, 05 Mar 2026 03:04:05 +0000  Thu, 05 Mar 2026 03:05:00 +0000  NodeStatusUnknown  Kubelet stopped posting ...
_CONDITION = re.compile(
    r"^\s{0,8}(\w{2,60})\s{1,60}(True|False|Unknown)\s{1,8}\w{3}, \d\d \w{3} \d{4} [\d:]{8} [+-]\d{4}"
    r"\s{1,8}(\w{3}, \d\d \w{3} \d{4} [\d:]{8} [+-]\d{4})\s{1,60}(\S{1,60})"
)
_NAME = re.compile(r"^Name:\s{1,40}(\S{1,253})")


def _described(window: Window) -> str:
    """The node that `kubectl describe` is at: the nearest `Name:` above."""
    for line in window.before(200):
        found = _NAME.match(line.raw)
        if found:
            return found[1]
    return ""


def _taint(window: Window) -> Iterable[Record]:
    line = window.line
    found = _TAINT.search(line.raw[:_READ])
    if not found or "op=" in line.raw:
        return ()
    host = _described(window)
    if found[1] == "unschedulable":
        return _node_says(host, "k8s.node_cordoned", found[1], line, "drain", None)
    return _node_says(host, NOT_READY, found[1], line, "down", None)


def _condition(window: Window) -> Iterable[Record]:
    line = window.line
    found = _CONDITION.match(line.raw)
    if not found:
        return ()
    kind, value, changed, reason = found.groups()
    bad = value != "True" if kind == "Ready" else value == "True"
    if not bad:
        return ()
    when = clocks.from_text(changed)
    return _node_says(_described(window), NOT_READY, f"{kind}={value}: {reason}", line, "down", when[0] if when else None)


def _node_says(host: str, code: str, reason: str, line: Line, state: str, ts: int | None) -> Iterator[Record]:
    yield Event(code, line.raw.strip()[:_TEXT], line.number, ts=ts, host=host, state=reason)
    if host:
        yield HostStateRecord(host, line.number, "k8s", state, ts=ts, reason=reason)


# Message:   Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu
_ALLOCATE = re.compile(r"(?:Pod was rejected: |Pod )?Allocate failed due to (.{1,400})")


def _rejected(window: Window) -> Iterable[Record]:
    found = _ALLOCATE.search(window.line.raw[:_READ])
    if not found:
        return ()
    why = f"Allocate failed due to {found[1].strip(' │|')}"
    return (Event(WAITS, window.line.raw.strip()[:_TEXT], window.line.number, host="", state=why),)


#       Exit Code:    137
_EXIT = re.compile(r"^\s{2,16}Exit Code:\s{1,20}(\d{1,3})\s*$")
#       Reason:       OOMKilled
_WHY = re.compile(r"^\s{2,16}Reason:\s{1,20}(\S{1,60})")
#       Finished:     Thu, 02 Apr 2026 08:22:00 +0000
_FINISHED = re.compile(r"^\s{2,16}Finished:\s{1,20}(\w{3}, \d\d \w{3} \d{4} [\d:]{8} [+-]\d{4})")
# Node:             kn-3/10.0.0.6
_PLACED = re.compile(r"^Node:\s{1,40}([a-z0-9][\w.-]{0,252})")
# Reason:           Evicted
_POD_REASON = re.compile(r"^Reason:\s{1,40}([A-Z]\w{2,60})\s*$")


def _pod_above(window: Window) -> tuple[str, str]:
    """(pod, node) that `kubectl describe pod` is at."""
    node = ""
    for line in window.before(200):
        placed, name = _PLACED.match(line.raw), _NAME.match(line.raw)
        node = placed[1] if placed and not node else node
        if name:
            return name[1], node
    return "", node


def _exited(window: Window) -> Iterable[Record]:
    """A container that `describe pod` shows as terminated with an exit code other than 0."""
    line = window.line
    found = _EXIT.match(line.raw)
    if not found or int(found[1]) == 0:
        return ()
    why = next((seen[1] for above in window.before(2) if (seen := _WHY.match(above.raw))), "Error")
    when = next((seen[1] for below in window.after(3) if (seen := _FINISHED.match(below.raw))), None)
    stamp = clocks.from_text(when) if when else None
    pod, node = _pod_above(window)
    event = Event(FAILED, f"pod {pod} {why} exit {found[1]}", line.number, ts=stamp[0] if stamp else None, host=node, state=why)
    event.exit_code = int(found[1])
    event.signal = event.exit_code - 128 if 128 < event.exit_code < 160 else None
    event.attrs, event.peer = {"object": f"pod/{pod}"}, pod or None
    return (event,)


def _placement(window: Window) -> Iterable[Record]:
    """`Node:` of a described pod."""
    found = _PLACED.match(window.line.raw)
    name = next((seen[1] for above in window.before(8) if (seen := _NAME.match(above.raw))), None)
    return (placed(name, found[1], window.line.raw, window.line.number),) if found and name else ()


def _pod_reason(window: Window) -> Iterable[Record]:
    line = window.line
    found = _POD_REASON.match(line.raw)
    code = CODES.get(found[1], WAITS if found[1].startswith("OutOf") else None) if found else None
    if found is None or code not in (FAILED, WAITS):
        return ()
    pod, node = _pod_above(window)
    event = Event(code, f"pod {pod} {found[1]}", line.number, host=node, state=found[1])
    event.attrs, event.peer = {"object": f"pod/{pod}"}, pod or None
    return (event,)


_READ = 8192
_READERS: tuple[tuple[Callable[[Window], Iterable[Record]], tuple[str, ...]], ...] = (
    (_taint, (":NoExecute", ":NoSchedule")),
    (_klog, ("Event occurred", "v1.ObjectReference{", "Recording event message")),
    (_event_row, ("Warning", "Normal")),
    (_rejected, ("Allocate failed due to",)),
    (_exited, ("Exit Code:",)),
    (_pod_reason, ("Reason:",)),
    (_placement, ("Node:",)),
    (_condition, ("True", "False", "Unknown")),
)


def _line(window: Window) -> Iterator[Record]:
    raw = window.line.raw[:_READ]
    for read, marks in _READERS:
        if any(mark in raw for mark in marks):
            records = list(read(window))
            if records:
                yield from records
                return


_POD_NAMES = frozenset("namespace name ready status restarts age ip node".split())
_POD_STATUS = re.compile(r"(?:Init:|Signal:|ExitCode:)?[A-Z][\w./:]{1,60}")
_POD_KINDS: Kinds = {
    "ready": re.compile(r"\d{1,4}/\d{1,4}"),
    "status": _POD_STATUS,
    "age": re.compile(r"(?:\d{1,9}[a-z])+|<\w{1,12}>"),
    "name": re.compile(r"[a-z0-9][\w.-]{0,252}"),
    "node": re.compile(r"[a-z0-9][\w.-]{0,252}|<none>"),
}
_POD_FINE = frozenset("Running Completed Pending ContainerCreating PodInitializing Terminating Succeeded SchedulingGated".split())
_POD_WAITS = frozenset("UnexpectedAdmissionError Unschedulable".split())


def _pod(cells: dict[str, str], line: Line) -> Iterable[Record] | None:
    status, node = cells.get("status", ""), cells.get("node", "")
    if not _POD_KINDS["ready"].fullmatch(cells.get("ready", "")):
        return None
    name, known = cells.get("name", ""), node not in ("", "<none>")
    where = (placed(name, node, line.raw, line.number),) if known and name else ()
    if status in _POD_FINE or (status.startswith("Init:") and status[5:6].isdigit()):
        return where
    code = WAITS if status in _POD_WAITS or status.startswith("OutOf") else FAILED
    event = Event(code, f"pod {name} {status}", line.number, host=node if known else "", peer=name or None, state=status)
    event.attrs = {"object": f"pod/{name}"}
    return (*where, event)


_NODE_NAMES = frozenset("name status roles age version internal_ip".split())
_NODE_STATUS = re.compile(r"(?:Not)?Ready(?:,SchedulingDisabled)?|Unknown(?:,SchedulingDisabled)?")
_NODE_KINDS: Kinds = {"status": _NODE_STATUS, "name": _POD_KINDS["name"], "age": _POD_KINDS["age"]}


def _node(cells: dict[str, str], line: Line) -> Iterable[Record] | None:
    name, status = cells.get("name", ""), cells.get("status", "")
    if not name or not _NODE_STATUS.fullmatch(status):
        return None
    return list(node_state(name, status, line.number))


def node_state(name: str, status: str, number: int, reason: str | None = None, ts: int | None = None) -> Iterator[Record]:
    """A node's state; a Ready node is up, which is no proof that it is idle."""
    cordoned, ready = status.endswith("SchedulingDisabled"), status.startswith("Ready")
    state = "down" if not ready else "drain" if cordoned else "up"
    yield HostStateRecord(name, number, "k8s", state, ts=ts, reason=reason or (None if state == "up" else status))
    if state != "up":
        code = NOT_READY if not ready else "k8s.node_cordoned"
        yield Event(code, f"node {name} {status}", number, ts=ts, host=name, state=reason or status)


# INTERNAL-IP | OS-IMAGE | CONTAINER-RUNTIME
_DASHED = re.compile(r"(?<=[A-Z])-(?=[A-Z])")


def _open(line: Line) -> Rows | None:
    header = _DASHED.sub("_", line.raw)
    pods = read_header(header, _POD_NAMES, _POD_KINDS)
    if pods and {"name", "ready", "status"} <= set(pods.names):
        return Rows(pods, _pod)
    nodes = read_header(header, _NODE_NAMES, _NODE_KINDS)
    if nodes and {"name", "status", "roles"} <= set(nodes.names):
        return Rows(nodes, _node)
    return None


# nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3
_LABELS = {"nvidia.com/gpu.product": "gpu_model", "nvidia.com/gpu.count": "gpus"}
_RACK = re.compile(r"(?:^|[/.-])rack(?:[-_.]?(?:id|name))?$|topology\.k8s\.aws/network-node-layer-3$|gce-topology-subblock$")
_LEAF = re.compile(r"(?:^|[/.-])(?:leaf|leaf-?switch|tor|switch|hostnetworktopology\.leaf)$|accelerator$")
_RAIL = re.compile(r"(?:^|[/.-])rail(?:[-_.]?id)?$")


def labelled(host: str, labels: dict[str, str], number: int) -> HostRecord | None:
    """Inventory and topology that a node's labels tell; None when they tell nothing."""
    record = HostRecord(host, number, "k8s")
    for key, value in labels.items():
        field = _LABELS.get(key)
        if field == "gpus":
            record.gpus = int(value) if value.isascii() and value.isdigit() and len(value) < 6 else None
        elif field == "gpu_model":
            record.gpu_model = value
        elif _RACK.search(key):
            record.rack = value
        elif _LEAF.search(key) and not key.startswith("cloud.google"):
            record.leaf = value
        elif _RAIL.search(key):
            record.rail = value
    return record if record.gpus is not None or any((record.gpu_model, record.rack, record.leaf, record.rail)) else None


DIALECTS: tuple[Dialect, ...] = (
    SectionDialect("k8s_tables", ("STATUS ", "STATUS\t"), _open),
    LineDialect(
        "k8s",
        (),
        _line,
        hints=(
            "Warning  ",
            "Normal  ",
            "Warning FailedScheduling",
            "Event occurred",
            "v1.ObjectReference{",
            "Recording event message for node",
            "NodeNotReady",
            "FailedScheduling",
            "UnexpectedAdmissionError",
            "NoExecute",
            "NoSchedule",
            "Allocate failed due to",
            "NodeStatusUnknown",
            "KubeletNotReady",
            "True   ",
            "Exit Code:",
            "Reason:   ",
            "Node:    ",
            "Successfully assigned ",
        ),
    ),
)
