"""The last line of a Python traceback, and what its text means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from parsers.contract import Event, Line, LineDialect, Record, Window

_CUT = 4000  # an exception's meaning stands at its beginning


@dataclass(frozen=True, slots=True)
class Reading:
    """What an error text means: the event code and the columns that the text fills."""

    code: str
    state: str | None = None
    severity: str | None = None
    peer: str | None = None
    duration_s: float | None = None
    pid: int | None = None
    attrs: dict[str, object] = field(default_factory=dict)


_ECC = re.compile(r"uncorrectable ECC|ECC_UNCORRECTABLE|ECCUncorrectable", re.IGNORECASE)
_OOM = re.compile(
    r"CUDA out of memory|OutOfMemoryError|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"
    r"|CUBLAS_STATUS_ALLOC_FAILED"
)
_FAULT = re.compile(
    r"illegal memory access|illegal address|unspecified launch failure|device-side assert|misaligned address|illegal instruction"
    r"|invalid program counter|hardware stack error|ILLEGAL_ADDRESS|LAUNCH_FAILED|cudaErrorLaunchFailure|STATUS_EXECUTION_FAILED"
    r"|STATUS_INTERNAL_ERROR|uncorrectable NVLink error|NVLINK_UNCORRECTABLE"
)
# CUDA error: the launch timed out and was terminated
_CUDA = re.compile(r"(?:CUDA error|CUDA driver error|CUDA runtime error): ([^\n]{1,160})")
_CONFIG = re.compile(
    r"invalid device ordinal|no kernel image|invalid argument|invalid configuration|invalid device function|insufficient|unsupported"
    r"|not supported|not permitted",
    re.IGNORECASE,
)
# DataLoader worker (pid 41102) is killed by signal: Killed.
_WORKER = re.compile(
    r"DataLoader worker \(pid(?:\(s\))? ([\d, ]{1,80})\) (?:is killed by signal: ([\w ()]{1,40})|exited unexpectedly[^\n]{0,80})"
)
_WRAPPED = re.compile(r"^Caught \w{1,60} in \w{1,40} (?:worker|replica)|in DataLoader worker process \d{1,6}")
_FULL = re.compile(r"\[Errno (?:28|122)\]|No space left on device|[Dd]isk quota exceeded|ENOSPC|EDQUOT")
# [Errno 5] Input/output error: '/scratch/ckpt/model.pt'
_IO = re.compile(
    r"\[Errno (?:5|30|107|108|112|116|121)\] ([^:\n]{1,80})|\[Errno 110\] ([^:\n]{1,80}): ['\"]/|Stale file handle"
    r"|Input/output error"
)
_WRITE = re.compile(r"PytorchStreamWriter failed|file write failed|unexpected pos \d{1,20} vs|PytorchStreamReader failed")
# Timed out waiting 20000ms for recv operation to complete
_GLOO = re.compile(r"Timed out waiting (\d{1,12})ms for (send|recv) operation")
# Connection closed by peer [127.0.0.1]:42139
_CLOSED = re.compile(r"(?:(?:Connection closed by peer|Read error|Write error|Socket closed) |remote=)\[([\w.:%-]{1,128})\]:\d{1,6}")
_GONE = re.compile(
    r"Connection reset by peer|Connection closed by peer|Connection closed by remote peer|remote process exited|Broken pipe|ncclRemoteError"
    r"|NCCL communicator was aborted|Connection refused"
)
_STORE = re.compile(
    r"store->(?:get|set|wait)|TCPStore|key-value store|in store based barrier"
    r"|wait timeout after|Timed out after \d{1,9} seconds waiting for clients"
    r"|Timeout waiting for key|Rendezvous"
    r"|DistStoreError|DistNetworkError|client socket has (?:timed out|failed)|EADDRINUSE|Address already in use|Socket Timeout"
)
# The client socket has timed out after 60s while trying to connect to (10.0.0.1, 29500)
_ADDRESS = re.compile(r"connect to (?:\[([\w.:%-]{1,128})\]:\d{1,6}|\(([\w.:%-]{1,128}), \d{1,6}\))|remote=\[([\w.:%-]{1,128})\]:\d{1,6}")
_NCCL = re.compile(
    r"NCCL [Ee]rror|NCCL error in|ncclSystemError|ncclInternalError|ncclUnhandledCudaError|ncclInvalidUsage|unhandled (?:system"
    r"|cuda) error"
)
_NAN = re.compile(
    r"returned nan values|returned in [^\n ]{1,40} is nan or inf|found NaN in|[Ll]oss is (?:nan|inf|NaN|Inf)\b|NaN (?:loss|grad|detected)"
)
_DESYNC = re.compile(r"Detected mismatch between collectives|failed to pass monitoredBarrier|Some ranks are calling")


def _cuda(text: str) -> Reading | None:
    if _ECC.search(text):
        return Reading("torch.cuda_ecc", "uncorrectable ECC error")
    if _OOM.search(text):
        return Reading("torch.cuda_oom", "CUDA out of memory")
    if found := _FAULT.search(text):
        return Reading("torch.cuda_fault", found[0])
    if found := _CUDA.search(text):
        return Reading("torch.exception" if _CONFIG.search(found[1]) else "torch.cuda_fault", found[1].strip())
    return None


# No CUDA GPUs are available | all CUDA-capable devices are busy or unavailable
_DEVICE = re.compile(
    r"No CUDA GPUs are available|no CUDA-capable device|devices? ?(?:\(s\) is/)?are busy or unavailable"
    r"|CUDA driver initialization failed|CUDA unknown error|system not yet initialized"
    r"|Found no NVIDIA driver|initialization error|GPU is lost|unsupported display driver|forward compatibility was attempted"
)
_MEMORY = re.compile(r"DefaultCPUAllocator|\[Errno 12\]|Cannot allocate memory|(?:^|[._])(?:Array)?MemoryError|node running low on memory")
_LOADER = re.compile(r"DataLoader timed out after \d{1,9} seconds|Pin memory thread exited unexpectedly")


def _scarce(text: str) -> Reading | None:
    """What the process could not get: a GPU, host memory, a batch."""
    if found := _DEVICE.search(text):
        return Reading("torch.exception", found[0], "device")
    if _MEMORY.search(text):
        return Reading("torch.exception", "host memory exhausted", "memory")
    if found := _LOADER.search(text):
        return Reading("torch.exception", found[0], "loader")
    return None


def _files(text: str) -> Reading | None:
    if found := _WORKER.search(text):
        pids = re.findall(r"\d{1,10}", found[1])
        return Reading("torch.worker_killed", (found[2] or "exited unexpectedly").strip(), pid=int(pids[0]) if pids else None)
    if found := _FULL.search(text):
        where = " in shared memory" if "shared memory" in text or "/dev/shm" in text else ""
        return Reading("storage.full", "quota exceeded" if re.search(r"122|quota|EDQUOT", found[0]) else f"no space left{where}")
    if found := _IO.search(text):
        return Reading("torch.exception", (found[1] or found[2] or found[0]).strip(), "io")
    if found := _WRITE.search(text):
        return Reading("torch.exception", found[0], "io")
    return None


# botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the PutObject operation (reached max retries: 4): ...
# requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: https://models.internal/...
_REFUSED = re.compile(
    r"\((SlowDown|ServiceUnavailable|InternalError|RequestTimeout|RequestTimeTooSkewed|50[0234])\) when calling the \w{1,60} operation"
    r"|reduce your request rate|\b(50[0234] Server Error|503 Service Unavailable|429 Too Many Requests)\b|ServerBusy|OperationTimedOut"
)
# botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "https://s3.internal/ckpt"
_UNREACHED = re.compile(r"Could not connect to the endpoint URL|Read timeout on endpoint URL|Connect timeout on endpoint URL")


def _object_store(text: str) -> Reading | None:
    """A store of objects that refused or did not answer; what the program may not read or names wrongly stays the program's."""
    found = _REFUSED.search(text) or _UNREACHED.search(text)
    return Reading("storage.refused", next(filter(None, found.groups()), found[0])) if found else None


def _peers(text: str) -> Reading | None:
    if found := _GLOO.search(text):
        return Reading("nccl.timeout", f"gloo {found[2]}", duration_s=int(found[1]) / 1000, attrs={"backend": "gloo", "side": found[2]})
    if found := _DESYNC.search(text):
        return Reading("nccl.desync", found[0])
    if found := _STORE.search(text):
        address = _ADDRESS.search(text)
        return Reading("torch.store", found[0], peer=next(filter(None, address.groups()), None) if address else None)
    gone = _GONE.search(text)
    if gone and not _HTTP.search(text):
        closed = _CLOSED.search(text)
        return Reading("nccl.remote_error", gone[0], peer=closed[1] if closed else None)
    if _NCCL.search(text):
        return _nccl(text)
    return None


_HTTP = re.compile(r"https?|HTTPS?ConnectionPool|urllib3|requests\.|aiohttp|botocore|grpc", re.IGNORECASE)


def _nccl(text: str) -> Reading:
    if re.search(r"unhandled cuda error|UnhandledCudaError", text, re.IGNORECASE):
        return Reading("nccl.cuda_error", "unhandled cuda error")
    if re.search(r"invalid (?:usage|argument)|ncclInvalid", text):
        return Reading("nccl.usage", "invalid usage")
    return Reading("nccl.system_error", "internal error" if re.search(r"internal error|ncclInternal", text) else "unhandled system error")


def classify(text: str) -> Reading | None:
    """What an error text says, most telling part first; None when it names no known fault."""
    text = text[:_CUT]
    known = _scarce(text) or _cuda(text) or _files(text) or _object_store(text) or _peers(text)
    if known is None and (found := _NAN.search(text)):
        return Reading("train.nan", found[0])
    return known


# torch.OutOfMemoryError: CUDA out of memory. | [rank2] EXC RuntimeError CUDA error: ...
_FINAL = re.compile(
    r"^[ |]{0,12}((?:[A-Za-z_]\w{0,60}\.){0,8}_?(?:[A-Z]\w{0,60}?)??(?:Error|Exception|Timeout|Fault|Interrupt|Exit|Failure))"
    r"(: ?| |$)([^\n]{0,4000})"
)
_EXC = re.compile(r"^(?:\[rank(\d{1,7})\]:? )?EXC ([A-Z]\w{1,60}) ([^\n]{0,4000})")
# what():  CUDA error: an illegal memory access was encountered
_WHAT = re.compile(r"what\(\):\s{1,4}([^\n]{1,4000})")
# call to cuCtxCreate returned error 214 (CUDA_ERROR_ECC_UNCORRECTABLE): uncorrectable ECC error encountered
_CALL = re.compile(r"call to cu\w{1,60} returned error (\d{1,4})[^\n]{0,200}")
_LOOSE = ("CUDA error: ", "CUDA out of memory", "is killed by signal: ")
_SOURCE = re.compile(r"\braise \w|[\"'](?:CUDA|RuntimeError)|^\s*File \"")
_NUMBER = re.compile(r"^\s*[-+]?[\d.,eE%+-]{1,40}\s*$")
_CALM = frozenset(
    (
        "ChildFailedError", "SystemExit", "KeyboardInterrupt", "SignalException", "CalledProcessError", "ProcessRaisedException",
        "CancelledError", "GeneratorExit", "StopIteration", "StopAsyncIteration", "WorkerGroupFailureException", "LustreError",
    )
)  # fmt: skip
_FRAME = re.compile(r'File "([^"\n]{1,400})", line (\d{1,7})(?:, in ([^\n]{1,120}))?')
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python\d|<frozen|<string>|torch/")
_AGENT = re.compile(
    r"torch/distributed/(?:run|launch)\.py|torch/distributed/launcher/|torch/distributed/elastic/agent/|bin/torchrun"
    r"|deepspeed/launcher/|commands/launch\.py"
)
_HEAD = "Traceback (most recent call last)"


@dataclass(slots=True)
class Trace:
    """The traceback above a final line: its innermost frame of user code, and whose it is."""

    first: int | None = None
    frame: str | None = None
    agent: bool = False
    quoted: bool = False


def trace(window: Window) -> Trace:
    """Read upwards, through lines of the same rank, to the traceback's head (at most 90 lines)."""
    found, inner = Trace(), None
    above = (near for near in window.before(90) if near.rank == window.line.rank)
    for near in above:
        if _HEAD in near.text:
            found.first = near.number
            prior = next(above, None)
            found.quoted = bool(re.search(r"traceback\s{0,4}:", near.text)) or bool(prior and "Exception ignored in" in prior.text)
            break
        if frame := _FRAME.search(near.text):
            place = f"{frame[1]}:{frame[2]}"
            inner = inner or place
            found.agent = found.agent or bool(_AGENT.search(frame[1]))
            if not found.frame and not _LIBRARY.search(frame[1]):
                found.frame = place
        elif near.text[:1] not in (" ", "\t", "") and _FINAL.match(near.text):
            break
    found.frame = found.frame or inner
    return found


def event(line: Line, kind: str | None, text: str, above: Trace | None = None) -> Event | None:
    """The event of an exception of class `kind` with message `text`; None when it says nothing about a cause."""
    name = (kind or "").rpartition(".")[2]
    reading = classify(f"{kind}: {text}" if kind else text)
    launcher = above is not None and above.agent
    if name in _CALM or _WRAPPED.search(text) or (launcher and (reading is None or reading.code != "torch.store")):
        return None
    if reading is None and (kind is None or _NUMBER.match(text) or (kind or "").startswith(("java.", "org."))):
        return None
    reading = reading or Reading("torch.exception", name)
    made = Event(
        reading.code, (f"{kind}: {text}" if kind else text).strip()[:500], line.number, pid=reading.pid, severity=reading.severity,
        peer=reading.peer, duration_s=reading.duration_s, state=reading.state or name, attrs=dict(reading.attrs),
    )  # fmt: skip
    if above and above.frame:
        made.attrs["frame"] = above.frame
    if kind:
        made.attrs["class"] = kind
    return made


def _bare(line: Line) -> Event | None:
    """An error without a traceback of Python: `what():`, an OpenACC call, a CUDA error in a log line."""
    text = line.text[: 2 * _CUT]
    if found := _WHAT.search(text) or _CALL.search(text):
        said = found[0] if found.re is _CALL else found[1]
        return event(line, None, said)
    at = next((at for loose in _LOOSE if (at := text.find(loose)) >= 0), -1)
    before = text[max(0, at - 60) : max(0, at)]
    if at < 0 or _SOURCE.search(text[: at + 1]) or _SOURCE.search(before + text[at : at + 20]):
        return None
    if at and (not _FATAL.search(before) or _RECOVERED.search(text)):
        return None
    return event(line, None, text[at if text.startswith("CUDA", at) else max(0, at - 40) :])


_FATAL = re.compile(r"(?i)error|exception|fatal|terminat|fail|dataloader worker")
_RECOVERED = re.compile(r"(?i)(?=[crw])(?:\bwarn|\bretr(?:y|ies|ying)|recover|reducing|caught)")
_ELSEWHERE = (
    "Watchdog caught", "watchdog thread terminated", "NCCL WARN", "Unexpected result", "Warning:", "Exception raised from", "SocketImpl(",
    "Detected mismatch between collectives", "timed out in blocking wait", "onitoredBarrier", "loss scale already at minimum", ", node: ",
)  # fmt: skip


def parse(window: Window) -> Iterable[Record]:
    """The event of a traceback's last line, or of a bare error text; lines of the watchdog and of NCCL are left to their dialects."""
    return _parse(window)


def _parse(window: Window) -> Iterator[Record]:
    line = window.line
    head = line.text[: 2 * _CUT]
    if line.ident == "kernel" or line.boot_s is not None or any(other in head for other in _ELSEWHERE):
        return
    if _HEAD in head:
        yield from _unusual(window)
        return
    if found := _EXC.match(head):
        made = event(line, found[2], found[3])
        if made and found[1]:
            made.rank = int(found[1])
        yield from [made] if made else []
        return
    final = _FINAL.match(head)
    if not final:
        made = _bare(line)
        yield from [made] if made else []
        return
    above = trace(window)
    if above.quoted or not _plausible(final, above) or (line.ident and above.first is None and classify(head) is None):
        return
    made = event(line, final[1], final[3], above)
    if made and made.code.startswith("nccl."):
        _last_error(window, made)
    yield from [made] if made else []


# subprocess.TimeoutExpired: ... | queue.Empty | ray.exceptions.RayTaskError(ValueError): ...
_ANY = re.compile(r"^((?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60})(?:\(\w{1,60}\))?(?::(?: ([^\n]{0,4000}))?)?$")


def _unusual(window: Window) -> Iterator[Record]:
    """From a traceback's head down to its last line, where the exception's name does not say that it is one."""
    own = (near for near in window.after(90) if near.rank == window.line.rank)
    frames: list[str] = []
    for near in own:
        if place := _FRAME.search(near.text):
            frames.append(f"{place[1]}:{place[2]}")
        elif near.text[:1] not in (" ", "\t", ""):
            break
    else:
        return
    found = _ANY.match(near.text[:_CUT])
    prior = next((other.text for other in window.before(1)), "")
    quoted = "Exception ignored in" in prior or re.search(r"traceback\s{0,4}:", window.line.text)
    if not frames or not found or _FINAL.match(near.text) or quoted:
        return
    users = [frame for frame in frames if not _LIBRARY.search(frame)]
    above = Trace(window.line.number, (users or frames)[-1], any(_AGENT.search(frame) for frame in frames))
    made = event(near, found[1], found[2] or "", above)
    yield from [made] if made else []


# Connection closed by remote peer gpu-e11<40017>
_LAST = re.compile(r"(?:peer|to|from) ([A-Za-z0-9][\w.:%-]{0,127})<\d{1,6}>")


def _last_error(window: Window, made: Event) -> None:
    """NCCL's own words stand below the exception, after `Last error:`; they name the peer."""
    told = False
    for near in (other for other in window.after(6) if other.rank == window.line.rank):
        if told and near.text.strip():
            made.attrs["last_error"] = near.text.strip()[:300]
            peer = _LAST.search(near.text)
            made.peer = made.peer or (peer[1] if peer else None)
            return
        told = told or near.text.strip() == "Last error:"


def _plausible(final: re.Match[str], above: Trace) -> bool:
    """A class name alone, or one followed by a blank, counts only below a traceback."""
    plain = final[1] in ("Error", "Exception", "Timeout", "Failure", "Fault", "Exit")
    return above.first is not None or (final[2].startswith(":") and not plain and bool(final[3].strip()))


DIALECT = LineDialect(
    "exceptions",
    (),
    parse,
    hints=("Error", "Exception", _HEAD, "Timeout: ", " EXC ", "what():", "returned error ", *_LOOSE),
)
