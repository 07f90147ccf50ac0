"""NCCL's own log lines, 2.4 to current: who has which rank, and the WARN family."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from parsers import pci
from parsers.contract import Benign, Event, Line, LineDialect, RankRecord, Record, Window

_REACH = 600  # characters before and 3000 after the marker; a line may be a megabyte

# gpu-a1:51000:51400 [0] NCCL INFO ...
_SPEAKER = re.compile(r"(?<!\w)(?<!\w[.-])([A-Za-z0-9][\w.-]{0,63}+):(\d{1,10}):(\d{1,10}) \[(\d{1,3})\] ")
# ncclCommInitRank comm 0x55aa rank 5 nranks 16 cudaDev 5 nvmlDev 5 busId ba000 commId 0x9a1f - Init COMPLETE
_INIT = re.compile(
    r"(?:(ncclComm\w{1,40}+) )?comm (0x[0-9a-f]{1,16}) rank (\d{1,7}) n[Rr]anks (\d{1,7}) cudaDev (-?\d{1,3}+)"
    r"(?: \(?nvmlDev -?\d{1,3}+\)?)?+(?: busId ([0-9a-fA-F:.]{1,16}+))?+(?: \(?commId (0x[0-9a-f]{1,16}+)\)?)?+"
    r"[^\n-]{0,99}+(?:(?!- Init (?:COMPLETE|START))-[^\n-]{0,60}+){0,3}+- Init (COMPLETE|START)"
)
# Init timings - ncclCommInitRank: rank 0 nranks 16 total 3.52 (kernels 0.21, alloc 0.90, bootstrap 1.10 ...)
_INIT_TIME = re.compile(r"Init timings(?: - (\w{1,40}))?: rank (\d{1,7}) nranks (\d{1,7}) total (\d{1,9}\.\d{1,4})")
# Got completion from peer 10.11.7.3<51003> with status=12 opcode=129 len=65536 vendor err 129 (Recv)
# Got completion from peer 10.11.7.3<51003> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 ... hca mlx5_3
_COMPLETION = re.compile(
    r"Got completion (?:from peer (\S{1,128}?)<\d{1,6}> )?with (?:status=|error |status )(?:IBV_WC_\w{1,40}\()?(-?\d{1,6})\)?,?"
    r"(?: opcode[ =](?:\w{1,40}\()?-?\d{1,12}\)?,?)?(?: (?:len|reqSize)[ =]-?\d{1,20},?)?(?: vendor[ _]err[ =](-?\d{1,8}))?"
    r"(?: (?:\(|req_type=)(\w{1,20}))?"
)
_HCA = re.compile(r" hca (\w{1,40})|NET/IB ?: (\w{1,40}):\d{1,3} ")
# Got async event : port error | async fatal event on device mlx5_3 ... | mlx5_3:1 Got non-fatal async event: port error(10)
_ASYNC = re.compile(r"(?:[Gg]ot (?:non-fatal )?async event ?: ?|async fatal event(?: on [^\n:]{1,60})?: ?)([^\n(]{1,80})")
_CALM_ASYNC = re.compile(r"port active|client reregistration|GID table change|communication established|P_?Key|LID change", re.IGNORECASE)
_VERBS = re.compile(r"Call to (?:wrap_)?(ibv_\w{1,40}) failed|Unable to open device (\S{1,40})|NET/OFI [^\n]{0,80}?completed with error")
# Connection closed by remote peer gpu-a2<38112> | Connect to cn-04<56821> failed : Connection refused
_PEER = re.compile(r"(?:peer|[Cc]onnect(?:ion)? to|from|to) ([A-Za-z0-9][\w.:%-]{0,127})<\d{1,6}>")
_GONE = re.compile(
    r"Connection closed by remote peer|[Cc]onnection reset|[Cc]onnection refused|Broken pipe|No route to host|Network is unreachable"
    r"|[Cc]onnection timed out|Host is down|remote process exited|Software caused connection abort"
)
# Cuda failure 'uncorrectable NVLink error detected during the execution' | Cuda failure 999 'unknown error'
_CUDA = re.compile(r"Cuda failure(?: :)?(?: (\d{1,4}))?(?: '([^'\n]{1,200})')?|CUDA failure [^\n]{1,100}")
_UNSUPPORTED = re.compile(r"not supported|already enabled", re.IGNORECASE)
_USAGE = re.compile(
    r"collective mismatch|[Mm]ismatched NCCL version|NCCL version mismatch"
    r"|different NCCL version|invalid usage|Duplicate GPU detected|[Ii]nvalid rank requested"
    r"|[Ii]nvalid (?:root|argument|communicator|datatype|reduction|config|count)|is not a valid|argument is NULL|Missing argument"
    r"|[Mm]essage truncated|before the previous operation returned|not in a group call|uninitialized communicator",
)
_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_SYSTEM = re.compile(
    r"unhandled system error|[Bb]ootstrap|[Ss]ocket|[Pp]roxy|Accept failed|Call to \w{1,40}|shared memory|/dev/shm|No space left"
    r"|Too many open files|Failed to execute operation|internal error|network not found"
    r"|does not loop back to start|\[(?:Service|Progress) [Tt]hread\]"
    r"|\bnvml\w{1,60}\([^()]{0,60}\) failed: (?!Not Supported)",
)
_NOTHING = re.compile(
    r"[Ff]ailed to (?:open|load) lib(?:ibverbs|mlx5|nccl|gdr|cuda|nvidia-ml)|[Ff]ailed to find nccl\w+ ?_?v?\d* ?symbol|NET/Plugin"
    r"|TUNER/Plugin"
    r"|PROFILER/Plugin|ProfilerPlugin|Could not find real path|Missing \"?iommu|NUMA auto balancing|[Nn]o plugin found|deprecated"
    r"|Could not find NUMA|TOPO|nvidia-peermem|GPU Direct RDMA Disabled|version (?:file|check)|Unknown (?:plugin|environment)",
)
# gpu-a1: Test NCCL failure common.cu:959 'unhandled system error (run with NCCL_DEBUG=INFO for details) / '
_TEST = re.compile(r"(?:(?<![\w.-])([A-Za-z0-9][\w.-]{0,63}+): )?Test (NCCL|CUDA) failure \S{1,120}:\d{1,6} '([^'\n]{1,400})")
# Process 34879 on node 172.16.64.213 managing GPU 5
_RAS_PROCESS = re.compile(r"^\s{0,8}Process (\d{1,10}) on node (\S{1,128}) managing GPUs? ([\d,]{1,60})")
_RAS_DEAD = re.compile(r"considered dead|[Mm]issing communicator data|unreachable via the RAS")
# Rank 3 -- GPU 3 managed by process 1107 on node 172.16.64.210
# Rank 7 has launched up to operation 60 -- GPU 3 managed by process 16503 on node gpu-b1
_RAS_RANK = re.compile(
    r"^\s{0,8}Rank (\d{1,7})(?: has (?:launched|completed) up to operation (\d{1,18}))? -- GPUs? ([\d,]{1,60}) managed by"
    r" process (\d{1,10}) on node (\S{1,128})"
)
_RAS_COUNT = re.compile(r"^\s{0,8}\d{1,7} ranks? ha(?:s|ve) (?:launched|completed) up to operation (\d{1,18})")


def _near(text: str, marker: str) -> str:
    at = text.find(marker)
    return text[max(0, at - _REACH) : at + 3000] if at >= 0 else text[: _REACH + 3000]


def _speaker(text: str, marker: str) -> tuple[str | None, int | None, int | None]:
    """Host, pid and local GPU in front of the marker; the last speaker wins where lines were glued together."""
    at = text.find(marker)
    spoken = _SPEAKER.findall(text[max(0, at - _REACH) : at])
    host, pid, _, gpu = spoken[-1] if spoken else (None, None, None, None)
    return host, int(pid) if pid else None, int(gpu) if gpu else None


def _init(line: Line) -> Iterator[Record]:
    text = _near(line.text, "NCCL INFO")
    found = _INIT.search(text)
    if not found:
        yield from _init_time(line, text)
        return
    call, comm, rank, nranks, local, bus, comm_id, phase = found.groups()
    host, pid, gpu = _speaker(text, "NCCL INFO")
    device = pci.from_bus_id(bus) if bus else None
    code = "nccl.init" if phase == "COMPLETE" else "nccl.init_start"
    group = comm_id or comm
    yield Event(
        code, f"rank {rank} of {nranks} on {device or 'an unnamed device'}", line.number, host=host, device=device, rank=int(rank), pid=pid,
        op=call, grp=group, value=float(nranks), state=phase.lower(), attrs={"comm": comm, "nranks": int(nranks), "local": int(local)},
    )  # fmt: skip
    basis = "nccl.split" if call and "Split" in call else "nccl.init"
    yield RankRecord(int(rank), line.number, basis, host, device, int(nranks), gpu if gpu is not None else int(local), group, pid)


def _init_time(line: Line, text: str) -> Iterator[Record]:
    found = _INIT_TIME.search(text)
    if found:
        host, pid, _ = _speaker(text, "NCCL INFO")
        yield Event(
            "nccl.init_time", f"communicator of {found[3]} ranks was set up in {found[4]} s", line.number, host=host, pid=pid,
            op=found[1], duration_s=float(found[4]), value=float(found[3]),
        )  # fmt: skip


def _warning(text: str) -> dict[str, object]:
    """Code and fields of what follows `NCCL WARN`."""
    hca = next((found[1] or found[2] for found in _HCA.finditer(text)), None)
    if found := _COMPLETION.search(text):
        return {
            "code": "nccl.ib_error", "peer": found[1], "value": float(found[2]), "state": f"status {found[2]}",
            "attrs": {"status": int(found[2]), "vendor_err": found[3], "side": found[4], "hca": hca},
        }  # fmt: skip
    if found := _ASYNC.search(text):
        calm = _CALM_ASYNC.search(found[1])
        event: dict[str, object] = {"code": "nccl.warn" if calm else "nccl.ib_error", "state": found[1].strip()}
        return event | ({"attrs": {"hca": hca}} if hca else {})
    if found := _CUDA.search(text):
        code = "nccl.warn" if _UNSUPPORTED.search(found[0]) else "nccl.cuda_error"
        return {"code": code, "state": found[2] or found[1] or found[0]}
    if found := _VERBS.search(text):
        return {"code": "nccl.ib_error", "state": found[1] or found[2] or "completed with error"}
    if found := _FULL.search(text):
        where = " in shared memory" if "shared memory" in text or "/dev/shm" in text or "fallocate" in text else ""
        return {"code": "storage.full", "state": f"no space left{where}"}
    if _USAGE.search(text):
        return {"code": "nccl.usage"}
    if found := _GONE.search(text):
        peer = _PEER.search(text)
        return {"code": "nccl.remote_error", "peer": peer[1] if peer else None, "state": found[0]}
    if _NOTHING.search(text):
        return {}
    return {"code": "nccl.system_error" if _SYSTEM.search(text) else "nccl.warn"}


def _warn(line: Line) -> Iterator[Record]:
    text = _near(line.text, "NCCL WARN")
    host, pid, gpu = _speaker(text, "NCCL WARN")
    said = text[text.find("NCCL WARN") + len("NCCL WARN") :].strip()
    fields = _warning(said)
    if not fields:
        yield Benign(line.number)
        return
    event = Event(str(fields.pop("code")), said[:500], line.number, host=host, pid=pid)
    for name, value in fields.items():
        setattr(event, name, value)
    if gpu is not None:
        event.attrs["local"] = gpu
    yield event


def _tests(line: Line) -> Iterator[Record]:
    """nccl-tests prints the result's name, a slash, and NCCL's last error."""
    found = _TEST.search(line.text[:_REACH])
    if not found:
        return
    host, library, said = found[1], found[2], found[3]
    if library == "CUDA":
        fields: dict[str, object] = {"code": "nccl.cuda_error", "state": said}
    else:
        fields = _warning(said)
        if fields.get("code") in (None, "nccl.warn"):
            fields = {"code": "nccl.cuda_error" if "cuda error" in said else "nccl.system_error", "state": said[:160]}
    event = Event(str(fields.pop("code")), f"Test {library} failure: {said}"[:500], line.number, host=host)
    for name, value in fields.items():
        setattr(event, name, value)
    yield event


def _ras(window: Window) -> Iterator[Record]:
    """Rows of the RAS report: a lost process is told, a rank that lags behind in one snapshot is no more than a fact."""
    line = window.line
    process, rank = _RAS_PROCESS.search(line.text), _RAS_RANK.search(line.text)
    if not process and not rank:
        return
    rows = (near.text for near in window.before(64) if not (_RAS_PROCESS.search(near.text) or _RAS_RANK.search(near.text)))
    head = next(rows, "")
    if _RAS_DEAD.search(head):
        state = "missing" if "issing" in head else "dead"
        local, pid, node = (process[3], process[1], process[2]) if process else (rank[3], rank[4], rank[5]) if rank else ("", "0", "")
        attrs: dict[str, object] = {"local": local} | ({"ranks": [int(rank[1])]} if rank else {})
        yield Event("nccl.ras", head.strip()[:200], line.number, peer=node, pid=int(pid), state=state, attrs=attrs)
    elif rank and (at := rank[2] or ((count := _RAS_COUNT.search(head)) and count[1])):
        yield Event(
            "nccl.ras_lag", f"rank {rank[1]} stands at operation {at}", line.number, peer=rank[5], pid=int(rank[4]), seq=int(at),
            attrs={"ranks": [int(rank[1])], "local": rank[3]},
        )  # fmt: skip


def parse(window: Window) -> Iterable[Record]:
    """Records of one NCCL line: a rank's place, a warning, or a row of the RAS report that names a lost process."""
    text = window.line.text
    if "NCCL WARN" in text:
        return _warn(window.line)
    if "NCCL INFO" in text:
        return _init(window.line)
    if "Test " in text:
        return _tests(window.line)
    return _ras(window)


DIALECT = LineDialect(
    "nccl",
    ("NCCL WARN",),
    parse,
    hints=(
        "- Init COMPLETE", "- Init START", "Init timings", " managing GPU", " -- GPU ", "Test NCCL failure", "Test CUDA failure",
    ),
)  # fmt: skip
