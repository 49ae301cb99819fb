"""How big modules and folders are, and that a file's name says which file it is.

What breaks a rule today is listed in ``module_exceptions.txt``, one file and rule a line. The list only shrinks: a new
exception fails, and so does a line that is no longer needed. ``python -m tests.test_modules`` takes such lines out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from tests.test_layers import REPO, imports, modules, trees_that_go  # noqa: F401

#: Folder with product files → what the import path begins with.
ROOTS = {"engram": "engram.", "mcp_server/engram_mcp": "engram_mcp.", "hooks/engram_hooks": "engram_hooks."}
#: Most lines of a module.
MAX_LINES = 600
#: A module with fewer lines needs importers in two rooms, or a protocol that demands it.
MIN_LINES = 80
#: Most entries of a folder, files and folders.
MAX_ENTRIES = 25
#: Each agent has a folder in here; a file that several of them have is part of the protocol.
AGENTS = PurePosixPath("engram/transcripts")
#: A view is a module of its own, named after what it shows.
VIEWS = PurePosixPath("engram/page/views")
EXCEPTIONS = Path(__file__).with_name("module_exceptions.txt")
#: Folder → the entries that it may have at most. A number is only ever lowered.
CROWDED = {
    "engram": 36,
}


def product_files() -> dict[PurePosixPath, int]:
    """Every product module but the heads of packages → its number of lines."""
    found = {}
    for root in ROOTS:
        for path in sorted((REPO / root).rglob("*.py")):
            if path.name not in ("__init__.py", "__main__.py"):
                name = PurePosixPath(path.relative_to(REPO).as_posix())
                found[name] = len(path.read_text(encoding="utf-8").splitlines())
    return found


def module_of(path: PurePosixPath) -> str:
    root = next(root for root in ROOTS if path.is_relative_to(root))
    return ROOTS[root] + ".".join(path.relative_to(root).with_suffix("").parts)


def importing_rooms() -> dict[str, set[str]]:
    """Module → the packages in which a module imports it."""
    rooms = defaultdict(set)
    for name in modules():
        for imported, _ in imports(name):
            rooms[imported].add(name.rpartition(".")[0])
    return rooms


def is_agents(path: PurePosixPath) -> bool:
    return path.parent.parent == AGENTS


def violations(files: Mapping[PurePosixPath, int], rooms: Mapping[str, set[str]]) -> set[str]:
    """Lines ``PATH RULE``; the rules are ``long``, ``small`` (for who imports it) and ``name`` (not the only one)."""
    agents_names = defaultdict(list)
    places = defaultdict(list)
    for path in files:
        if is_agents(path):
            agents_names[path.name].append(path)
        elif path.parent != VIEWS:
            places[path.name].append(path)
    found = {f"{path} name" for same in places.values() if len(same) > 1 for path in same}
    for path, lines in files.items():
        is_protocol = path.parent == VIEWS or len(agents_names[path.name]) > 1
        if lines > MAX_LINES:
            found.add(f"{path} long")
        if lines < MIN_LINES and not is_protocol and len(rooms.get(module_of(path), ())) < 2:
            found.add(f"{path} small")
    return found


def listed() -> list[str]:
    return EXCEPTIONS.read_text(encoding="utf-8").splitlines()


def today() -> set[str]:
    return violations(product_files(), importing_rooms())


def folders() -> Iterator[tuple[str, int]]:
    """Every folder with product files, and how many entries it has."""
    for root in ROOTS:
        for folder in (REPO / root, *(REPO / root).rglob("*")):
            if folder.is_dir() and "__pycache__" not in folder.parts:
                entries = [
                    entry.name
                    for entry in folder.iterdir()
                    if entry.name != "__pycache__" and not entry.name.startswith(".")
                ]
                yield folder.relative_to(REPO).as_posix(), len(entries)


def test_a_module_is_what_a_reader_wants_open_at_the_same_time() -> None:
    new = sorted(today() - set(listed()))

    assert new == [], "put the lines where they belong, or take another name; the list gets no new entries"


def test_the_list_of_exceptions_holds_nothing_that_is_mended() -> None:
    mended = sorted(set(listed()) - today())

    assert mended == [], "`.venv/bin/python -m tests.test_modules` takes these out of tests/module_exceptions.txt"


def test_the_list_of_exceptions_is_sorted() -> None:
    assert listed() == sorted(set(listed()))


def test_a_folder_can_be_taken_in_at_a_glance() -> None:
    assert {folder: n for folder, n in folders() if n > CROWDED.get(folder, MAX_ENTRIES)} == {}


def test_the_list_of_crowded_folders_holds_nothing_that_is_mended() -> None:
    entries = dict(folders())

    assert {folder for folder in CROWDED if entries.get(folder, 0) <= MAX_ENTRIES} == set()


def test_each_rule_is_seen_where_it_is_broken() -> None:
    files = {
        "engram/alone.py": MIN_LINES - 1,
        "engram/shared.py": MIN_LINES - 1,
        "engram/enough.py": MIN_LINES,
        "engram/full.py": MAX_LINES,
        "engram/endless.py": MAX_LINES + 1,
        "engram/search/runs.py": 200,
        "engram/models/runs.py": 200,
        "mcp_server/engram_mcp/runs.py": 200,
        "engram/transcripts/codex/discover.py": 20,
        "engram/transcripts/gemini/discover.py": 20,
        "engram/transcripts/gemini/elsewhere_unknown.py": 20,
        "engram/page/views/full.py": 20,
    }
    rooms = {"engram.alone": {"engram.cli"}, "engram.shared": {"engram.cli", "engram.page"}}

    assert violations({PurePosixPath(path): lines for path, lines in files.items()}, rooms) == {
        "engram/alone.py small",
        "engram/endless.py long",
        "engram/search/runs.py name",
        "engram/models/runs.py name",
        "mcp_server/engram_mcp/runs.py name",
        "engram/transcripts/gemini/elsewhere_unknown.py small",
    }


if __name__ == "__main__":
    kept = sorted(set(listed()) & today())
    EXCEPTIONS.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
