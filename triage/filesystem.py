"""What kind of file system a path lies on: on some, the lock that keeps a second writer out does not hold between machines."""

from __future__ import annotations

from pathlib import Path

MOUNTS = Path("/proc/self/mounts")
UNSURE = frozenset(
    "nfs nfs3 nfs4 cifs smb3 smbfs afs 9p ncpfs fuse.sshfs fuse.s3fs fuse.gcsfuse fuse.rclone fuse.goofys fuse.davfs".split()
)


def kind_of(path: str | Path, mounts: Path = MOUNTS) -> str:
    """The kind that the system's table of mounts tells, of the deepest mount above the path; empty where there is no table."""
    try:
        rows = [line.split(" ") for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return ""
    # fleet:/export /mnt/our\040logs nfs4 rw,relatime 0 0
    known = {row[1].replace("\\040", " "): row[2] for row in rows if len(row) > 2}
    place = Path(path).resolve()
    return next((known[str(p)] for p in (place, *place.parents) if str(p) in known), "")


def doubt(path: str | Path, mounts: Path = MOUNTS) -> str | None:
    """What to know before a database is written there; None where its locks hold."""
    kind = kind_of(path, mounts)
    if kind not in UNSURE:
        return None
    return f"{path} lies on {kind}, where a second writer may not be kept out; write on a local disk, one process at a time"
