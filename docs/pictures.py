"""Takes the pictures of docs/img/ again, with the Chromium of this machine: `python docs/pictures.py`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMG = ROOT / "docs" / "img"
sys.path[:0] = [str(ROOT)]

from tests import chromium  # noqa: E402  the checkout comes first
from tests.reports.folders import big_folder  # noqa: E402
from triage import desk, reports  # noqa: E402

STORY = ROOT / "samples" / "cases" / "gpu-off-the-bus" / "logs"
SITE = ("gpu-off-the-bus", "rack-without-power", "neighbour-job-at-risk", "nvlink-74", "remap-failure-64")
PROGRAM = (sys.executable, "-c", "from triage.cli import app_main; app_main()")


def written(logs: Path, page: Path) -> str:
    """The address of the report of a folder of logs."""
    found = desk.now(desk.Setup(), [str(logs)], None, None, None, for_page=True)
    page.write_text(reports.render(reports.report_of(found.analysis, found.decision, found.book, found.data, found.read), "html"))
    return page.as_uri()


def take(browser: chromium.Browser, url: str, name: str, width: int, height: int, scheme: str = "light", top: str = "h1") -> None:
    """From the heading `top` so far down; three quarters of its size, so that a picture stays small."""
    page = browser.open(width, 900, scheme)
    page.goto(url)
    page.picture(IMG / name, height, 0.75 if width > 500 else 1.0, page.run(f"document.querySelector({top!r}).offsetTop") - 14)
    page.close()
    print(f"{name:20} {(IMG / name).stat().st_size:>8,} bytes")


def main() -> None:
    """All of them."""
    found = chromium.program()
    if found is None:
        sys.exit("no Chromium on this machine")
    with tempfile.TemporaryDirectory() as scratch, chromium.browser(found) as browser:
        fleet = Path(scratch) / "fleet"
        fleet.mkdir()
        big_folder(fleet)
        report, large = (written(logs, Path(scratch) / f"{logs.parent.name}.html") for logs in (STORY, fleet))
        take(browser, report, "report.png", 1100, 1560)
        take(browser, report, "report-phone.png", 390, 844)
        take(browser, large, "report-fleet.png", 1100, 1750, "dark", "#timeline")
        site(browser, Path(scratch) / "site.duckdb")


def site(browser: chromium.Browser, db: Path) -> None:
    """The first page of `triage serve` over some stories."""
    desk.ingest(desk.Setup(str(db)), [str(ROOT / "samples" / "cases" / name / "logs") for name in SITE])
    process = subprocess.Popen([*PROGRAM, "serve", "--db", str(db), "--port", "0"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    take(browser, process.stdout.readline().split()[0], "site.png", 1100, 900)
    process.terminate()
    process.wait()


if __name__ == "__main__":
    main()
