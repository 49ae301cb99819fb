"""The picture of the README is what the program does today."""

from __future__ import annotations

import html
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from tests.docs.pages import REPO

PICTURE = REPO / "docs" / "demo" / "demo.svg"
#: Ids and figures that differ from run to run.
_CHANGING = re.compile(r"ep_[0-9a-f]{12}|engram why [0-9a-f]{8}|\d\.\d\d")


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("make_demo", PICTURE.parent / "make_demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_demo"] = module
    spec.loader.exec_module(module)
    return module


def texts(picture: str) -> list[str]:
    found = [
        html.unescape("".join(element.itertext()))
        for element in ElementTree.fromstring(picture).iter()
        if is_text(element)
    ]
    return [_CHANGING.sub("…", text) for text in found]


def is_text(element: ElementTree.Element) -> bool:
    return element.tag.endswith("}text")


def test_the_picture_shows_what_the_program_does(demo: ModuleType, tmp_path: Path) -> None:
    scenes = demo.make_scenes()

    assert texts(demo.draw(scenes)) == texts(PICTURE.read_text(encoding="utf-8"))
    assert sum(scene.seconds for scene in scenes) == demo.SECONDS == 25
    assert [line.text for line in scenes[2].lines][-1] == "(0 characters)"
    assert re.search(r"\d{4}-\d\d-\d\d", " ".join(line.text for line in scenes[1].lines))
