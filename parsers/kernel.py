"""Host trouble in the Linux kernel log: memory errors, stalls, panics, heat, boots and shutdowns, crashed processes.

Line shapes: Linux 4.18 to 6.12, drivers/edac/edac_mc.c, arch/x86/kernel/cpu/mce, kernel/watchdog.c, kernel/hung_task.c,
kernel/rcu/tree_stall.h, kernel/panic.c, arch/x86/kernel/traps.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from parsers import shapes
from parsers.contract import Benign, Event, Line, LineDialect, Record, Window
from parsers.shapes import shape

_OOPS = (
    r"BUG: unable to handle|BUG: kernel |kernel BUG at |\bOops: |Unable to handle kernel |general protection fault,"
    r" |general protection fault: "
)

_MEMORY = (
    # mce: [Hardware Error]: Machine check events logged
    shape("", r"Machine check events logged"),
    # EDAC MC0: 3 CE error on CPU#1Channel#0_DIMM#1 (channel:0 slot:1 page:0x0 offset:0x0 grain:8 syndrome:0x0)
    shape("mem.ce", r"EDAC (?:\w{1,20}:? )?MC\d{1,3}: (?:(?P<value>\d{1,9}) )?CE\b(?:.{0,80}? on (?P<dimm>[^(]{1,80}))?"),
    # EDAC MC0: 1 UE memory read error on CPU#1Channel#3_DIMM#0 (channel:3 slot:0 page:0x0 offset:0x0 grain:32)
    shape("mem.ue", r"EDAC (?:\w{1,20}:? )?MC\d{1,3}: (?:(?P<value>\d{1,9}) )?UE\b(?:.{0,80}? on (?P<dimm>[^(]{1,80}))?"),
    # {1}[Hardware Error]:   error_type: 3, multi-bit ECC
    shape("mem.ce", r"\[Hardware Error\]: {1,8}error_type: \d{1,2}, (?P<state>single-bit ECC|single-symbol chipkill ECC)"),
    shape("mem.ue", r"\[Hardware Error\]: {1,8}error_type: \d{1,2}, (?P<state>multi-bit ECC|multi-symbol chipkill ECC)"),
    # mce: Uncorrected hardware memory error in user-access at 61c0f2e40
    shape("mem.ue", r"mce: (?P<state>Uncorrected hardware memory error) in user-access at (?P<address>\w{1,20})"),
    # Memory failure: 0x61c0f2: Sending SIGBUS to python3:4471 due to hardware memory corruption
    shape(
        "mem.ue",
        r"Memory failure: (?P<page>0x\w{1,20}): (?:Killing|Sending SIGBUS to) (?P<task>.{1,40}):"
        r"(?P<pid>\d{1,10}) due to hardware memory corruption",
    ),
    # Memory failure: 0x61c0f2: recovery action for dirty LRU page: Recovered
    shape(
        "mem.ue",
        r"Memory failure: (?P<page>0x\w{1,20}): recovery action for (?P<state>.{1,80})",
        before=r"Memory failure: (?P<page>0x\w{1,20}): (?:Killing|Sending)|Uncorrected hardware memory error",
    ),
    # mcelog: Corrected memory errors on page 61c0f2000 exceed threshold 10 in 24h: 10 in 24h
    shape("mem.ce", r"(?:^|mcelog: )(?P<state>[Cc]orrected memory errors? .{0,60}exceed)"),
)

# mce: [Hardware Error]: CPU 5: Machine Check: 0 Bank 7: 8c00004000010091
# mce: [Hardware Error]: CPU 5: Machine Check Exception: 5 Bank 4: be00000000800400
_BANK = re.compile(r"CPU (?P<cpu>\d{1,5}): Machine Check(?: Exception)?: ?\d{0,4} Bank (?P<bank>\d{1,3}): (?P<status>[0-9a-fA-F]{16})\b")
# [Hardware Error]: CPU:2 (19:1:1) MC17_STATUS[Over|CE|MiscV|AddrV|-|-|SyndV|CECC|-|-|-]: 0xdc2040000000011b
_AMD_BANK = re.compile(r"CPU:(?P<cpu>\d{1,5}) .{0,20}MC(?P<bank>\d{1,3})_STATUS\[(?P<flags>[\w|-]{1,80})\]")
# IA32_MCi_STATUS, bit 61: the error was not corrected (Intel SDM 3B, 17.3.2.2).
_UNCORRECTED = 1 << 61

# The memory-controller driver decodes the same bank a few lines on, with the module's name.
_EDAC = re.compile(r"EDAC (?:\w{1,20}:? )?MC\d{1,3}: (?:\d{1,9} )?[CU]E\b")
_BANK_LINES = 12

# {1}[Hardware Error]:   section_type: memory error
_SECTION = re.compile(r"\[Hardware Error\]: {1,8}section_type: memory error")
# {1}[Hardware Error]:  Error 0, type: recoverable   {1}[Hardware Error]: event severity: corrected
_SECTION_KIND = re.compile(r"\[Hardware Error\]: {1,8}(?:Error \d{1,3}, type|event severity): (?P<kind>corrected|recoverable|fatal)")
_SECTION_BIT = re.compile(r"\[Hardware Error\]: {1,8}error_type: \d{1,2}, (?:single|multi)-")
# {1}[Hardware Error]:   DIMM location: CPU 1 DIMM 5
_SECTION_DIMM = re.compile(r"\[Hardware Error\]: {1,8}DIMM location: (?P<dimm>[^\n]{1,80})")

_STALLS = (
    # INFO: task dataloader:30412 blocked for more than 120 seconds.
    shape(
        "host.hung_task",
        r"INFO: task (?P<task>.{1,64}?):(?P<pid>\d{1,10}) blocked (?:in I/O wait )?for more than (?P<duration_s>\d{1,7}) seconds",
    ),
    # watchdog: BUG: soft lockup - CPU#7 stuck for 23s! [python3:330417]
    shape(
        "host.lockup",
        r"BUG: (?P<state>soft lockup) - CPU#(?P<cpu>\d{1,5}) stuck for (?P<duration_s>\d{1,7})s!(?: \["
        r"(?P<task>[^\]]{1,40}):(?P<pid>\d{1,10})\])?",
    ),
    # NMI watchdog: Watchdog detected hard LOCKUP on cpu 3
    shape("host.lockup", r"[Ww]atchdog detected (?P<state>hard LOCKUP) on cpu ?(?P<cpu>\d{1,5})"),
    # BUG: workqueue lockup - pool cpus=3 node=0 flags=0x0 nice=0 stuck for 44s!
    shape("host.lockup", r"BUG: (?P<state>workqueue lockup) - pool .{0,80}stuck for (?P<duration_s>\d{1,7})s"),
    # rcu: INFO: rcu_sched self-detected stall on CPU
    # rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
    # rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 3-... }
    shape("host.lockup", r"INFO: (?P<flavour>rcu\w{0,20}) (?:self-)?detected (?:expedited )?stalls? on", state="RCU stall"),
    # rcu: rcu_sched kthread starved for 5250 jiffies! g12345 f0x0 RCU_GP_WAIT_FQS(5) ->state=0x0 ->cpu=12
    shape(
        "host.lockup",
        r"(?P<flavour>rcu\w{0,20}) kthread (?:timer wakeup didn't happen|starved) for \d{1,10} jiffies",
        before=r"INFO: (?P<flavour>rcu\w{0,20}) .{0,24}stalls? on",
        reach=40,
        state="RCU stall",
    ),
)

_PANICS = (
    # ---[ end Kernel panic - not syncing: Fatal exception ]---
    shape("", r"---\[ end (?:Kernel panic|trace)"),
    # Kernel panic - not syncing: Fatal exception in interrupt
    shape("host.panic", r"Kernel panic - not syncing: (?P<state>Fatal exception.{0,100})", before=_OOPS, reach=150),
    # Kernel panic - not syncing: hung_task: blocked tasks
    shape("host.panic", r"Kernel [Pp]anic - not syncing:? ?(?P<state>.{0,160})"),
    # BUG: unable to handle page fault for address: ffffb3c2c0a13000
    # BUG: kernel NULL pointer dereference, address: 0000000000000000
    shape("host.panic", r"BUG: (?P<state>(?:unable to handle |kernel NULL )[\w -]{1,60}?)(?: at\b|[:,]|$)"),
    # kernel BUG at mm/slub.c:305!
    shape("host.panic", r"(?P<state>kernel BUG at \S{1,120}!)", before=_OOPS),
    # Unable to handle kernel paging request at virtual address dead000000000108
    shape("host.panic", r"(?P<state>Unable to handle kernel [\w ]{1,60}) at"),
    # general protection fault, probably for non-canonical address 0xdead000000000100: 0000 [#1] SMP NOPTI
    shape("host.panic", r"(?P<state>general protection fault), probably for|general protection fault: \w{4} \[#"),
    # Oops: 0002 [#1] SMP
    shape("host.panic", r"\b(?P<state>Oops: .{0,60})\[#\d{1,3}\]", before=_OOPS, reach=8),
)

_HEAT = (
    # CPU5: Core temperature above threshold, cpu clock throttled (total events = 1187)
    shape(
        "host.thermal",
        r"CPU(?P<cpu>\d{1,5}): (?P<state>(?:Core|Package) temperature (?:is )?above threshold)(?:.{0,40}total events ="
        r" (?P<value>\d{1,12}))?",
    ),
    # thermal thermal_zone0: acpitz: critical temperature reached (105 C), shutting down
    shape("host.thermal", r"(?P<state>critical temperature reached) ?\(?(?P<value>\d{1,3})?", severity="critical"),
    # HARDWARE PROTECTION shutdown (Temperature too high)
    shape("host.thermal", r"(?P<state>HARDWARE PROTECTION shutdown \([Tt]emperature[^)]{0,60}\))", severity="critical"),
)

_LIVES = (
    # Linux version 6.8.0-45-generic (buildd@lcy02) (gcc 13.2.0) #45-Ubuntu SMP
    shape("host.boot", r"(?:^|kernel: |\] )Linux version (?P<state>\d{1,3}\.\d{1,3}[\w.+~-]{0,80}) \("),
    # reboot: Restarting system   reboot: Power down
    shape("host.shutdown", r"\breboot: (?P<state>Restarting system|Power down|System halted)"),
    # systemd-logind[1201]: System is rebooting.
    shape("host.shutdown", r"^(?:\S{1,40}: )?(?P<state>System is (?:rebooting|powering down|halting|going down))\b"),
    # systemd[1]: Reached target System Reboot.
    shape("host.shutdown", r"Reached target (?:\S{1,40} - )?(?P<state>(?:System )?(?:Reboot|Power[- ]Off|Halt))\b"),
    # systemd-shutdown[1]: Rebooting.   systemd-shutdown[1]: Powering off.
    shape("host.shutdown", r"(?:^|: )(?P<state>Rebooting\.|Powering off\.|Halting system\.)$"),
    # kexec_core: Starting new kernel
    shape("host.shutdown", r"kexec(?:_core)?: (?P<state>Starting new kernel)"),
)

_CRASHES = (
    # python3[6120]: segfault at 7f21a0e00000 ip 00007f22b1c40a96 sp 00007f22aa1c2d30 error 4 in libnccl.so.2[7f22b1c00000+d3d3000]
    shape(
        "host.segfault",
        r"(?<![^\s\[\]:])(?P<task>[^\s\[\]:][^\[\]:]{0,39}+)\[(?P<pid>\d{1,10})\]: segfault at \w{1,20} ip \w{1,20} sp \w{1,20}"
        r" error \w{1,8}(?: in (?P<state>[^\[ ]{1,120}))?",
    ),
    # traps: python3[6120] general protection fault ip:7f51c20aa1b2 sp:7ffe00112240 error:0 in libc.so.6[7f51c2028000+195000]
    shape(
        "host.segfault",
        r"traps: (?P<task>[^\[\]]{1,40})\[(?P<pid>\d{1,10})\]:? "
        r"(?P<trap>general protection fault|general protection|trap [\w ]{1,24}) ip:\w{1,20}"
        r"(?: sp:\w{1,20} error:\w{1,8})?(?: in (?P<state>[^\[ ]{1,120}))?",
    ),
)

_SHAPES = (*_MEMORY, *_STALLS, *_CRASHES, *_PANICS, *_HEAT, *_LIVES)


def _bank(window: Window, text: str) -> Event | None:
    """A machine-check bank: what the processor itself counts as corrected or not."""
    found = _BANK.search(text)
    if found:
        bad = bool(int(found["status"], 16) & _UNCORRECTED)
        return shapes.event("mem.ue" if bad else "mem.ce", window.line, found)
    found = _AMD_BANK.search(text)
    if not found:
        return None
    flags = found["flags"].split("|")
    return shapes.event("mem.ue" if {"UE", "UC", "PCC"} & set(flags) else "mem.ce", window.line, found)


def _near(pattern: re.Pattern[str], lines: Iterable[Line], line: Line) -> re.Match[str] | None:
    hits = (pattern.search(other.text[: shapes.HEAD]) for other in lines if shapes.same_report(other, line))
    return next((hit for hit in hits if hit), None)


def _firmware(window: Window) -> Event | Benign:
    """A memory error that the firmware took first and handed on (APEI GHES); a line with the bits' count tells it by itself."""
    line = window.line
    kind = _near(_SECTION_KIND, window.before(4), line)
    if not kind or _near(_SECTION_BIT, window.after(_BANK_LINES), line):
        return Benign(line.number)
    dimm = _near(_SECTION_DIMM, window.after(_BANK_LINES), line)
    return shapes.event("mem.ce" if kind["kind"] == "corrected" else "mem.ue", line, dimm, state=kind["kind"])


def parse(window: Window) -> Iterable[Record]:
    """The host's own trouble that a kernel line tells."""
    text = window.line.text[: shapes.HEAD]
    if _SECTION.search(text):
        return (_firmware(window),)
    bank = _bank(window, text) if "Hardware Error" in text else None
    if bank and _near(_EDAC, window.after(_BANK_LINES), window.line):
        return (Benign(window.line.number),)
    return (bank,) if bank else shapes.read(_SHAPES, window)


DIALECT = LineDialect(
    name="kernel",
    needles=(),
    hints=(
        "Machine check events logged",
        "Machine Check",
        "_STATUS[",
        "EDAC ",
        "[Hardware Error]:",
        "Memory failure: 0x",
        "hardware memory error",
        "memory errors",
        "for more than",
        "lockup - ",
        "hard LOCKUP",
        "rcu",
        "Kernel panic",
        "Kernel Panic",
        "BUG: unable to handle",
        "BUG: kernel NULL",
        "kernel BUG at",
        "Unable to handle kernel",
        "general protection",
        "Oops: ",
        "above threshold",
        "critical temperature",
        "HARDWARE PROTECTION",
        "Linux version ",
        "reboot: ",
        "System is ",
        "Reached target",
        "Rebooting.",
        "Powering off.",
        "Halting system.",
        "Starting new kernel",
        "segfault at",
        "traps: ",
    ),
    parse=parse,
)
