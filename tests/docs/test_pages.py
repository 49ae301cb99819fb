"""Every command of README and of the pages for users works as it is written, on the sample sessions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from engram.cli.main import engram as root_command
from tests.docs.pages import REPO, Reader, blocks_of, make_reader

#: Pages whose commands are run one after the other, as a reader types them.
TYPED = ("README.md", "docs/quick-start.md", "docs/how-to.md", "docs/walkthrough.md")
#: Page → how many examples of what is printed it has at least.
EXAMPLES = {"README.md": 0, "docs/quick-start.md": 1, "docs/how-to.md": 0, "docs/walkthrough.md": 2}
PAGES = sorted([REPO / "README.md", *(REPO / "docs").glob("*.md")])
#: A line of an example that stands for any lines.
LEFT_OUT = "…"
#: What differs from run to run: random ids.
_ID = re.compile(r"\b(?:ep|q)_[0-9a-f]{10,}\b")
_TEST = re.compile(r"tests/[\w/.]+\.py")
_MODULE = re.compile(r"(?<![\w/.-])[a-z][\w/]*\.py\b")
#: Pages about how Engram is made, and what of the tree their modules are in.
_OF_MAKERS = ("architecture", "retrieval", "recollection", "extraction", "consolidation", "redaction")
_SOURCES = ("engram", "hooks", "mcp_server", "tests", "benchmarks")
#: A block of code: its language, "" for what a command prints, and its text.
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def line_that_differs(shown: str, printed: str) -> str:
    """Return the first line of an example that the program doesn't print right below the one before it; "" for none.

    Ids differ from run to run. A line ``…`` in the example stands for any number of lines, also none.
    """
    lines = [_ID.sub("ID", line.rstrip()) for line in printed.splitlines()]
    at, is_free = 0, True
    for line in shown.rstrip("\n").splitlines():
        wanted = _ID.sub("ID", line.rstrip())
        if wanted == LEFT_OUT:
            is_free = True
            continue
        if is_free:
            at = next((number for number in range(at, len(lines)) if lines[number] == wanted), len(lines))
        if at >= len(lines) or lines[at] != wanted:
            return line
        at, is_free = at + 1, False
    return ""


@pytest.mark.parametrize(
    ("shown", "differs"),
    [
        ("Read       5 files\n1. Mast · ep_aaaaaaaaaaaa\n   Cedar, never pine.", ""),
        ("1. Mast · ep_aaaaaaaaaaaa\n   Cedar, never pine.", ""),
        ("Read       5 files\n…\n   Cedar, never pine.\n…", ""),
        ("Read       5 files\n   Cedar, never pine.", "   Cedar, never pine."),
        ("   Cedar, never pine.\nRead       5 files", "Read       5 files"),
        ("Read 5 files", "Read 5 files"),
        ("1. Mast · ep_aaaaaaaaaaaa\n   Cedar, never", "   Cedar, never"),
        ("Read       6 files", "Read       6 files"),
        ("…\n1. Mast · ep_aaaaaaaaaaaa · fix", "1. Mast · ep_aaaaaaaaaaaa · fix"),
        ("   Cedar, never pine.\n", ""),
        ("   Cedar, never pine.\nDone", "Done"),
    ],
)
def test_an_example_is_compared_line_by_line(shown: str, differs: str) -> None:
    printed = "Read       5 files\n1. Mast · ep_0123456789ab\n   Cedar, never pine.\n"

    assert line_that_differs(shown, printed) == differs


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """Somebody with the sample sessions, who ends what they started."""
    made = make_reader(tmp_path / "user")
    yield made
    made.stop()


@pytest.mark.parametrize("name", TYPED)
def test_a_page_works_as_it_is_written(name: str, reader: Reader) -> None:
    if name != "docs/walkthrough.md":
        reader.type("engram up --once")
    printed, runs, examples = "", 0, 0
    for block in blocks_of(REPO / name):
        if block.kind == "sh" and not block.elsewhere:
            printed = "".join(reader.type(command) for command in block.commands)
            runs += len(block.commands)
        elif block.is_output:
            differs = line_that_differs(block.body, printed)
            assert not differs, f"{name} shows\n{differs}\nin\n{block.body}\nbut it prints\n{printed}"
            examples += 1

    assert runs > 0
    assert examples >= EXAMPLES[name]


def test_commands_that_are_run_elsewhere_are() -> None:
    missing = []
    for page in PAGES:
        for block in blocks_of(page):
            if not block.elsewhere:
                continue
            source = (REPO / block.elsewhere).read_text(encoding="utf-8")
            missing += [
                (page.name, command) for command in block.commands if " ".join(command.split()[:2]) not in source
            ]

    assert missing == []


def engram_calls() -> list[tuple[str, str]]:
    """Every ``engram …`` line in a block of any page."""
    blocks = [(page.name, block) for page in PAGES for block in blocks_of(page) if block.kind == "sh"]
    return [(name, line) for name, block in blocks for line in block.commands if re.match(r"engram [a-z]", line)]


def test_every_call_of_any_page_is_one_that_the_program_takes() -> None:
    wrong = []
    for name, line in engram_calls():
        try:
            words = shlex.split(line, comments=True)
            ends = (i for i, word in enumerate(words) if word in ("|", "||", "&&", ">", ";"))
            parse(words[1 : next(ends, len(words))])
        except (ValueError, click.UsageError) as error:
            wrong.append((name, line, str(error)))

    assert wrong == []


def parse(words: list[str]) -> None:
    """Parse the arguments of a call as the program does, without running it. Raises UsageError."""
    command: click.Command = root_command
    context = click.Context(command, info_name="engram")
    rest = list(words)
    while isinstance(command, click.Group):
        found_name, found, rest = command.resolve_command(context, rest)
        if found is None:
            return
        command, context = found, click.Context(found, info_name=found_name, parent=context)
        if not rest:
            return
        if isinstance(command, click.Group) and rest[0].startswith("-"):
            return
    command.make_parser(context).parse_args(rest)


def test_every_link_leads_somewhere() -> None:
    broken = []
    for page in [*PAGES, REPO / "CONTRIBUTING.md", REPO / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path = target.partition("#")[0]
            if path and "://" not in target and not (page.parent / path).exists():
                broken.append((page.name, target))

    assert broken == []


def test_the_map_names_every_page() -> None:
    text = (REPO / "docs" / "README.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", text))

    assert {page.name for page in PAGES if page.parent.name == "docs"} - {"README.md"} <= linked


def test_every_message_in_the_page_of_troubles_is_one_of_the_program() -> None:
    page = (REPO / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted((REPO / "engram").rglob("*.py")))
    source = re.sub(r'"\s*\n\s*f?"', "", source)
    quoted = re.findall(r"^### `([^`]+)`", page, re.M)
    # What differs from case to case stands as … there.
    missing = [message for message in quoted if not all(part in source for part in parts_of(message))]

    assert len(quoted) >= 12
    assert missing == []


def parts_of(message: str) -> list[str]:
    return [part for part in re.split(r"\s*…\s*", message) if part]


def test_the_tests_that_pages_name_exist() -> None:
    # What a command prints may name tests of other projects.
    texts = [_BLOCK.sub(r"\1\n", page.read_text(encoding="utf-8")) for page in PAGES]
    ran = [code for page in PAGES for language, code in _BLOCK.findall(page.read_text(encoding="utf-8")) if language]
    named = {name for text in (*texts, *ran) for name in _TEST.findall(text)}

    assert len(named) >= 40
    assert [name for name in sorted(named) if not (REPO / name).exists()] == []


@pytest.mark.parametrize("page", _OF_MAKERS)
def test_the_modules_that_a_page_names_exist(page: str) -> None:
    named = set(_MODULE.findall((REPO / "docs" / f"{page}.md").read_text(encoding="utf-8")))
    known = [f"/{path.relative_to(REPO)}" for folder in _SOURCES for path in (REPO / folder).rglob("*.py")]

    assert [name for name in sorted(named) if not any(path.endswith(f"/{name}") for path in known)] == []
