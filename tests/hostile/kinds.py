"""The hostile folder: one kind of attack each, made here, with what must hold of the answer.

`BAIT` is a line that every text kind carries its payload in, so that the payload reaches evidence, excerpts and names; `zq` marks what must
stay text.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import socket
import struct
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import zstandard

Make = Callable[[Path], None]
STAMP = "2026-06-01T10:31:13.000000+00:00"
BAIT = STAMP + " {host} kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=42, name={text}, GPU has fallen off the bus.\n"
HEAD = "JobID|JobName|User|Partition|NNodes|NodeList|AllocTRES|Submit|Start|End|Elapsed|State|ExitCode|Reason\n"
ROW = (
    "{id}|{name}|{user}|train|1|{hosts}|billing=96,cpu=96,gres/gpu=8,node=1|2026-06-01T09:00:00|2026-06-01T09:01:00|2026-06-01T10:32:00"
    "|01:31:00|FAILED|1:0|{reason}\n"
)
LARGE = 100 << 20


@dataclass(frozen=True)
class Kind:
    """A name, what it tries, how it is made, the class of the verdict (None: any), and what the answer or its refusal must say.

    most_s, most_mb  processor time of all commands together, and memory at their peak
    """

    name: str
    tries: str
    make: Make
    verdict: str | None = None
    says: str = ""
    slow: bool = False
    most_s: int = 20
    most_mb: int = 500


def bait(text: str, host: str = "tau-07") -> bytes:
    return BAIT.format(host=host, text=text).encode("utf-8", "surrogateescape")


def log(data: bytes, name: str = "tau-07.kern.log") -> Make:
    def make(folder: Path) -> None:
        (folder / name).write_bytes(data)

    return make


def several(files: dict[str, bytes]) -> Make:
    """Files beside a log with one fault."""

    def make(folder: Path) -> None:
        for name, data in {"tau-07.kern.log": bait("x"), **files}.items():
            (folder / name).write_bytes(data)

    return make


def text(payload: str) -> Make:
    """The payload in a process name, a job's name, a user, a reason, a training log and the neighbours of the evidence."""

    def make(folder: Path) -> None:
        quiet = f"{STAMP} tau-07 app[9]: {payload}\n".encode("utf-8", "surrogateescape")
        (folder / "tau-07.kern.log").write_bytes(quiet + bait(payload) + quiet)
        cell = payload.replace("|", "/").replace("\n", " ")
        row = ROW.format(id=615, name=cell, user=cell[:30] or "u", hosts="tau-07", reason=cell)
        (folder / "sacct.txt").write_bytes((HEAD + row).encode("utf-8", "surrogateescape"))
        (folder / "slurm-615.out").write_bytes(f"[rank0]: RuntimeError: CUDA error: {payload}\n".encode("utf-8", "surrogateescape"))

    return make


def tar(*members: tuple[str, bytes, str, bytes], mode: str = "w") -> bytes:
    """(name, type, link, data) each."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, kind, link, data in members:
            made = tarfile.TarInfo(name)
            made.type, made.linkname, made.size = kind, link, len(data)
            archive.addfile(made, io.BytesIO(data))
    return out.getvalue()


def _member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> Make:
    """An archive with a bad member, and one good one."""
    data = bait("x") if kind == tarfile.REGTYPE else b""
    return log(tar((name, kind, link, data), ("tau-07.kern.log", tarfile.REGTYPE, "", bait("y"))), "bundle.tar")


def _climbing(folder: Path) -> None:
    outside = folder.parent / "owned-by-tar.log"
    log(tar((f"../../../../..{outside}", tarfile.REGTYPE, "", bait("x")), (str(outside), tarfile.REGTYPE, "", bait("y"))), "b.tar")(folder)


def _sparse(folder: Path) -> None:
    """A GNU sparse member that claims 1 TB."""
    made = tarfile.TarInfo("sparse.log")
    made.type, made.size = tarfile.GNUTYPE_SPARSE, 0
    block = bytearray(made.tobuf(tarfile.GNU_FORMAT))
    block[386:398], block[398:410], block[483:495] = b"00000000000\0", b"00000000000\0", b"14000000000\0"
    block[148:156] = b"        "
    block[148:156] = f"{sum(block[:512]):06o}\0 ".encode()
    (folder / "bundle.tar").write_bytes(bytes(block) + b"\0" * 1024)


class _Call:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch owned-by-pickle",)


def dump(body: bytes) -> Make:
    return log(body, "nccl_trace_rank_0")


# what a dump of the flight recorder begins with, so that it is taken for one
_BEGIN = pickle.PROTO + b"\x02" + b"}q\x00(X\x07\x00\x00\x00versionq\x01X\x03\x00\x00\x002.4q\x02X\x07\x00\x00\x00entriesq\x03"


def _memo_bomb() -> bytes:
    """A list that holds itself twice, forty times over."""
    parts = [pickle.PROTO + b"\x02", b"(lq\x00"]
    for n in range(1, 41):
        parts.append(b"(" + b"h" + bytes([n - 1]) + b"h" + bytes([n - 1]) + b"lq" + bytes([n]))
    return b"".join(parts) + b"."


_FILLER = f"{STAMP} tau-07 app[9]: nothing of note here\n".encode() * 18_000  # about a megabyte


def _gzip_bomb(folder: Path) -> None:
    with gzip.GzipFile(folder / "kern.log.gz", "wb", compresslevel=9, mtime=0) as out:
        for _ in range(1200):
            out.write(b"\0" * (1 << 20))


def _zstd_bomb(folder: Path) -> None:
    with (folder / "kern.log.zst").open("wb") as raw, zstandard.ZstdCompressor(level=1).stream_writer(raw) as out:
        for _ in range(2048):
            out.write(_FILLER)


def _bzip_bomb(folder: Path) -> None:
    (folder / "kern.log.bz2").write_bytes(bz2.compress(_FILLER * 45) * 40)


def _xz_bomb(folder: Path) -> None:
    (folder / "kern.log.xz").write_bytes(lzma.compress(_FILLER * 64) * 24)


def _nested(folder: Path) -> None:
    """gzip in gzip in gzip, and a tar in a tar."""
    data = bait("x")
    for _ in range(30):
        data = gzip.compress(data, mtime=0)
    (folder / "deep.log.gz").write_bytes(data)
    inner = tar(("tau-07.kern.log", tarfile.REGTYPE, "", bait("y")))
    for _ in range(30):
        inner = tar(("again.tar", tarfile.REGTYPE, "", inner))
    (folder / "deep.tar").write_bytes(inner)


def _quine(folder: Path) -> None:
    """Thousands of small gzip members, one after the other."""
    (folder / "kern.log.gz").write_bytes(gzip.compress(b"", mtime=0) * 50_000 + gzip.compress(bait("x"), mtime=0))


def _links(folder: Path) -> None:
    (folder / "loop").symlink_to(folder)
    (folder / "a").symlink_to(folder / "b")
    (folder / "b").symlink_to(folder / "a")
    (folder / "tau-07.kern.log").write_bytes(bait("x"))


def _up(folder: Path) -> None:
    """Links to the whole system."""
    (folder / "root").symlink_to("/")
    (folder / "proc").symlink_to("/proc")
    (folder / "tau-07.kern.log").write_bytes(bait("x"))


def _devices(folder: Path) -> None:
    for name in ("zero", "random", "full", "tty"):
        (folder / f"{name}.log").symlink_to(f"/dev/{name}")
    (folder / "tau-07.kern.log").write_bytes(bait("x"))


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "kern.log")
    (folder / "tau-07.kern.log").write_bytes(bait("x"))


def _socket(folder: Path) -> None:
    here = Path.cwd()
    os.chdir(folder)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("kern.log")
    finally:
        os.chdir(here)
    (folder / "tau-07.kern.log").write_bytes(bait("x"))


def _secret(folder: Path) -> None:
    (folder / "locked").mkdir()
    (folder / "locked" / "kern.log").write_bytes(bait("x"))
    (folder / "shut.log").write_bytes(bait("x"))
    (folder / "tau-07.kern.log").write_bytes(bait("x"))
    (folder / "shut.log").chmod(0)
    (folder / "locked").chmod(0)


def _names(*names: str) -> Make:
    def make(folder: Path) -> None:
        for name in names:
            (folder / name).write_bytes(bait("x"))

    return make


def _name_bytes(folder: Path) -> None:
    with open(os.fsencode(folder) + b"/tau-\xff\xfe07.kern.log", "wb") as out:
        out.write(bait("x"))


def _deep_folders(folder: Path) -> None:
    here = folder
    for _ in range(120):
        here = here / "d"
        here.mkdir()
    (here / "tau-07.kern.log").write_bytes(bait("x"))


def _many_files(folder: Path) -> None:
    for n in range(3000):
        (folder / f"n{n}.log").write_bytes(b"" if n % 2 else f"{n}\n".encode())
    (folder / "tau-07.kern.log").write_bytes(bait("x"))


def _hosts(*hosts: str) -> Make:
    return log(b"".join(bait("x", host) for host in hosts), "kern.log")


def _records(hosts: str, job: str = "615") -> Make:
    def make(folder: Path) -> None:
        (folder / "sacct.txt").write_text(HEAD + ROW.format(id=job, name="run", user="ada", hosts=hosts, reason="None"))
        (folder / "tau-07.kern.log").write_bytes(bait("x"))

    return make


def _stamps(*stamps: str) -> Make:
    body = "".join(BAIT.format(host="tau-07", text="x").replace(STAMP, stamp) for stamp in stamps)
    return log(body.encode() + bait("x"))


def _json(value: str) -> Make:
    """In a journal, in Kubernetes' and in Slurm's JSON."""

    journal = '{"__REALTIME_TIMESTAMP": @T, "_HOSTNAME": "tau-07", "MESSAGE": "NVRM: Xid (PCI:0000:3b:00): 79, GPU", "x": @V}\n'
    files = {
        "journal.json": journal.replace("@T", '"1780309873000000"') + journal.replace("@T", "@V"),
        "sacct.json": '{"jobs": [{"job_id": @V, "nodes": "tau-07", "state": {"current": ["FAILED"]}, "time": @V}]}',
        "events.json": '{"kind": "List", "items": [{"kind": "Event", "reason": "Evicted", "count": @V}]}',
        "nccl_trace_rank_0.json": '{"version": "2.4", "entries": [{"collective_seq_id": @V, "time_created_ns": @V}]}',
    }
    return several({name: body.replace("@V", value).encode() for name, body in files.items()})


def _training(body: str) -> Make:
    return several({"slurm-615.out": body.encode()})


def _long_line(folder: Path) -> None:
    with (folder / "tau-07.kern.log").open("wb") as out:
        out.write(bait("x") + b"NVRM: Xid ")
        for _ in range(LARGE >> 20):
            out.write(b"A" * (1 << 20))
        out.write(b"\n" + bait("x"))


def _million_hosts(folder: Path) -> None:
    with (folder / "kern.log").open("w") as out:
        for n in range(100_000):
            out.write(BAIT.format(host=f"h{n:06d}", text="x"))


def _zip(folder: Path) -> None:
    from zipfile import ZIP_DEFLATED, ZipFile

    with ZipFile(folder / "logs.zip", "w", ZIP_DEFLATED) as out:
        out.writestr("../../owned-by-zip.log", bait("x").decode())
    (folder / "tau-07.kern.log").write_bytes(bait("x"))


_RANK = "[rank{r}]:[E601 10:31:13.000000000 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation timeout: "
_WORK = "WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, NumelIn={n}, NumelOut={n}, Timeout(ms)={n}) ran for {n} milliseconds before timing out.\n"

KINDS = (
    Kind("escapes", "ANSI: clear the screen, colours, cursor, title", text("zqa\x1b[2J\x1b[31m\x1b[1;1H\x1b]0;owned\x07"), "T04"),
    Kind("osc-8", "a terminal's hyperlink", text("zqa\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\"), "T04"),
    Kind("osc-52", "write the clipboard", text("zqa\x1b]52;c;cm0gLXJmIC8=\x07"), "T04"),
    Kind("dcs", "a device string that answers into the shell", text("zqa\x1bP+q544e\x1b\\\x1b[6n\x1b[c\x05"), "T04"),
    Kind("c1", "eight-bit control characters", text("zqa\x9b31m\x9d0;x\x9c\x85\x8d"), "T04"),
    Kind("bidi", "text that reads backwards", text("zqa\u202egnp.exe\u202c\u2066x\u2069\u200f"), "T04"),
    Kind("zero-width", "invisible characters in names", text("zqa\u200b\u200d\ufeff\u2060\u00ad\u180e\U000e0041"), "T04"),
    Kind("carriage-return", "a line that overwrites itself", text("zqa harmless\rNVRM: nothing happened here"), "T04"),
    Kind("backspace", "a line that erases itself", text("zqa" + "\b" * 8 + "\x7f" * 4), "T04"),
    Kind("separators", "other ends of lines", text("zqa\x0b\x0c\x1c\x1d\x1e\u2028\u2029 second line"), "T04"),
    Kind("combining", "a thousand marks on one letter", text("zqa" + "\u0301\u0489" * 500), "T04"),
    Kind("private-use", "private and unassigned characters", text("zqa\ue000\U000f0000\ufffe\U0010ffff"), "T04"),
    Kind("html", "elements and handlers", text("zqa<script>alert(1)</script><img src=x onerror=alert(1)><svg/onload=alert(1)>"), "T04"),
    Kind("html-attribute", "out of an attribute", text("zqa\" onmouseover=\"alert(1)\" x='"), "T04"),
    Kind("html-data", "out of the page's data", text("zqa</script><!--<script>]]>&lt;/script&gt;"), "T04"),
    Kind("html-css", "styles that call home", text("zqa</style><style>@import url(//evil.example)</style>"), "T04"),
    Kind("template", "templates in text", text("zqa{{7*7}}{% include '/etc/passwd' %}${7*7}#{7*7}<%= 7*7 %>"), "T04"),
    Kind("markdown-link", "links and images",
         text("zqa[x](javascript:alert(1))![y](http://evil.example/p.png)<http://evil.example>"), "T04"),
    Kind("markdown-fence", "out of a code block", text("zqa``` \n# owned\n```` ~~~ `x` ``"), "T04"),
    Kind("markdown-table", "columns of a table", text("zqa | | | --- | \\| x"), "T04"),
    Kind("markdown-marks", "the places that people fill in",
         text("zqa <!-- triage:keep owner --> owned <!-- /triage:keep owner -->"), "T04"),
    Kind("formula", "formulas of a spreadsheet", text("=cmd|' /C calc'!A0"), "T04"),
    Kind("formula-others", "the other beginnings of one", text("+1+1 @SUM(1) -2+3 \t=1"), "T04"),
    Kind("chat", "mentions in a chat", text("zqa <!channel> <!here> @channel @here <@U0000> <http://evil.example|login>"), "T04"),
    Kind("references", "mentions and references of a forge", text("zqa @ada #1 GH-1 ada/x#2 https://evil.example www.evil.example"), "T04"),
    Kind("sql", "statements in values", text("zqa'; DROP TABLE events; -- \" ) UNION SELECT 1 /*"), "T04"),
    Kind("shell", "commands in names", text("zqa$(touch owned-by-shell)`touch owned-by-shell`;touch owned-by-shell|touch x&&!!"), "T04"),
    Kind("format", "format strings", text("zqa%s%n%x%99999999d{0}{x.__class__}{0:>999999999}\\x00\\n"), "T04"),
    Kind("nul", "NUL bytes in lines", text("zqa\0\0\0after"), "T04"),
    Kind("nul-hole", "a hole of NULs, as a crash leaves one", log(bait("x") * 2000 + b"\0" * (4 << 20) + b"\n" + bait("x")), "T04"),
    Kind("invalid-utf-8", "bytes that are no text", text("zqa\udcff\udcfe\udcc3(\udced\udca0\udc80\udcf8"), "T04"),
    Kind("overlong", "overlong forms of / and NUL", text("zqa\udcc0\udcaf\udcc0\udc80\udce0\udc80\udcaf"), "T04"),
    Kind("surrogates", "lone surrogates in JSON", _json('"\\ud800\\udfff\\ud800"'), "T04"),
    Kind("utf-16", "another encoding", log(bait("zqa").decode().encode("utf-16")), "T04"),
    Kind("utf-16-be", "another encoding, without a mark", log(bait("zqa").decode().encode("utf-16-be"))),
    Kind("utf-32", "another encoding still", log(bait("zqa").decode().encode("utf-32"))),
    Kind("bom", "marks of byte order in the middle",
         log(b"\xef\xbb\xbf" + bait("x") + b"\xef\xbb\xbf" + bait("x") + b"\xff\xfe" + bait("x")), "T04"),
    Kind("long-line", "a line of 100 MB", _long_line, "T04"),
    Kind("no-newline", "20 MB without an end of line", log(bait("x") + b"NVRM: Xid (PCI:" * (20 << 16)), "T04"),
    Kind("cr-only", "ends of lines of another age", log(bait("x").replace(b"\n", b"\r") * 2000), None),
    Kind("needles", "5 MB of nothing but our words",
         log(b"NVRM: Xid NCCL WARN slurmstepd: error: Watchdog \n" * 100_000 + bait("x")), "T04"),
    Kind("json-deep", "JSON a million levels deep", _json("[" * 1_000_000 + "]" * 1_000_000), "T04"),
    Kind("json-deep-objects", "objects in objects", _json('{"a":' * 200_000 + "1" + "}" * 200_000), "T04"),
    Kind("json-huge-int", "a number of 100,000 digits", _json("9" * 100_000), "T04"),
    Kind("json-floats", "numbers that are none", _json("[NaN, Infinity, -Infinity, 1e999999, -0.0, 1e-400]"), "T04"),
    Kind("json-infinity", "no number where one is due", _json("-Infinity"), "T04"),
    Kind("json-negative", "negative numbers", _json("-9223372036854775809"), "T04"),
    Kind("json-types", "another type everywhere", _json('{"a": [null, {"b": []}]}'), "T04"),
    Kind("json-duplicates", "a key that comes twice", _json('{"a": 1, "a": {"a": 2}, "": 3, "__class__": "x"}'), "T04"),
    Kind("json-cut", "JSON that ends too early", log(b'{"jobs": [{"job_id": 615, "nodes": "tau-07', "sacct.json")),
    Kind("pickle-reduce", "a pickle that calls a program", dump(pickle.dumps({"version": "2.4", "entries": [_Call()]}))),
    Kind("pickle-global", "a pickle that names a function", dump(_BEGIN + b"cos\nsystem\nq\x04X\x01\x00\x00\x00xq\x05\x85q\x06Rq\x07u.")),
    Kind("pickle-stack-global", "the same by another opcode", dump(_BEGIN + b"\x8c\x02os\x8c\x06system\x93q\x04u.")),
    Kind("pickle-inst", "objects by old opcodes", dump(_BEGIN + b"(S'touch owned-by-pickle'\nios\nsystem\nu.")),
    Kind("pickle-build", "state that is set on an object", dump(_BEGIN + b"}}bu.")),
    Kind("pickle-persistent", "a persistent id", dump(_BEGIN + b"Pevil\nu.")),
    Kind("pickle-extension", "an extension's registry", dump(_BEGIN + b"\x82\x01u.")),
    Kind("pickle-memo", "a list that doubles forty times", dump(_memo_bomb())),
    Kind("pickle-recursion", "lists in lists, 100,000 deep", dump(pickle.PROTO + b"\x02" + b"]" * 100_000 + b"a" * 99_999 + b".")),
    Kind("pickle-itself", "a list that holds itself", dump(_BEGIN + b"]q\x04h\x04au.")),
    Kind("pickle-length", "a text of 4 GB that is not there", dump(_BEGIN + b"\x8d" + struct.pack("<Q", 1 << 62) + b"x.")),
    Kind("pickle-long", "a number of a million bytes", dump(_BEGIN + b"\x8b" + struct.pack("<i", 1_000_000) + b"\xff" * 1_000_000 + b"u.")),
    Kind("pickle-underflow", "a stack that is empty", dump(_BEGIN + b"0000000auuuse.")),
    Kind("pickle-frames", "frames that lie about their size", dump(pickle.PROTO + b"\x04\x95" + struct.pack("<Q", 1 << 60) + b"}.")),
    Kind("gzip-bomb", "1.2 GB of NULs in 1.2 MB", _gzip_bomb, "none", "Skipped", slow=True),
    Kind("zstd-bomb", "2 GB of lines in 200 KB", _zstd_bomb, "none", "decompression bomb"),
    Kind("bzip2-bomb", "1.8 GB of lines in a few MB", _bzip_bomb, None, "", slow=True),
    Kind("xz-bomb", "1.5 GB of lines in 240 KB", _xz_bomb, "none", "decompression bomb"),
    Kind("gzip-members", "50,000 empty members", _quine, "T04"),
    Kind("gzip-cut", "an archive that ends too early",
         log(gzip.compress(bait("x") * 9)[:-9], "tau-07.kern.log.gz"), None, "as far as it goes"),
    Kind("gzip-lies", "a member with a wrong checksum", log(gzip.compress(bait("x"))[:-8] + b"\0" * 8, "kern.log.gz")),
    Kind("packed-garbage", "magic numbers and nothing behind them", several({
        f"a{n}": magic + bytes(range(64, 128)) for n, magic in enumerate((b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"BZh9", b"\xfd7zXZ\0"))
    }), "T04"),
    Kind("nested", "archives in archives, thirty deep", _nested),
    Kind("zip", "an archive that is not read", _zip, "T04"),
    Kind("tar-climb", "members that climb out", _climbing, "T04"),
    Kind("tar-symlink", "a link out of the archive", _member("link.log", tarfile.SYMTYPE, "/etc/passwd"), "T04", "a link"),
    Kind("tar-hardlink", "a hard link out of the archive", _member("hard.log", tarfile.LNKTYPE, "../../etc/passwd"), "T04", "a link"),
    Kind("tar-device", "a device", _member("dev.log", tarfile.CHRTYPE), "T04", "not a regular file"),
    Kind("tar-fifo", "a pipe", _member("pipe.log", tarfile.FIFOTYPE), "T04", "not a regular file"),
    Kind("tar-sparse", "a sparse member of a terabyte", _sparse),
    Kind("tar-name", "escapes in a member's name", _member("tau-07\x1b[31m\nzqa<b>.kern.log"), "T04"),
    Kind("tar-cut", "an archive that ends too early",
         log(tar(("tau-07.kern.log", tarfile.REGTYPE, "", bait("x") * 99))[:9000], "b.tar"), "T04"),
    Kind("tar-size", "a member longer than the archive",
         log(tar(("a.log", tarfile.REGTYPE, "", bait("x"))).replace(b"00000000173", b"77777777777"), "b.tar")),
    Kind("link-loop", "folders that lead to themselves", _links, "T04"),
    Kind("link-up", "links to the whole system", _up, "T04"),
    Kind("devices", "links to devices without an end", _devices, "T04", "not a regular file"),
    Kind("fifo", "a pipe that nobody fills", _pipe, "T04", "not a regular file"),
    Kind("socket", "a socket", _socket, "T04", "not a regular file"),
    Kind("unreadable", "files and folders that are shut", _secret, "T04"),
    Kind("name-escapes", "escapes and ends of lines in a file's name", _names("tau-07\x1b[31m\r\n\u202ezqa.kern.log"), "T04"),
    Kind("name-markup", "markup in a file's name", _names("<img src=x onerror=alert(1)>`zqa`.log", "=1+1.log", "[x](http:).log"), "T04"),
    Kind("name-bytes", "a file's name that is no text", _name_bytes, "T04"),
    Kind("name-dash", "a file's name that is an option", _names("--help", "-rf.log", "-"), "T04"),
    Kind("name-glob", "a file's name that is a pattern", _names("*.log", "[a-z].log", "?"), "T04"),
    Kind("name-long", "the longest name", _names("n" * 251 + ".log"), "T04"),
    Kind("folders-deep", "folders 120 deep", _deep_folders, "T04"),
    Kind("files-many", "3,000 files", _many_files, "T04"),
    Kind("host-path", "a host that is a path", _hosts("../../../../tmp/owned-by-host", "..", "/etc/passwd", "a/../b"), None),
    Kind("host-shell", "a host that is a command",
         _hosts("$(touch${IFS}owned-by-shell)", "`id`", "a;b", "--help", "-oProxyCommand=x"), None),
    Kind("host-long", "a host of 10,000 characters", _hosts("h" * 10_000), None),
    Kind("hosts-many", "100,000 hosts", _million_hosts, "T04", slow=True, most_s=150, most_mb=1000),
    Kind("hostlist-bomb", "a list of a billion hosts", _records("gpu-[1-999999999]"), "T04"),
    Kind("hostlist-product", "a product of lists", _records("a[0-999]b[0-999]c[0-999]d[0-999]"), "T04"),
    Kind("hostlist-nested", "lists in lists that do not close", _records("gpu-[[[1-2],3-[4]],tau-07" + "[1-" * 2000), "T04"),
    Kind("hostlist-width", "a padded number of 5,000 digits", _records("gpu-[" + "0" * 5000 + "1-" + "0" * 5000 + "9]"), "T04"),
    Kind("times-far", "years 0, 9999 and 99999",
         _stamps("0000-00-00T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "99999-01-01T00:00:00Z"), None),
    Kind("times-wrong", "days and hours that are none",
         _stamps("2026-02-30T25:61:61Z", "2026-13-01T00:00:00+99:99", "-2026-01-01T00:00:00Z"), "T04"),
    Kind("times-boot", "enormous and negative seconds since boot", log(b"".join(
        b"[%s] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n" % n
        for n in (b"9" * 20 + b".999999", b"-5.000000", b"1e400", b"NaN")
    ) + bait("x")), "T04"),
    Kind("numbers", "pids, codes and counts out of any range", log(b"".join(
        f"{STAMP} tau-07 kernel: NVRM: Xid (PCI:{p}:3b:00): {n}, pid={n}, name=x, Ch {n}\n".encode()
        for n in ("-1", "99999999999999999999", "0x7f", "1e9", "") for p in ("ffffffff", "0000", "-1")
    ) + bait("x")), "T04"),
    Kind("ranks", "ranks and sequence numbers of 10^18 and more", _training("".join(
        _RANK.format(r=n) + _WORK.format(n=n) for n in ("999999999999999999", "-7", "18446744073709551616")
    )), None),
    Kind("tables", "a table with 5,000 columns, and one without an end", several({
        "sacct.txt": "|".join(["JobID", "State", *(f"C{n}" for n in range(5000))]).encode() + b"\n1|FAILED" + b"|" * 5000 + b"\n",
        "inventory.csv": b"host,rack\n" + b'"' * 9999 + b"\n",
    }), "T04"),
    Kind("inventory", "formulas and escapes in an inventory", several({
        "inventory.csv": b'host,rack,gpu_serials\ntau-07,=cmd|x!A0,\x1b[31m;<b>zqa</b>\n../../x,"a\nb",\n',
    }), "T04"),
    Kind("regex-spaces", "a megabyte of blanks between words", log(b"slurmstepd: error: " + b" " * (1 << 20) + b"x\n" + bait("x")), "T04"),
    Kind("regex-digits", "a megabyte of digits, colons and brackets",
         log(b"NVRM: Xid (PCI:" + b"0:" * (1 << 19) + b"[" * 1000 + b"\n" + bait("x")), "T04"),
    Kind("regex-commas", "a megabyte of key=value", log(b"NCCL WARN " + b"a=b, " * 200_000 + b"\n" + bait("x")), "T04"),
    Kind("traceback", "a traceback of 100,000 frames", _training(
        "Traceback (most recent call last):\n" + '  File "x.py", line 1, in f\n    f()\n' * 100_000 + "RecursionError: zqa\n"
    )),
    Kind("dialects", "a file that is everything at once", several({
        "all.log": bait("x") + HEAD.encode() + b'{"jobs": []}\n\x80\x02}.\n' + _RANK.format(r=0).encode() + b'\n{"kind": "List"}',
    }), "T04"),
    Kind("binary", "a program", several({"ls": Path(sys.executable).resolve().read_bytes()[: 4 << 20]}), "T04"),
    Kind("empty", "files of no bytes", several({"tau-07.kern.log": b"", "a": b"", "c.gz": b"", "d.tar": b""}), "none"),
)  # fmt: skip
