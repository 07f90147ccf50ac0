"""Local disks and file systems in the kernel log: NVMe, SCSI, block layer, RAID, ext4, XFS, Btrfs.

Line shapes: Linux drivers/nvme/host/{pci,core,multipath}.c, block/blk-core.c, fs/buffer.c, drivers/md, fs/ext4/super.c, fs/xfs.
"""

from __future__ import annotations

from collections.abc import Iterable

from parsers import shapes
from parsers.contract import LineDialect, Record, Window
from parsers.shapes import shape

_DISK = r"(?P<disk>[\w!/-]{1,32})"

_BLOCK = (
    # nvme nvme0: I/O 412 QID 4 timeout, aborting   nvme nvme0: I/O tag 12 (000c) opcode 0x2 (Read) QID 4 timeout, reset controller
    shape("host.io_error", r"nvme (?P<disk>nvme\d{1,3}): I/O (?:tag )?\d{1,6} .{0,60}QID \d{1,4} (?P<state>timeout.{0,60})"),
    # nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff
    shape("host.io_error", r"nvme (?P<disk>nvme\d{1,3}): (?P<state>controller is down; will reset.{0,60})"),
    # nvme nvme0: Device not ready; aborting reset, CSTS=0x1   nvme nvme0: Removing after probe failure status: -19
    shape(
        "host.io_error",
        r"nvme (?P<disk>nvme\d{1,3}): (?P<state>Device not ready.{0,60}|Removing after probe failure.{0,40}|Disabling"
        r" device after reset failure.{0,40})",
    ),
    # nvme0n1: I/O Cmd(0x2) @ LBA 1048576, 8 blocks, I/O Error (sct 0x2 / sc 0x81) MORE DNR
    shape("host.io_error", r"(?<![\w!/-])(?P<disk>[\w!/-]{1,32}+): [^:]{0,80}(?P<state>I/O Error \(sct 0x\w{1,4} / sc 0x\w{1,4}\))"),
    # block nvme0n1: no available path - failing I/O
    shape("host.io_error", rf"block {_DISK}: (?P<state>no available path - failing I/O)"),
    # blk_update_request: I/O error, dev fd0, sector 0: no medium in a floppy, optical or loop drive
    shape("", r"\b(?:I/O error, dev|Buffer I/O error on dev(?:ice)?) (?:fd|sr|loop|zram)\d{1,3}\b"),
    # blk_update_request: I/O error, dev sda, sector 1024 op 0x0:(READ) flags 0x0   critical medium error, dev nvme0n1, sector 88
    shape(
        "host.io_error",
        rf"\b(?P<state>I/O error|critical (?:medium|target|nexus|space allocation) error), dev {_DISK}, sector (?P<sector>\d{{1,20}})",
    ),
    # Buffer I/O error on dev md0, logical block 0, lost async page write
    shape(
        "host.io_error", rf"(?P<state>Buffer I/O error) on dev(?:ice)? {_DISK}, logical block", before=rf"I/O error, dev {_DISK}, sector"
    ),
    # md/raid0:md0: Disk failure on nvme0n1p1 detected, failing array.   md/raid0md0: Disk failure on nvme0n1p1 detected, failing array.
    shape("host.io_error", rf"md/raid(?P<array>[\w:]{{1,24}}): (?P<state>Disk failure) on {_DISK}"),
    # kworker/u203:1: attempt to access beyond end of device
    shape("host.io_error", r"(?P<state>attempt to access beyond end of device)"),
    # sd 0:0:0:0: rejecting I/O to offline device
    shape(
        "host.io_error",
        r"\bsd (?P<disk>\d{1,4}:\d{1,4}:\d{1,4}:\d{1,6}): (?:\[\w{1,12}\] )?"
        r"(?P<state>rejecting I/O to (?:offline|dead) device|Device offlined.{0,60})",
    ),
    # ata1.00: failed command: READ FPDMA QUEUED
    shape("host.io_error", r"(?P<disk>ata\d{1,3}\.\d{2}): (?P<state>failed command: [A-Z ]{1,40})"),
    # smartd[911]: Device: /dev/sda [SAT], FAILED SMART self-check. BACK UP DATA NOW!
    shape("host.io_error", r"Device: (?P<disk>/dev/\w{1,20})[^,]{0,40}, (?P<state>FAILED SMART self-check)"),
)
_FILE_SYSTEMS = (
    # EXT4-fs (sda1): Delayed block allocation failed for inode 12 at logical offset 0 with max blocks 8 with error 28
    shape("storage.full", r"EXT4-fs \((?P<disk>[\w!-]{1,32})\): (?P<state>Delayed block allocation failed) .{0,120}with error 28\b"),
    # EXT4-fs (md0): Remounting filesystem read-only   BTRFS: Remounting filesystem read-only
    shape(
        "host.fs_error", r"\b(?P<fs>[A-Za-z0-9]{2,8}+(?:-fs)?)(?: \((?P<disk>[\w!-]{1,32})\))?: (?P<state>Remounting filesystem read-only)"
    ),
    # FAT-fs (sda1): Filesystem has been set read-only
    shape("host.fs_error", r"\b(?P<fs>\w{2,8}+-fs) \((?P<disk>[\w!-]{1,32})\): (?P<state>Filesystem has been set read-only)"),
    # EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm python3: reading directory lblock 0
    shape("host.fs_error", r"(?P<fs>EXT[234]-fs) error \(device (?P<disk>[\w!-]{1,32})\):? (?P<state>.{1,120})"),
    # EXT4-fs (sda1): I/O error while writing superblock
    shape("host.fs_error", r"EXT[234]-fs \((?P<disk>[\w!-]{1,32})\): (?P<state>(?:previous )?I/O error.{0,80})"),
    # EXT4-fs (sda1): failed to convert unwritten extents to written extents -- potential data loss!
    shape("host.fs_error", r"EXT[234]-fs \((?P<disk>[\w!-]{1,32})\): (?P<state>.{0,80}potential data loss)"),
    # Aborting journal on device sda1-8.
    shape("host.fs_error", r"(?P<state>Aborting journal) on device (?P<disk>[\w!-]{1,32})"),
    # XFS (dm-0): log I/O error -5   XFS (dm-0): Metadata I/O Error (0x1) detected at xfs_trans_read_buf_map+0x...
    # XFS (dm-0): Filesystem has been shut down due to log error (0x2).   XFS (sdb1): Corruption detected. Unmount and run xfs_repair
    shape(
        "host.fs_error",
        r"XFS \((?P<disk>[\w!-]{1,32})\): (?P<state>(?:log|metadata) I/O error.{0,60}"
        r"|(?:(?:Metadata )?Corruption|Internal error|I/O Error).{0,80}"
        r"|.{0,60}Shutting down filesystem|Filesystem has been shut down.{0,40})",
        flags=shapes.ANY_CASE,
    ),
    # BTRFS error (device sda2): bdev /dev/sda2 errs: wr 1, rd 0, flush 0, corrupt 0, gen 0
    # BTRFS: error (device sda2) in btrfs_commit_transaction:2418: errno=-5 IO failure
    shape("host.fs_error", r"BTRFS:? (?:error|critical) \(device (?P<disk>[\w!-]{1,32}).{0,12}\):? ?(?:in )?(?P<state>.{1,120})"),
)


def parse(window: Window) -> Iterable[Record]:
    """Errors of local disks and the file systems on them."""
    return shapes.read((*_BLOCK, *_FILE_SYSTEMS), window)


DIALECT = LineDialect(
    name="disks",
    needles=(),
    hints=(
        " timeout, ",
        "controller is down",
        "Device not ready",
        "probe failure",
        "reset failure",
        "I/O Error (sct",
        "no available path",
        "I/O error",
        "I/O Error",
        "critical medium error",
        "critical target error",
        "critical nexus error",
        "critical space allocation error",
        "Disk failure on",
        "beyond end of device",
        "Remounting filesystem",
        "set read-only",
        "rejecting I/O to",
        "Device offlined",
        "failed command: ",
        "FAILED SMART",
        "EXT4-fs",
        "EXT3-fs",
        "Aborting journal",
        "XFS (",
        "F2FS-fs",
        "BTRFS",
    ),
    parse=parse,
)
