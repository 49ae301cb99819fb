"""The first command of README and the pages works today: one place says what installers are given."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import make_reference
import pytest
from make_reference import hand_written_pages, with_source

from engram import version
from engram.version import NAME, install_command

REPO = Path(__file__).resolve().parent.parent
#: An installer with the name of the package: right only once that is published.
_BY_NAME = re.compile(rf"(?:(?<!un)install|upgrade|pipx run|uvx|--from) '?{NAME}\b")
_SOURCES = sorted(
    [*(REPO / "engram").rglob("*.py"), *(REPO / "hooks").rglob("*.py"), *(REPO / "mcp_server").rglob("*.py")]
)


@pytest.mark.parametrize("page", hand_written_pages(REPO), ids=lambda page: page.name)
def test_a_page_installs_from_where_the_program_says(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert with_source(text) == text, "run `make docs`"
    assert _BY_NAME.findall(text) == []


def test_no_message_installs_a_package_that_is_not_published() -> None:
    found = {path.name: names for path in _SOURCES if (names := _BY_NAME.findall(path.read_text(encoding="utf-8")))}

    assert found == {}


@pytest.mark.parametrize(
    "line",
    [
        "uv tool install .",
        "`pipx install .` does the same",
        "pip install '.[hub]'       # here",
        "uv tool install --reinstall .  # there",
        "<!-- where -->In a checkout or an unpacked archive:",
    ],
)
def test_all_lines_follow_once_the_package_is_published(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "SOURCE", NAME)
    monkeypatch.setattr(make_reference, "WHERE", "In a terminal:")

    published = with_source(line)

    assert NAME in published or published.endswith("In a terminal:")
    monkeypatch.undo()
    assert with_source(published) == line


@pytest.mark.parametrize(
    "line", ["pip install -e .", "pip install ./other", "pip install cysqlite", "uv tool uninstall engram-recall"]
)
def test_other_installations_stay(line: str) -> None:
    assert with_source(line) == line


class _Installed:
    def __init__(self, noted: str | None) -> None:
        self._noted = noted

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self._noted


def test_an_extra_is_installed_from_where_engram_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()

    def installed(noted: str | None) -> None:
        monkeypatch.setattr(metadata, "distribution", lambda name: _Installed(noted))

    installed(f'{{"url": "{folder.as_uri()}", "dir_info": {{}}}}')
    assert install_command("models") == f"pip install '{folder}[models]'"
    for noted in (None, "", "no json", "[]", '{"url": "https://example.org/x.whl"}', '{"url": "file:///gone/folder"}'):
        installed(noted)
        assert install_command("hub") == "pip install '.[hub]'"
