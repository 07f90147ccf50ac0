"""Timeline and fleet as PNG and SVG: whole, alike each time, and dead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.reports.conftest import Make
from tests.reports.folders import big_folder, hostile_folder
from triage.picture import MARKS, picture
from triage.timeline import TELLING

SMALL = Path(__file__).parent / "small" / "logs"
SHAPES = {
    "svg",
    "metadata",
    "RDF",
    "Work",
    "type",
    "format",
    "creator",
    "Agent",
    "title",
    "defs",
    "style",
    "g",
    "path",
    "use",
    "clipPath",
    "rect",
}
LARGEST = 500_000


@pytest.fixture(scope="module")
def fleet(made: Make, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("fleet")
    big_folder(folder)
    return made(folder)


def shapes(svg: bytes) -> list[str]:
    return [element.tag.rsplit("}", 1)[-1] for element in ElementTree.fromstring(svg).iter()]


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(png[16:20]), int.from_bytes(png[20:24])


def test_every_part_has_a_mark() -> None:
    assert set(MARKS) == set(TELLING)


def test_a_picture_of_a_small_incident(made: Make) -> None:
    report = made(SMALL)
    wide, high = size(picture(report, "png"))
    assert wide > 1000 and high > 150
    svg = picture(report, "svg")
    assert "use" in shapes(svg)
    assert svg == picture(report, "svg")
    assert picture(report, "png") == picture(report, "png")


def test_more_hosts_make_it_higher(made: Make, fleet: dict[str, Any]) -> None:
    assert size(picture(fleet, "png"))[1] > size(picture(made(SMALL), "png"))[1] + 500
    assert len(picture(fleet, "png")) < LARGEST


def test_texts_of_logs_are_shapes(made: Make, tmp_path: Path) -> None:
    hostile_folder(tmp_path)
    svg = picture(made(tmp_path), "svg")
    assert set(shapes(svg)) <= SHAPES
    shown = re.sub(rb"<!--.*?-->", b"", svg, flags=re.DOTALL)
    assert b"script" not in shown
    assert b"href=" not in re.sub(rb'xlink:href="#[\w-]+"', b"", shown)


def test_nothing_found_is_a_picture_too(made: Make, tmp_path: Path) -> None:
    assert size(picture(made(tmp_path), "png"))[0] > 1000
