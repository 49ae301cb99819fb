"""CONTRIBUTING.md, the architecture and the glossary name files, commands and names that exist; the map is whole."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from engram.cli.main import COMMANDS
from engram.page.views.tasks import WHAT
from engram.tasks.queue import TASK_MODULES

REPO = Path(__file__).resolve().parent.parent
PAGES = ("CONTRIBUTING.md", "docs/architecture.md", "docs/glossary.md")
#: What a path may begin at, besides the repository and the page's folder.
FOLDERS = ("engram", "engram/models", "mcp_server", "mcp_server/engram_mcp")
#: Above the tables that say of every file what is in it.
FILES_HEADING, NEXT_HEADING = "## What is in which file", "\n## "
#: A path in backquotes; NAME stands for something that the reader chooses.
PATH = re.compile(r"`([\w./-]+/[\w./-]*|[\w-]+\.(?:md|py|toml))`")


def paths_of(page: str) -> list[str]:
    text = (REPO / page).read_text(encoding="utf-8")
    # The files of its tables are checked one by one.
    before, _, tables = text.partition(f"{FILES_HEADING}\n")
    text = f"{before}{tables.partition(NEXT_HEADING)[2]}"
    linked = re.findall(r"\]\(([^)#:]+)\)", text)
    return sorted({*PATH.findall(text), *linked})


@pytest.mark.parametrize("page", PAGES)
def test_every_path_exists(page: str) -> None:
    places = (REPO, (REPO / page).parent, *(REPO / folder for folder in FOLDERS))
    # A name without a folder is that of one product file.
    names = {"config.toml", "MEMORY.md", *(path.rpartition("/")[2] for path in product_files())}
    named = [path for path in paths_of(page) if "NAME" not in path and path not in names]

    assert [path for path in named if not any((place / path).exists() for place in places)] == []


def product_files() -> list[str]:
    """Product files as the map names them: below ``engram``, or with the name of another package."""
    return [
        path.relative_to(REPO / start).as_posix()
        for start, package in (("engram", "."), ("hooks", "engram_hooks"), ("mcp_server", "engram_mcp"))
        for path in (REPO / start / package).rglob("*.py")
        if path.name != "__init__.py"
    ]


def named_files(page: str) -> list[str]:
    """Files of the tables of the map, each below the folder in its heading where that is needed."""
    named, room = [], ""
    known = set(product_files())
    for line in page.partition(f"{FILES_HEADING}\n")[2].partition(NEXT_HEADING)[0].splitlines():
        if line.startswith("### "):
            room = re.split(r"[:,]", line[4:])[0].removeprefix("engram").lstrip("/")
        elif entry := re.match(r"\| `([\w/]+\.py)` \| \S", line):
            named.append(entry[1] if entry[1] in known else f"{room}/{entry[1]}")
    return named


def test_the_map_says_once_of_every_file_what_is_in_it() -> None:
    named = named_files((REPO / "CONTRIBUTING.md").read_text(encoding="utf-8"))

    assert sorted(named) == sorted(product_files())


def test_the_map_says_once_of_every_folder_what_belongs_there() -> None:
    page = (REPO / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \| \S", page.partition("## Where things are\n")[2].partition(NEXT_HEADING)[0], re.M)
    folders = {
        f"{path.parent.relative_to(REPO).as_posix()}/"
        for package in ("engram", "hooks/engram_hooks", "mcp_server/engram_mcp")
        for path in (REPO / package).rglob("*.py")
        if path.name != "__init__.py"
    }

    assert sorted(folder for row in rows for folder in re.findall(r"`([^`]+)`", row)) == sorted(folders)


def test_the_map_lists_each_command_and_task_at_its_module() -> None:
    page = (REPO / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)\.py` \| (.*) \|$", page, re.M))
    places = [(module.rpartition(".")[2], name) for name, module in COMMANDS.items()]
    tasks = []
    for module in (name.rpartition(".")[2] for name in TASK_MODULES):
        source = (REPO / f"engram/tasks/{module}.py").read_text(encoding="utf-8")
        tasks += [(module, name) for name in re.findall(r'^@huey\..*\bname="(\w+)"', source, re.M)]

    docstrings = {
        module: ast.get_docstring(ast.parse((REPO / f"engram/cli/{module}.py").read_text(encoding="utf-8"))) or ""
        for module, _ in places
    }
    assert [place for place in places if f"{place[1]}``" not in docstrings[place[0]]] == [], (
        "a module names its commands"
    )
    assert tasks
    assert [(module, name) for module, name in places + tasks if f"`{name}`" not in rows[module]] == []
    assert {name for _, name in tasks} - set(WHAT) == set(), "the page says in words what a task does"


def test_the_recipes_name_enough_files_to_be_of_use() -> None:
    assert len([path for path in paths_of("CONTRIBUTING.md") if path.endswith(".py")]) >= 25


@pytest.mark.parametrize("page", PAGES)
def test_every_command_exists(page: str) -> None:
    text = (REPO / page).read_text(encoding="utf-8")

    assert set(re.findall(r"`engram ([a-z]+)", text)) <= set(COMMANDS)


def test_every_name_in_code_font_of_a_recipe_stands_in_its_file() -> None:
    """A step that begins with a file speaks of names in that file."""
    text = (REPO / "CONTRIBUTING.md").read_text(encoding="utf-8")
    missing = []
    for path, rest in re.findall(r"^\d\. `(engram/[\w/]+\.py)`(.*?)(?=^\d\. |^#|^$)", text, re.M | re.S):
        source = (REPO / path).read_text(encoding="utf-8") if "NAME" not in path else None
        for name in re.findall(r"`([A-Z]\w+)`", rest):
            if source is not None and name not in source and name != "ENGRAM_":
                missing.append((path, name))

    assert missing == []


def test_every_name_before_a_file_in_brackets_stands_in_it() -> None:
    """As in "`name`, `other` (`engram/file.py`)"."""
    text = " ".join((REPO / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    named = re.findall(r"((?:`\w+`(?:, | and )?)+) \(`(engram/[\w/]+\.py)`", text)

    assert len(named) >= 20
    missing = [
        (path, name)
        for names, path in named
        for name in re.findall(r"\w+(?=`)", names)
        if not re.search(rf"\b{name}\b", (REPO / path).read_text(encoding="utf-8"))
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_every_name_in_code_font_stands_in_the_code(page: str) -> None:
    """Names that can only be code: with an underscore, or with a capital inside."""
    text = (REPO / page).read_text(encoding="utf-8")
    names = set(re.findall(r"`(\w*[a-z]\w*_\w+|\w*_\w*[a-z]\w*|[A-Z][a-z]+[A-Z]\w*)`", text))

    assert names
    assert names - words_of_code() == set()


@functools.cache
def words_of_code() -> frozenset[str]:
    """Every word of the program and of its tests."""
    return frozenset(
        word
        for name in ("engram", "hooks", "mcp_server", "tests")
        for path in (REPO / name).rglob("*.*")
        if path.suffix in (".py", ".sh")
        for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))
    )


def test_a_column_that_is_shown_takes_at_most_five_files() -> None:
    text = (REPO / "CONTRIBUTING.md").read_text(encoding="utf-8")
    recipe = text.partition("### Add a column\n")[2].partition("\n### ")[0]
    steps = re.findall(r"^\d\. `(engram/[\w/]+\.py)`", recipe, re.M)

    assert 3 <= len(set(steps)) <= 5


def test_the_example_test_exists() -> None:
    text = (REPO / "CONTRIBUTING.md").read_text(encoding="utf-8")
    examples = re.findall(r"(tests/[\w/]+\.py)::(\w+)", text)

    assert examples
    for path, name in examples:
        assert f"def {name}(" in (REPO / path).read_text(encoding="utf-8")
