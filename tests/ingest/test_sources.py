"""What may lie at a path: nothing, binaries, damaged archives, pipes, hostile lines."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import socket
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.ingest.tables import FAMILIES, read, rows
from triage import desk, inflate, sources
from triage.faults import InputFault
from triage.ingest import Options, Report, ingest
from triage.store import Store

XID = b"Mar  2 04:00:00 qx-01 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=812, GPU has fallen off the bus.\n"
QUIET = b"Mar  2 03:%02d:%02d qx-01 systemd[1]: Started Session %d of user svc.\n"
LOG = b"".join(QUIET % (n // 60 % 60, n % 60, n) for n in range(2000)) + XID


def took(db: Path, *paths: Path | str) -> Report:
    return read(db, [list(paths)])[0]


def codes(db: Path) -> list[str]:
    return [r["code"] for r in rows(db, "events")]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "t.duckdb"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "logs"
    made.mkdir()
    return made


def test_an_empty_folder(db: Path, folder: Path) -> None:
    report = took(db, folder)
    assert (report.sources, report.skipped, report.unchanged) == ([], [], 0)


def test_an_empty_file(db: Path, folder: Path) -> None:
    (folder / "kern.log").write_bytes(b"")
    (folder / "b.log").write_bytes(XID)
    took(db, folder)
    assert codes(db) == ["xid.79"]


def test_a_missing_path_is_a_fault() -> None:
    with pytest.raises(InputFault, match="no such file"):
        sources.find(["/nowhere/at/all.log"])


def test_unreadable(db: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = folder / "secret.log"
    secret.write_bytes(XID)
    (folder / "open.log").write_bytes(LOG)
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != secret and real(path, mode))
    report = took(db, folder)
    assert report.skipped == [(str(secret), "not readable")]
    assert len(report.sources) == 1
    with pytest.raises(InputFault, match="not readable"):
        took(db, secret)


def test_binary(db: Path, folder: Path) -> None:
    blob = folder / "core"
    blob.write_bytes(bytes(range(256)) * 400)
    report = took(db, folder)
    assert report.skipped == [(str(blob), "binary data of no known kind")]
    with pytest.raises(InputFault, match="binary data"):
        took(db, blob)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\xfa broken \x80\n" + XID,
        XID.replace(b"Xid", b"\x00Xid").replace(b"\x00", b"") + b"a\x00b\x00\n",
        LOG.replace(b"\n", b"\r\n"),
        XID.rstrip(b"\n"),
        XID + b"Mar  2 04:00:00 qx-01 kernel: NVR",
        b"\xef\xbb\xbf" + XID,
    ],
    ids=["no utf-8", "nul", "crlf", "no last newline", "cut last line", "utf-8 bom"],
)
def test_odd_text(db: Path, folder: Path, data: bytes) -> None:
    (folder / "kern.log").write_bytes(data)
    took(db, folder)
    (event,) = rows(db, "events")
    assert (event["code"], event["device"]) == ("xid.79", "0000:3b:00")


def test_carriage_returns_alone_end_lines(db: Path, folder: Path) -> None:
    lines = LOG + XID.replace(b"3b", b"5e").replace(b"04:00", b"04:30")
    (folder / "kern.log").write_bytes(lines.replace(b"\n", b"\r"))
    took(db, folder)
    assert [(r["device"], r["ts"].minute, r["line_first"]) for r in rows(db, "events")] == [("0000:3b:00", 0, 1), ("0000:5e:00", 30, 1)]


def test_a_needle_in_a_very_long_line(db: Path, folder: Path) -> None:
    with (folder / "kern.log").open("wb") as out:
        out.write(XID + b"Mar  2 04:00:01 qx-01 kernel: " + b"x" * 50_000_000 + b" NVRM: Xid (PCI:0000:5e:00): 48, pid=1, DBE ")
        out.write(b"y" * 50_000_000 + b"\n" + XID.replace(b"3b", b"86"))
    took(db, folder)
    found = {(r["code"], r["device"], r["line_first"], r["host"]) for r in rows(db, "events")}
    assert found == {("xid.79", "0000:3b:00", 1, "qx-01"), ("xid.48", "0000:5e:00", 2, "qx-01"), ("xid.79", "0000:86:00", 3, "qx-01")}


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_with_a_mark(db: Path, folder: Path, encoding: str) -> None:
    text = "\ufeff" + LOG.decode()
    (folder / "kern.log").write_bytes(text.encode(encoding))
    took(db, folder)
    assert [(r["code"], r["line_first"]) for r in rows(db, "events")] == [("xid.79", 2001)]


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("kind", PACKERS)
def test_packed_is_the_same_source(db: Path, folder: Path, kind: str) -> None:
    (folder / "kern.log").write_bytes(LOG)
    (folder / f"kern.log.1.{kind}").write_bytes(PACKERS[kind](LOG))
    report = took(db, folder)
    assert (len(report.sources), report.unchanged, report.skipped) == (1, 1, [])


def noisy(count: int) -> bytes:
    """Text that packs badly, so that half of a file is half of its text."""
    return XID + b"".join(b"qx-01 note %s\n" % os.urandom(24).hex().encode() for _ in range(count))


@pytest.mark.parametrize("kind", PACKERS)
def test_a_cut_archive_gives_what_it_has(db: Path, folder: Path, kind: str) -> None:
    data = noisy(60_000)
    packed = folder / f"kern.log.{kind}"
    packed.write_bytes(PACKERS[kind](data)[: len(PACKERS[kind](data)) * 2 // 3])
    report = took(db, folder)
    assert codes(db) == ["xid.79"]
    assert [path for path, _ in report.skipped] == [str(packed)]
    assert "as far as it goes" in report.skipped[0][1]
    packed.write_bytes(PACKERS[kind](data))
    assert took(db, packed).replaced == 1
    assert codes(db) == ["xid.79"]


def test_bytes_behind_a_gzip_member(db: Path, folder: Path) -> None:
    (folder / "a.gz").write_bytes(gzip.compress(LOG[:-100]) + gzip.compress(LOG[-100:]) + b"\0" * 100 + b"rubbish")
    took(db, folder)
    assert [(r["code"], r["line_first"]) for r in rows(db, "events")] == [("xid.79", 2001)]


def test_a_bomb_is_stopped(db: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflate, "BOMB_FLOOR", 1 << 20)
    bomb = folder / "kern.log.xz"
    bomb.write_bytes(lzma.compress(b"kernel: nothing to see here\n" * 1_000_000))
    report = took(db, folder)
    assert "decompression bomb" in report.skipped[0][1]
    assert report.sources == []
    with pytest.raises(InputFault, match="decompression bomb"):
        took(db, bomb)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, link, size
    return made


def archive(**parts: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in parts.items():
            tar.addfile(member(name, size=len(data)), io.BytesIO(data))
        tar.addfile(member("link.log", tarfile.SYMTYPE, "/etc/passwd"))
        tar.addfile(member("hard.log", tarfile.LNKTYPE, "../../etc/passwd"))
        tar.addfile(member("dev/null", tarfile.CHRTYPE))
        tar.addfile(member("pipe", tarfile.FIFOTYPE))
    return out.getvalue()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.ZstdCompressor().compress], ids=["tar", "tar.gz", "tar.zst"])
def test_archives(db: Path, folder: Path, pack: Callable[[bytes], bytes]) -> None:
    parts = {"../../../up/kern.log": LOG, "qx-02/kern.log.gz": gzip.compress(LOG.replace(b"qx-01", b"qx-02")), "empty.log": b""}
    bundle = folder / "bundle"
    bundle.write_bytes(pack(archive(**parts)))
    report = took(db, folder)
    assert {r["host"] for r in rows(db, "events")} == {"qx-01", "qx-02"}
    assert {r["path"] for r in rows(db, "sources")} >= {f"{bundle}!up/kern.log", f"{bundle}!qx-02/kern.log.gz"}
    assert dict(report.skipped) == {
        f"{bundle}!link.log": "a link",
        f"{bundle}!hard.log": "a link",
        f"{bundle}!dev/null": "not a regular file",
        f"{bundle}!pipe": "not a regular file",
    }


def test_a_cut_archive_of_many(db: Path, folder: Path) -> None:
    whole = archive(**{"a.log": XID, "b.log": noisy(3000)})
    (folder / "bundle.tar").write_bytes(whole[:100_000])
    report = took(db, folder)
    assert "xid.79" in codes(db)
    assert report.skipped


def test_pipes_and_sockets_are_passed_over(db: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "kern.log").write_bytes(XID)
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        report = took(db, folder)
    assert {Path(path).name: why for path, why in report.skipped} == {"fifo": "not a regular file", "sock": "not a regular file"}
    assert codes(db) == ["xid.79"]
    with pytest.raises(InputFault, match="not a file or folder"):
        took(db, folder / "fifo")


@pytest.mark.parametrize("data", [LOG, gzip.compress(LOG), archive(**{"qx-01.log": LOG})], ids=["plain", "gz", "tar"])
def test_standard_input(db: Path, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
    took(db, "-")
    assert codes(db) == ["xid.79"]


def test_a_file_that_grows_while_it_is_read(folder: Path) -> None:
    path = folder / "kern.log"
    path.write_bytes(LOG)
    with sources.find([str(path)]).sources[0].open() as stream:
        assert stream.read(10) == LOG[:10]
        with path.open("ab") as more:
            more.write(XID * 1000)
        assert len(stream.read()) == len(LOG) - 10


def test_no_zone_of_that_name(db: Path, folder: Path) -> None:
    with Store(str(db)) as store, pytest.raises(Exception, match="no such time zone"):
        ingest(store, sources.find([str(folder)]), Options(FAMILIES, "Mars/Olympus"))


def test_our_own_database_among_the_logs_is_no_file_that_was_skipped(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text("Mar  2 04:00:00 qx-01 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x\n")
    (tmp_path / "old.duckdb").write_bytes(b"")
    setup = desk.Setup(str(tmp_path / "t.duckdb"))
    desk.ingest(setup, [str(tmp_path)])
    assert [Path(row["path"]).name for row in desk.ingest(setup, [str(tmp_path)])["skipped"]] == ["old.duckdb"]
