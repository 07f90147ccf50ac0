"""Wrappers around a message, peeled in any order: escapes, JSON, container and journal prefixes, stamps, hosts, ranks.

Each peeler sees the text that is left and returns what is left after it, or None. The first character decides who may try.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping

from parsers import clocks, hosts
from parsers.contract import Line, Quality
from parsers.json_fields import load

_ROUNDS = 12
_JSON_LIMIT = 4_000_000
_READ = 64_000

# ESC[31m | ESC]0;title BEL | ESC(B
_ANSI = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)|[ -/][0-~]|[@-Z\\^_=>])")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\x80-\x9f\ufeff]")

_MONTHS = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
# <14>Mar  6 04:07:23 hostname ... in mid-line: records that a relay glued together
_GLUED = re.compile(rf"<\d{{1,3}}>(?=(?:1 )?(?:{_MONTHS} [ \d]\d \d\d:\d\d:\d\d |\d{{4}}-\d\d-\d\dT\d\d:\d\d:))")
# ...before timing out.[rank1]:[E1123 00:52:57.704 ProcessGroupNCCL.cpp:607]: ranks that wrote at once
_GLUED_RANK = re.compile(r"\[rank\d{1,7}\]:(?=\[[IWEF]\d{3,4} )")
# <6>[ 201.650687] | <14>
_PRIORITY = re.compile(r"<\d{1,3}>")
# 1 2021-03-06T04:07:38.251122+00:00 hostname app 123 ID [sd] message
_RFC5424 = re.compile(
    r'1 (\S{1,64}) (\S{1,255}) (\S{1,64}) (\S{1,128}) (\S{1,64}) (?:-|(?:\[(?:[^\]"\\]|"(?:[^"\\]|\\.)*+"|\\.)*+\])++)(?: |$)'
)
# 6,3964,206764307,-;nvidia-nvswitch2: open
_KMSG = re.compile(r"\d{1,5},\d{1,12},(\d{1,18}),[-c+][^;]{0,64};")
# kern  :warn  : 2025-01-21T04:41:44,283302+00:00 | kern: warning: [2026-04-22T21:27:51.291660856Z]: of Talos
_DECODE = re.compile(
    r"(kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local\d) *:"
    r" *(?:emerg|alert|crit|err(?:or)?|warn(?:ing)?|notice|info|debug) *: *(?=\[|\d)"
)
# stderr F message
_CRI = re.compile(r" (?:stdout|stderr) ([FP])(?: |$)")
# {host="gpu-1", job="kern"} message
_LABELS = re.compile(r"\{(\w{1,64}=\"[^{}]{0,4000}\")\}\s{1,8}")
_LABEL = re.compile(r'(?<!\w)(\w{1,64})="((?:[^"\\]|\\.){0,512}+)"')
# gpu-7 slurmd[30114]: message | gpu-7 kernel: message
_HEAD = re.compile(r"(\S{1,253}) {1,2}([A-Za-z_(/][\w./@()+-]{0,127})(?:\[(\d{1,10})\])?:(?: |$)")
_LEVELS = frozenset(("TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "ERR", "CRITICAL", "FATAL"))
# Tags that are no part of the message even without a pid; a kernel line relayed without `kernel:` begins with its own `NVRM:`.
_DAEMON_LIST = """
    kernel slurmctld slurmd slurmstepd slurmdbd systemd rsyslogd kubelet containerd dockerd sshd dhclient CRON cron crond python3
    nv-fabricmanager nvidia-fabricmanager nv-hostengine nvidia-persistenced
"""
_DAEMONS = frozenset(_DAEMON_LIST.split())
# dmesg's comma and the nanoseconds of kubectl and docker: no host follows
_NO_HEADER = re.compile(r"[.,]\d{7}|,\d")
# gpu-7 message without a tag
_BARE_HOST = re.compile(r"(\S{1,253})(?: |$)")
# [  +0.000844] message, of dmesg --human and --reltime
_SINCE = re.compile(r"\[ {0,8}\+\d{1,9}\.\d{6}\] ")
# kernel: [ 90211.1] message
_KERNEL = re.compile(r"kernel: ?")
# [T1234] | [ C12]
_CALLER = re.compile(r" ?\[ *[TC]\d{1,8}\] ?")
# [rank3]: | [default7]:
_RANK = re.compile(r"\[(rank|default|trainer)(\d{1,7})\]:? ?")
#   3: message, from srun -l
_SRUN = re.compile(r" {0,5}(\d{1,6}):(?: |$)")
# [0] message, from mpirun | [1,3]<stderr>:message
_MPI = re.compile(r"\[(?:\d{1,6},)?(\d{1,6})\](?:<std(?:out|err)>: ?| (?=\S))")
# (WorkerDict pid=1234, ip=10.0.0.1) message
_RAY = re.compile(r"\((\w[\w.:()=]{0,99}?)(?: rank=(\d{1,6}))? pid=(\d{1,10})(?:, ip=([\w.:-]{1,64}))?\) ?")
# [pod/trainer-0/pytorch] message, from kubectl logs --prefix
_POD = re.compile(r"\[pod/([\w.-]{1,253})/[\w.-]{1,253}\] ?")
# [INFO|trainer.py:123] 2021-05-27 21:32:12,092 >> message
_HF = re.compile(r"\[(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\|[^\]]{1,200}\] {1,4}(?=\d)")
# INFO 01-20 02:11:07 | [ERROR] 2026-01-01 10:00:00
_LEVEL_LED = re.compile(r"\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\]?:? {1,8}(?=\d|\[\d)")
# a bracket of glog in mid-line, after a progress bar: 11%|###   | 18/160 [3:10:22<24:41:02][E1112 12:00:00.1 X.cpp:1]
_LATE_GLOG = re.compile(r"\[[IWEF]\d{3,4} \d\d:\d\d:\d\d")
# gpu-7: [ 12.3] NVRM | kern.log:12:Apr 11 02:17:33 | 10.9.23.10: n1:77:78 [0] ... NCCL
_LEAD = re.compile(
    r"([^\s:\[\]{}<>\"',;=]{1,255})(?::\d{1,9})?:(?: {1,2}|(?=\S))"
    rf"(?=(?:<\d{{1,3}}>)?(?:\[ *\d{{1,9}}\.\d{{3,9}}\]|\[\d{{4}}-\d\d-\d\d|\[(?:rank|default)\d|\[[IWEF]\d{{3,4}} |\[{_MONTHS} |"
    rf"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) |{_MONTHS} [ \d]\d \d\d:|\d{{4}}-\d\d-\d\d[T ]\d\d:)"
    r"|NVRM: |(?:kern|user|daemon): {1,5}\w{2,8}: \[|slurmstepd|Traceback \(most recent|[\w.-]{1,253}:\d{1,10}:\d{1,10} \[\d)"
)
# gpu-7:   File "/srv/train.py", line 12 | gpu-7: RuntimeError: ..., pdsh before a traceback; names of hosts have a digit
_TRACE_LEAD = re.compile(
    r"((?=[A-Za-z._-]{1,60}\d)[A-Za-z][\w.-]{0,252}+)(?<!\.py): "
    r"(?= {0,4}File \"|(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{1,60}(?:Error|Exception): )"
)
# trainer/0 message | trainer/0 [3]:message, replica and local rank as torchx and NeMo-Run print them
_REPLICA = re.compile(r"([A-Za-z][\w.-]{0,99}/(\d{1,4})) (?:\[(\d{1,4})\]:(?=\S))?(?=\S|  )")
# 10.9.23.10: message
_IP_LEAD = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3}): (?=\S)")
# - 1131566461 2005.11.09 xn228 Nov 9 12:01:01 xn228/xn228 crond[1]: ...
_LOGHUB = re.compile(rf"\S{{1,32}} (\d{{10}}) \d{{4}}\.\d\d\.\d\d (\S{{1,64}}) (?={_MONTHS} )")
# [0] kube.var.log: [1741341121.0, {"log"=>"..."}], what Fluent Bit's stdout prints
_FLUENT_OUT = re.compile(r"(?:\[\d{1,6}\] )?[\w.*/-]{1,120}: (?=\[\[?\d{9,10}[.,])")
_ARROW = re.compile(r'(?<!\\)"=>(?=["\[{\dtfn-])')
# kern.gpu: {"message":"..."}, what Fluentd prints after its stamp
_TAG_OF_JSON = re.compile(r'[\w.*/-]{1,120}: ?(?=\{")')
# ts=2025-03-07T10:12:01Z level=error node=gpu-7 msg="..." | time="2025-03-07T10:12:01Z" level=error msg="..."
_LOGFMT = re.compile(r"(?:ts|time|timestamp|level|lvl)=(?=\S)")
_PAIR = re.compile(r'(?<![\w.])([A-Za-z_][\w.]{0,63}+)=(?:"((?:[^"\\]|\\.){0,16000}+)"|(\S{0,2000}+))')
# kern.warn, a facility and a severity
_FACILITY = re.compile(r"(?:kern|user|mail|daemon|auth|authpriv|syslog|local\d)\.\w{3,7}")
# 1700000000.123 message
_EPOCH = re.compile(r"(\d{10}\.\d{3,9}|\d{13})[:,]? (?=\S)")


def peel(number: int, raw: str) -> Line:
    """The line with its wrappers peeled off; text that has none passes unchanged. Never raises."""
    line = Line(number, raw, raw)
    text = raw if raw.isprintable() else _clean(raw)
    line.text = text
    for _ in range(_ROUNDS):
        rest = _once(line, text)
        if rest is None or rest == text:
            break
        line.text = text = rest
    if line.ts is None and ".cpp:" in text:
        _late_stamp(line, text)
    return line


def peel_all(number: int, raw: str) -> list[Line]:
    """The records of one physical line: usually one; several where a relay glued them, a bar redrew or JSON holds many."""
    parts = [raw]
    if "\r" in raw:
        parts = [part for part in raw.split("\r") if part and not part.isspace()] or [raw]
    if "<" in raw:
        parts = [piece for part in parts for piece in _unglue(part, _GLUED)]
    if raw.count("]:[") > 1:
        parts = [piece for part in parts for piece in _unglue(part, _GLUED_RANK)]
    lines: list[Line] = []
    for part in parts:
        lines.extend(_records(number, part))
    return lines


_MANY = ('"resourceLogs"', '"values"', '"_source"', '"events"')


def _records(number: int, raw: str) -> Iterator[Line]:
    many = _load(raw) if raw[:1] == "{" and any(key in raw for key in _MANY) else None
    inner = list(_spread(many)) if isinstance(many, dict) else []
    if not inner:
        yield peel(number, raw)
    for obj in inner:
        line = peel(number, json.dumps(obj, ensure_ascii=False))
        line.raw = raw
        yield line


def _unglue(raw: str, start: re.Pattern[str]) -> list[str]:
    """`raw` cut before each record but the first; what a progress bar left before that stays with it."""
    cuts = [found.start() for found in start.finditer(raw)][1 if start is _GLUED_RANK else 0 :]
    cuts = [cut for cut in cuts if cut]
    if not cuts:
        return [raw]
    return [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


def _clean(raw: str) -> str:
    """`raw` without escapes and control characters; of a line redrawn by CR the last part that has text."""
    text = _ANSI.sub("", raw) if "\x1b" in raw else raw
    if "\r" in text:
        text = text.rstrip("\r\n \t")
        text = text[text.rfind("\r") + 1 :]
    return _CONTROL.sub("", text)


def _once(line: Line, text: str) -> str | None:
    """What is left after one more wrapper; None when there is none."""
    first = text[:1]
    if first == " ":
        return _indented(line, text)
    for peeler in _PEELERS.get(first, _LETTER if first.isalpha() else ()):
        rest = peeler(line, text)
        if rest is not None:
            return rest
    return None


def _indented(line: Line, text: str) -> str | None:
    """` [2026-02-03 03:00:00] iteration`, `  3: ` and IPMI rows are wrappers; other indents are the message's own."""
    if line.text is line.raw:
        srun = _SRUN.match(text)
        if srun:
            line.rank = int(srun[1])
            return text[srun.end() :]
    bare = text.lstrip(" ")
    if bare[:1] == "[":
        rest = _stamped(line, bare)
        return None if rest == bare else rest
    sel = _SEL.match(bare)
    if sel:
        _keep(line, clocks.parse_stamp(bare, sel.end()))
    return None


# 1 | 02/10/2026 | 14:23:05 | Memory #0x48
_SEL = re.compile(r"[0-9a-f]{1,6} +\| (?=\d\d/\d\d/)")


def _keep(line: Line, stamp: clocks.Stamp | None) -> bool:
    """Takes a stamp unless the line has a better one: an inner stamp wins, save one without a year over one with it."""
    if stamp is None:
        return False
    if stamp.ts is None:
        line.boot_s = stamp.boot_s
        if line.ts is None:
            line.quality = Quality.BOOT_RELATIVE
        return True
    if line.ts is None or stamp.quality is Quality.EXACT or line.quality is not Quality.EXACT:
        line.ts, line.quality, line.zoned = stamp.ts, stamp.quality, stamp.zoned
    return True


_DMESG_DAYS = {"Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "}


def _stamped(line: Line, text: str) -> str | None:
    """A stamp at the start, bracketed or not, and the header that belongs to its kind."""
    stamp = clocks.parse_stamp(text)
    if stamp is None or not _keep(line, stamp):
        return None
    after = text[stamp.end : stamp.end + 2]
    bracket = text[0] == "["
    if after[:1] in ("|", "\t", ",", ";") or after == " |" or (bracket and text[stamp.end - 1] != "]"):
        return text
    if text[0] in "IWEF" and stamp.quality is Quality.YEAR_INFERRED and text[1:2].isdigit():
        return _glog_pid(line, text, stamp.end)
    cri = _CRI.match(text, stamp.end)
    if cri:
        return text[cri.end() :]
    rest = _after_stamp(text, stamp.end)
    if bracket:
        if text[1:5] in _DMESG_DAYS and line.ident is None:
            line.ident = "kernel"  # [Sun Feb 23 16:24:18 2025] is dmesg -T's
        return _boot_header(line, rest) if stamp.boot_s is not None else rest
    return _header(line, text, rest, stamp)


def _after_stamp(text: str, end: int) -> str:
    for lead in (" - ", " >> ", ": ", " "):
        if text.startswith(lead, end):
            return text[end + len(lead) :]
    return text[end:]


def _glog_pid(line: Line, text: str, end: int) -> str:
    """`W1130 13:23:58.004000 18916 torch/x.py:874] ` keeps its file name; the third field is a pid."""
    found = _GLOG_PID.match(text, end)
    if found:
        line.pid = int(found[1])
    return text


_GLOG_PID = re.compile(r" {1,8}(\d{1,10}) [^\]\s]{1,255}\]")


def _header(line: Line, text: str, rest: str, stamp: clocks.Stamp) -> str:
    """Host and tag behind a syslog or journal stamp."""
    named = text[0].isalpha() or text[1:3].strip("0123456789")[:1] == "月"
    if stamp.quality is Quality.YEAR_INFERRED and not named:
        return rest
    syslog = named and stamp.quality is Quality.YEAR_INFERRED
    found = None if not syslog and _NO_HEADER.search(text, 0, stamp.end) else _HEAD.match(rest)
    if found and _is_host(found[1]) and found[2] not in _LEVELS:
        offset = stamp.zoned and text[stamp.end - 1].isdigit()
        if syslog or offset or found[3] or found[2] in _DAEMONS:
            return _take_header(line, found, rest)
    labels = _LABELS.match(rest)
    if labels:
        return _labelled(line, labels, rest)
    bare = _BARE_HOST.match(rest)
    if not bare:
        return rest
    if (syslog or line.raw[:1] == "<") and line.host is None and _is_host(bare[1]):
        line.host = bare[1]
        return rest[bare.end() :]
    if stamp.zoned and _is_stream(bare[1], rest[bare.end() :]):
        line.label = bare[1]
        return rest[bare.end() :]
    return rest


def _is_stream(token: str, rest: str) -> bool:
    """A log stream's name as `aws logs tail` prints it: a path, or a host before another frame."""
    if ":" in token or token[0] in "/[(":
        return False
    if "/" in token:
        return bool(rest) and token.count("/") <= 8 and not token.endswith("/")
    stamp = clocks.parse_stamp(rest)
    return stamp is not None and hosts.plausible(token)


def _take_header(line: Line, found: re.Match[str], rest: str) -> str:
    line.host = found[1].partition("/")[0]
    if not found[3] and found[2] not in _DAEMONS:
        return rest[found.start(2) :]
    line.ident = found[2]
    if found[3]:
        line.pid = int(found[3])
    after = rest[found.end() :]
    return after.lstrip(" ") if line.ident == "kernel" else after


def _is_host(text: str) -> bool:
    node, slash, twin = text.partition("/")
    if _FACILITY.fullmatch(text):
        return False
    return hosts.well_formed(node) and text not in _LEVELS and (not slash or hosts.well_formed(twin))


def _boot_header(line: Line, rest: str) -> str:
    """What follows a dmesg bracket: the printk caller, or host and tag of `journalctl -o short-monotonic`."""
    caller = _CALLER.match(rest)
    if caller:
        rest = rest[caller.end() :]
    if line.host is None and line.ident is None:
        found = _HEAD.match(rest)
        if found and (found[2] == "kernel" or found[3]) and _is_host(found[1]):
            return _take_header(line, found, rest)
    return rest


def _labelled(line: Line, found: re.Match[str], rest: str) -> str:
    labels: dict[str, object] = dict(_LABEL.findall(found[1]))
    _fill(line, labels)
    return rest[found.end() :]


def _priority(line: Line, text: str) -> str | None:
    found = _PRIORITY.match(text)
    if not found:
        return None
    rest = text[found.end() :]
    return _rfc5424(line, rest) or rest


def _rfc5424(line: Line, text: str) -> str | None:
    found = _RFC5424.match(text)
    if not found:
        return None
    stamp = clocks.parse_stamp(found[1])
    if stamp is None and found[1] != "-":
        return None
    _keep(line, stamp)
    host, ident, pid = found[2], found[3], found[4]
    line.host = line.host if host == "-" else host
    line.ident = line.ident if ident == "-" else ident
    line.pid = int(pid) if pid.isascii() and pid.isdigit() and len(pid) < 11 else line.pid
    return text[found.end() :].lstrip(" ")


def _kmsg(line: Line, text: str) -> str | None:
    found = _KMSG.match(text)
    if not found:
        return None
    _keep(line, clocks.Stamp(None, Quality.BOOT_RELATIVE, False, 0, int(found[1]) / 1e6))
    return text[found.end() :]


def _decode(line: Line, text: str) -> str | None:
    found = _DECODE.match(text)
    if not found:
        return None
    if found[1] == "kern":
        line.ident = "kernel"
    rest = text[found.end() :]
    stamp = clocks.parse_stamp(rest)
    if not _keep(line, stamp) or stamp is None:
        return rest
    return _after_stamp(rest, stamp.end)


def _rank(line: Line, text: str) -> str | None:
    found = _RANK.match(text)
    if not found:
        return None
    line.rank = int(found[2])
    if found[1] != "rank":
        line.label = found[1] + found[2]
    return text[found.end() :]


def _mpi(line: Line, text: str) -> str | None:
    found = _MPI.match(text) if line.host is None and line.boot_s is None and line.rank is None else None
    if not found:
        return None
    line.rank = int(found[1])
    return text[found.end() :]


def _srun(line: Line, text: str) -> str | None:
    found = _SRUN.match(text) if line.ts is None and line.rank is None and line.boot_s is None else None
    if not found:
        return None
    line.rank = int(found[1])
    return text[found.end() :]


def _ray(line: Line, text: str) -> str | None:
    found = _RAY.match(text)
    if not found:
        return None
    line.label, line.pid = found[1], int(found[3])
    if found[2]:
        line.rank = int(found[2])
    line.host = found[4] or line.host
    return text[found.end() :]


def _pod(line: Line, text: str) -> str | None:
    found = _POD.match(text)
    if not found:
        return None
    line.label = found[1]
    return text[found.end() :]


def _replica(line: Line, text: str) -> str | None:
    found = _REPLICA.match(text) if line.ts is None and line.boot_s is None and line.label is None else None
    if not found:
        return None
    line.label = found[1]
    if found[3] and int(found[2]) == 0:  # the local ranks of the first replica are the global ones
        line.rank = int(found[3])
    return text[found.end() :]


def _level_led(line: Line, text: str) -> str | None:
    found = _HF.match(text) or _LEVEL_LED.match(text)
    stamp = clocks.parse_stamp(text, found.end()) if found else None
    if stamp is None or stamp.ts is None:
        return None
    _keep(line, stamp)
    return _after_stamp(text, stamp.end)


def _lead(line: Line, text: str) -> str | None:
    """A prefix that a collector put before a whole line: pdsh's or clush's host, grep's file name."""
    if line.ts is not None or line.boot_s is not None or line.label is not None:
        return None
    found = _IP_LEAD.match(text) or _LEAD.match(text) or _TRACE_LEAD.match(text)
    if not found or found[1].startswith(("slurmstepd", "srun", "kernel")) or found[1].endswith(("Error", "Exception", "Warning")):
        return None
    if found[1] in ("NVRM", "ERROR", "WARNING", "INFO", "WARN", "FATAL", "DEBUG"):
        return None
    line.label = found[1]
    return text[found.end() :]


def _tagged(line: Line, text: str) -> str | None:
    """`gpu-7 slurmd[30114]: ` and `kernel: ` at the start of a line that lost its stamp."""
    if line.text is not line.raw and line.host is not None:
        return None
    kernel = _KERNEL.match(text)
    if kernel and line.ident is None:
        line.ident = "kernel"
        return text[kernel.end() :]
    if line.ts is not None or line.boot_s is not None or line.ident is not None:
        return None
    found = _HEAD.match(text)
    if found and (found[3] or found[2] == "kernel") and _is_host(found[1]):
        return _take_header(line, found, text)
    return None


def _loghub(line: Line, text: str) -> str | None:
    found = _LOGHUB.match(text) if line.ts is None else None
    if not found:
        return None
    line.ts, line.quality, line.zoned, line.host = clocks.from_epoch(found[1]), Quality.EXACT, True, found[2]
    return text[found.end() :]


def _epoch(line: Line, text: str) -> str | None:
    found = _EPOCH.match(text) if line.ts is None else None
    ts = clocks.from_epoch(found[1]) if found else None
    if found is None or ts is None:
        return None
    line.ts, line.quality, line.zoned = ts, Quality.EXACT, True
    rest = text[found.end() :]
    head = _HEAD.match(rest)
    if head and (head[3] or head[2] in _DAEMONS) and _is_host(head[1]):
        return _take_header(line, head, rest)
    return rest


def _quoted(line: Line, text: str) -> str | None:
    """The first cell of an exported row: "2025-03-07T10:12:01Z","gpu-7","NVRM: ...". What the others mean is not known."""
    stamp = clocks.parse_stamp(text, 1) if line.ts is None else None
    if stamp and stamp.ts is not None and text[stamp.end : stamp.end + 1] == '"':
        _keep(line, stamp)
    return None


def _logfmt(line: Line, text: str) -> str | None:
    """`key=value` pairs, one of which is the message."""
    if line.ts is not None or not _LOGFMT.match(text):
        return None
    pairs: dict[str, object] = {}
    for key, quoted, bare in _PAIR.findall(text[:_READ]):
        pairs.setdefault(key, quoted.replace('\\"', '"') or bare)
    message = pairs.get("msg") or pairs.get("message")
    if not isinstance(message, str):
        return None
    _fill(line, pairs)
    return " ".join([message, *(f"{key}={pairs[key]}" for key in _EXTRA_KEYS if pairs.get(key))])


def _late_stamp(line: Line, text: str) -> None:
    found = _LATE_GLOG.search(text)
    if found:
        _keep(line, clocks.parse_stamp(text, found.start()))


# --- JSON -----------------------------------------------------------------------------------------------------------

_TEXT_KEYS = ("MESSAGE", "line", "log", "message", "msg", "body", "Body", "@message", "textPayload", "_raw", "event")
_LINE_KEYS = ("MESSAGE", "line", "log", "body", "Body")
_EXTRA_KEYS = ("error", "err", "exception", "exc_info", "stack", "stack_trace", "traceback")
_TIME_KEYS = (
    "_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP", "timeUnixNano", "Timestamp", "timestamp", "@timestamp", "time", "ts", "date",
    "asctime", "eventTime", "observedTimeUnixNano", "@ingestionTime",
)  # fmt: skip
_HOST_KEYS = (
    "_HOSTNAME", "k8s.node.name", "host.name", "node", "node_name", "nodename", "nodeName", "kubernetes_host", "__journal__hostname",
    "hostname", "host", "Host", "computer", "instance",
)  # fmt: skip
_INNER_KEYS = (
    "kubernetes", "k8s", "labels", "stream", "resource", "attributes", "Resource", "Attributes", "fields", "jsonPayload", "agent",
    "_source",
)  # fmt: skip
_IDENT_KEYS = ("SYSLOG_IDENTIFIER", "_COMM", "appname", "ident", "program", "tag", "unit")
_LABEL_KEYS = ("pod_name", "k8s.pod.name", "pod", "container_name", "logStreamName", "@logStream")
# Objects that are records themselves, not a wrapper around a log line.
_OWN_KEYS = frozenset({"involvedObject", "apiVersion", "resourceSpans", "traceEvents"})


def _load(text: str) -> object:
    if len(text) > _JSON_LIMIT:
        return None
    try:
        return load(text)
    except (ValueError, RecursionError):
        return None


def _object(line: Line, text: str) -> str | None:
    """A JSON object that wraps a log line."""
    labels = _LABELS.match(text)
    if labels:
        return _labelled(line, labels, text)
    if not text.rstrip().endswith("}"):
        return None
    obj = _load(text)
    return _unwrap(line, obj) if isinstance(obj, dict) else None


def _fluent(line: Line, text: str) -> str | None:
    """`[1700000000.1, {...}]` and `[[1700000000.1, {}], {...}]` of Fluent Bit."""
    if not text.rstrip().endswith("]") or "{" not in text[:128]:
        return None
    pair = _load(_ARROW.sub('": ', text) if '"=>' in text else text)
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], dict):
        return None
    head = pair[0][0] if isinstance(pair[0], list) and pair[0] else pair[0]
    rest = _unwrap(line, pair[1])
    ts = clocks.from_epoch(head)
    if rest is not None and ts is not None and line.ts is None:
        line.ts, line.quality, line.zoned = ts, Quality.EXACT, True
    return rest


def _fluent_out(line: Line, text: str) -> str | None:
    found = _FLUENT_OUT.match(text) if line.ts is None and line.boot_s is None else None
    return _fluent(line, text[found.end() :]) if found else None


def _tag_of_json(line: Line, text: str) -> str | None:
    found = _TAG_OF_JSON.match(text) if line.ts is not None else None
    return _object(line, text[found.end() :]) if found else None


def _unwrap(line: Line, obj: Mapping[str, object]) -> str | None:
    if not _OWN_KEYS.isdisjoint(obj):
        return None
    message = _message(obj)
    if message is None:
        return None
    _fill(line, obj)
    # {"event": "step", "loss": 2.1}: a keyword among fields is no message, the object is
    if len(obj) > 2 and " " not in message and not any(key in obj for key in _LINE_KEYS):
        return None
    return message if message.isprintable() else _clean(message.rstrip("\r\n"))


def _message(obj: Mapping[str, object]) -> str | None:
    for key in _TEXT_KEYS:
        text = _as_text(obj.get(key))
        if text is not None:
            extra = [f"{k}={obj[k]}" for k in _EXTRA_KEYS if isinstance(obj.get(k), str)] if key in ("msg", "message") else []
            return " ".join([text, *extra])
    nested = obj.get("jsonPayload") or obj.get("result") or obj.get("_source")
    return _message(nested) if isinstance(nested, dict) and nested is not obj else None


def _as_text(value: object) -> str | None:
    """A text, a journald byte array or an OTel value as text; None when it is neither."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _as_text(value.get("stringValue"))
    if isinstance(value, list) and value and all(isinstance(b, int) and 0 <= b < 256 for b in value):
        return bytes(value).decode("utf-8", "replace")
    return None


def _flat(obj: Mapping[str, object], depth: int = 0) -> dict[str, object]:
    """The fields of an object, those of known inner objects after its own; OTel attribute lists become fields."""
    fields = dict(obj)
    for key in _INNER_KEYS:
        inner = obj.get(key)
        if isinstance(inner, list):
            inner = {a["key"]: _as_text(a.get("value")) for a in inner if isinstance(a, dict) and isinstance(a.get("key"), str)}
        if isinstance(inner, dict) and depth < 3:
            more = _flat(inner, depth + 1)
            if key in ("kubernetes", "k8s") and isinstance(more.get("host"), str):
                more["kubernetes_host"] = more["host"]
            for name, value in more.items():
                fields.setdefault(name, value)
    host = obj.get("host")
    if isinstance(host, dict):
        fields["host.name"] = host.get("name") or host.get("hostname")
    return fields


def _fill(line: Line, obj: Mapping[str, object]) -> None:
    """Time, host, tag, pid, rank and label from the fields of a wrapper."""
    fields = _flat(obj)
    for key in _TIME_KEYS:
        known = clocks.from_text(fields.get(key))
        if known:
            _keep(line, clocks.Stamp(known[0], known[1], known[2], 0))
            break
    if fields.get("_TRANSPORT") == "kernel":
        line.ident, since = "kernel", fields.get("_SOURCE_MONOTONIC_TIMESTAMP")
        if isinstance(since, str) and since.isascii() and since.isdigit() and len(since) < 18:
            line.boot_s = int(since) / 1e6
    line.host = _first(fields, _HOST_KEYS, hosts.plausible) or line.host
    line.ident = _first(fields, _IDENT_KEYS) or line.ident
    line.label = _first(fields, _LABEL_KEYS) or line.label
    line.pid = _number(fields.get("_PID") or fields.get("SYSLOG_PID") or fields.get("pid"), line.pid)
    line.rank = _number(fields.get("rank"), line.rank)


def _first(fields: Mapping[str, object], keys: tuple[str, ...], fits: Callable[[str], bool] = bool) -> str | None:
    for key in keys:
        value = fields.get(key)
        if isinstance(value, str):
            name = value.partition(":")[0] if key == "instance" else value
            if fits(name):
                return name
    return None


def _number(value: object, default: int | None) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32:
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 11:
        return int(value)
    return default


def _spread(obj: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """The records inside an OTLP batch, a Loki stream or answer, a search's hits, or CloudWatch's events."""
    for batch in _dicts(obj.get("resourceLogs")):
        resource = batch.get("resource")
        for scope in _dicts(batch.get("scopeLogs")):
            for record in _dicts(scope.get("logRecords")):
                yield {**record, "resource": resource}
    data, hits = obj.get("data"), obj.get("hits")
    for stream in [obj, *(_dicts(data.get("result")) if isinstance(data, dict) else [])]:
        values = stream.get("values")
        for pair in values if isinstance(values, list) and isinstance(stream.get("stream"), dict) else ():
            if isinstance(pair, list) and len(pair) >= 2:
                yield {"stream": stream["stream"], "timestamp": pair[0], "line": pair[1]}
    yield from _dicts(hits.get("hits") if isinstance(hits, dict) else None)
    yield from (event for event in _dicts(obj.get("events")) if "message" in event and "timestamp" in event)


def _dicts(value: object) -> list[dict[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


_Peeler = Callable[[Line, str], str | None]


def _bracket(line: Line, text: str) -> str | None:
    """`[`: what the second character can be decides."""
    second = text[1:2]
    if second == "r" or second == "d" or second == "t":
        return _rank(line, text)
    if second.isdigit() or second == "[":
        return _fluent_out(line, text) or _mpi(line, text) or _stamped(line, text) or _fluent(line, text)
    if second == "p":
        return _pod(line, text)
    since = _SINCE.match(text) if second in " +" else None
    if since:
        line.ident = "kernel"
        return text[since.end() :]
    return _stamped(line, text) or _level_led(line, text)


_LETTER: tuple[_Peeler, ...] = (_tagged, _fluent_out, _tag_of_json, _replica, _lead)
_DATED: tuple[_Peeler, ...] = (_stamped, *_LETTER)
_PEELERS: dict[str, tuple[_Peeler, ...]] = {
    "[": (_bracket,),
    "{": (_object,),
    "<": (_priority,),
    "(": (_ray,),
    "-": (_loghub,),
    **dict.fromkeys("JFMASONDTIWE", (*_DATED, _level_led)),
    "C": (_level_led, *_LETTER),
    **dict.fromkeys("kudlmansfcp", (_decode, *_LETTER)),
    **dict.fromkeys("tl", (_logfmt, _decode, *_LETTER)),
    '"': (_quoted,),
    **dict.fromkeys("0123456789", (_stamped, _kmsg, _srun, _rfc5424, _epoch, _lead)),
}
