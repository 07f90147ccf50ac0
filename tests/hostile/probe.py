"""Run command lines, and every page of an answer, in one process; tell of each what came out, and of all the peak of memory."""

from __future__ import annotations

import contextlib
import io
import json
import re
import resource
import sys
import time
import traceback
from pathlib import Path

from triage import cli, desk, reports
from triage.redaction import OPEN, Wish


def pages(folder: str) -> None:
    """The answer in every format, read once; and with pseudonyms."""
    answer = desk.now(desk.Setup(hide=Wish(hosts=True)), [folder], None, None, None, for_page=True)
    shown, answer.mask = answer.mask, OPEN
    told = {"now": cli._screen(answer)} | {
        f"now --format {form}": reports.render(answer.report(), form) for form in reports.FORMATS if form != "json"
    }
    told["now --format json"] = json.dumps(answer.shown)
    answer.mask = shown
    told |= {"now --redact-hosts": cli._screen(answer), "now --redact-hosts --format md": reports.render(answer.report(), "md")}
    print(json.dumps(told))


def one(words: list[str]) -> dict[str, object]:
    out, err, began = io.StringIO(), io.StringIO(), time.process_time()
    sys.argv = ["triage", *words]
    told: dict[str, object] = {"code": None, "traceback": ""}
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            pages(words[1]) if words[0] == "pages" else cli.app_main()
            told["code"] = 0
        except SystemExit as left:
            told["code"] = left.code or 0
        except BaseException:
            told["traceback"] = traceback.format_exc()
    return told | {"out": out.getvalue(), "err": err.getvalue(), "seconds": time.process_time() - began}


def peak_kb() -> int:
    """Of this program alone: what getrusage tells begins with the memory of whoever started it."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    lines: list[list[str]] = json.load(sys.stdin)
    done = [one(words) for words in lines]
    json.dump({"done": done, "peak_mb": peak_kb() / 1024}, sys.stdout)
