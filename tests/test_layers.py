"""Who may import whom: modules import from lower floors and their own package; each library has one home."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent

#: Package or module → its floor.
FLOORS = {
    "engram.errors": 0,
    "engram.enums": 0,
    "engram.paths": 0,
    "engram.version": 0,
    "engram.system": 0,
    "engram.settings": 1,
    "engram.log": 1,
    "engram.text": 1,
    "engram.trust": 1,
    "engram.config_file": 2,
    "engram.vaults": 2,
    # Before the rest of "engram.setup": what planners and reports share.
    "engram.setup.edits.file_state": 1,
    "engram.setup.edits.install_steps": 2,
    "engram.setup.edits.json_document": 2,
    "engram.setup.edits.journal": 2,
    # Before the rest of "engram.transcripts": what a repository's files tell, for vaults too.
    "engram.transcripts.git_files": 1,
    "engram.transcripts": 2,
    "engram.redaction": 2,
    "engram.embedding": 2,
    # Before "engram.hub.client": what machines and the hub agree on, pure.
    "engram.hub.protocol": 2,
    "engram.models": 3,
    "engram.ingest": 4,
    "engram.search": 4,
    "engram.notes": 4,
    "engram.extraction": 5,
    # After the rest of "engram.setup.old_engram", which reports use: it runs launchctl as the services do.
    "engram.setup.old_engram.retire": 10,
    "engram.setup.old_engram": 5,
    "engram.reports": 6,
    "engram.memories": 6,
    "engram.forgetting": 6,
    "engram.hub.client": 7,
    # The service: it needs the extra, knows no memory.db, and nothing but its commands imports it.
    "engram.hub.server": 7,
    "engram.hub": 7,
    "engram.recollection": 7,
    "engram.consolidation": 7,
    "engram.exchange": 7,
    "engram.tasks": 8,
    # Before "engram.worker": who asks it.
    "engram.worker.worker_client": 6,
    "engram.worker.recall_client": 7,
    "engram_mcp": 8,
    "engram.worker": 9,
    "engram.setup.services": 9,
    "engram.setup.edits": 10,
    "engram.page": 10,
    "engram.watcher": 10,
    "engram_hooks": 10,
    "engram.setup.agents": 11,
    "engram.setup.installing": 12,
    "engram.setup.doctor": 13,
    "engram.setup": 13,
    "engram.cli": 14,
}

#: Module or room of engram.search → its floor within the package, and the same of engram.models.
SEARCH_FLOORS = {
    "engram.search.edited_since": 0,
    "engram.search.hits": 0,
    "engram.search.named_times": -1,
    "engram.search.question": 0,
    "engram.search.quoted_phrases": 0,
    "engram.search.vectors": 0,
    "engram.search.hit_lines": 1,
    "engram.search.ranking": 1,
    "engram.search.support": 1,
    "engram.search.day_commits": 2,
    "engram.search.abstain": 2,
    "engram.search.passages": 3,
    "engram.search.searcher": 4,
    "engram.search.answer": 5,
}
MODELS_FLOORS = {
    "engram.models.tables": 0,
    "engram.models.engine": 1,
    "engram.models.work": 2,
    "engram.models.shown": 3,
    "engram.models.memories": 4,
    "engram.models.search": 5,
    "engram.models.sessions": 5,
    "engram.models.projects": 6,
    "engram.models.forgetting": 7,
    "engram.models.open_memory": 8,
    "engram.models.rescue": 9,
    "engram.models.hub": 10,
}

#: Library → packages that are its home.
HOMES = {
    "peewee": {"engram.models"},
    "playhouse": {"engram.models"},
    "cysqlite": {"engram.models", "engram.tasks"},
    "sqlite3": {"engram.models", "engram.tasks"},
    "huey": {"engram.tasks", "engram.hub.server"},
    "watchdog": {"engram.watcher"},
    "click": {"engram.cli"},
    "rich": {"engram.cli"},
    "mcp": {"engram_mcp"},
    "mcp_types": {"engram_mcp"},
    "jinja2": {"engram.page"},
    "starlette": {"engram.page", "engram.hub.server"},
    "uvicorn": {"engram.page", "engram.hub.server"},
    "psycopg": {"engram.hub.server"},
    "psycopg_pool": {"engram.hub.server"},
    "cryptography": {"engram.hub.protocol"},
    "openai": {"engram.extraction"},
    "orjson": {"engram.transcripts"},
    "backports": {"engram.transcripts"},
    "sentence_transformers": {"engram.embedding"},
    "torch": {"engram.embedding"},
    "onnx": {"engram.embedding"},
    "onnxruntime": {"engram.embedding"},
    "huggingface_hub": {"engram.embedding"},
    "tokenizers": {"engram.embedding"},
    "tomlkit": {"engram.config_file"},
    "numpy": {"engram.embedding", "engram.search"},
}

#: Libraries that stand in one module alone.
ONE_MODULE = ("openai", "sentence_transformers")


@functools.cache
def modules() -> dict[str, ast.Module]:
    """Syntax tree of every module of the three packages, by name."""
    trees = {}
    for root, package in ((REPO, "engram"), (REPO / "mcp_server", "engram_mcp"), (REPO / "hooks", "engram_hooks")):
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            trees[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return trees


@pytest.fixture(scope="module", autouse=True)
def trees_that_go() -> Iterator[None]:
    """The trees are a million objects: nobody looks through them after these tests."""
    yield
    modules.cache_clear()


@functools.cache
def imports(name: str) -> tuple[tuple[str, bool], ...]:
    """Every module that a module imports, and whether it is imported for the type checker alone."""
    return tuple(_imports(modules()[name]))


def _imports(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    nodes = list(ast.walk(tree))
    for_types = {
        id(node)
        for outer in nodes
        if isinstance(outer, ast.If) and ast.unparse(outer.test).endswith("TYPE_CHECKING")
        for node in ast.walk(outer)
    }
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in for_types
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, id(node) in for_types
            for alias in node.names:
                yield f"{node.module}.{alias.name}", id(node) in for_types


def part_of(module: str, floors: Mapping[str, int] = FLOORS) -> str | None:
    """The part of the architecture that a module belongs to; None for a library or ``engram`` itself."""
    for part in floors:
        if module == part or module.startswith(part + "."):
            return part
    return None


def violations() -> list[str]:
    violations = []
    for name in modules():
        mine = part_of(name)
        if mine is None:
            continue
        for imported, _ in imports(name):
            other = part_of(imported)
            if other is None or other == mine:
                continue
            if FLOORS[other] >= FLOORS[mine] and not (FLOORS[other] == FLOORS[mine] <= 1):
                violations.append(f"{name} (floor {FLOORS[mine]}) imports {imported} (floor {FLOORS[other]})")
    return sorted(set(violations))


def test_every_module_has_its_floor() -> None:
    assert [name for name in modules() if part_of(name) is None and name != "engram"] == []


def test_imports_run_downwards_only() -> None:
    assert violations() == []


@pytest.mark.parametrize(
    ("package", "floors"),
    [("engram.search.", SEARCH_FLOORS), ("engram.models.", MODELS_FLOORS)],
    ids=["search", "models"],
)
def test_the_rooms_of_a_package_import_downwards_only(package: str, floors: Mapping[str, int]) -> None:
    upwards = set()
    for name in modules():
        mine = part_of(name, floors)
        if not name.startswith(package):
            continue
        assert mine is not None, f"{name} has no floor"
        for imported, _ in imports(name):
            other = part_of(imported, floors)
            if other is not None and other != mine and floors[other] >= floors[mine]:
                upwards.add(f"{name} imports {imported}")
    assert upwards == set()


def circles() -> list[list[str]]:
    """Groups of modules that import each other, by whatever way; imports for the type checker count."""
    names = set(modules())
    above: dict[str, set[str]] = {
        name: {imported for imported, _ in imports(name) if imported in names and imported != name} for name in names
    }
    # Whoever imports nothing that is left is in no circle, and so is whoever is imported by nothing that is left.
    for _ in range(2):
        while free := {name for name, others in above.items() if not others}:
            above = {name: others - free for name, others in above.items() if name not in free}
        above = {name: {other for other, others in above.items() if name in others} for name in above}
    return [sorted(above)] if above else []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles() == []


def test_nothing_imports_the_service_of_the_hub_before_its_commands_run() -> None:
    at_the_top = {
        name
        for name, tree in modules().items()
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for imported, _ in _imports(ast.Module(body=[node], type_ignores=[]))
        if imported.startswith("engram.hub.server")
    }
    anywhere = {
        name
        for name in modules()
        for imported, is_for_types in imports(name)
        if imported.startswith("engram.hub.server") and not is_for_types
    }

    assert {name for name in at_the_top if not name.startswith("engram.hub.server")} == set()
    assert {name for name in anywhere if not name.startswith("engram.hub.server")} == {"engram.cli.hub_commands"}


def test_the_package_itself_imports_nothing() -> None:
    assert list(imports("engram")) == []


@pytest.mark.parametrize("library", sorted(HOMES))
def test_a_library_has_one_home(library: str) -> None:
    users = {name for name in modules() for imported, _ in imports(name) if imported.split(".")[0] == library}

    assert {name for name in users if part_of(name) not in HOMES[library]} == set()


@pytest.mark.parametrize("library", ONE_MODULE)
def test_a_heavy_library_stands_in_one_module(library: str) -> None:
    users = {
        name
        for name in modules()
        for imported, is_for_types in imports(name)
        if imported.split(".")[0] == library and not is_for_types
    }

    assert len(users) <= 1


def test_the_lowest_floor_needs_the_standard_library_alone() -> None:
    lowest = [name for name, floor in FLOORS.items() if floor == 0]
    foreign = {
        (name, imported)
        for name in lowest
        for imported, _ in imports(name)
        if imported.split(".")[0] not in {*sys.stdlib_module_names, "engram"}
    }

    assert foreign == set()


def test_sql_stands_in_models_alone() -> None:
    """Words of SQL in a text constant outside engram.models; the queue has Huey's own tables."""
    # Huey's own storage.
    allowed = {"engram.tasks.queue"}
    found = []
    for name, tree in modules().items():
        if part_of(name) in ("engram.models", "engram.hub.server") or name in allowed:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = " ".join(node.value.split())
                if text.startswith(("SELECT ", "INSERT INTO ", "INSERT OR ", "DELETE FROM ", "CREATE TABLE ")) or (
                    text.startswith("UPDATE ") and " SET " in text
                ):
                    found.append(f"{name}:{node.lineno}: {text[:60]}")
    assert found == []


def test_no_module_is_called_by_a_word_that_says_nothing() -> None:
    empty = {"utils", "common", "helpers", "base", "manager"}

    assert [name for name in modules() if name.rsplit(".", 1)[-1] in empty] == []
