"""Whatever a folder, branch, file or session is called: no command and no tool prints what steers or hides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engram.cli.main import engram
from engram.cli.up_commands import SAMPLES
from engram.ingest.session_project import named_project
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.open_memory import open_store
from engram.models.projects.projects import ensure_project
from engram.models.sessions.sessions import list_sessions
from engram.models.work import work
from engram.models.work.work import pause
from engram.paths import Home, default_home
from engram.settings import load
from engram.trust.display import escape_hidden, hidden_characters, visible
from engram_mcp.access import Access
from engram_mcp.catalog import answer

KNOWN = (
    "\x1b[31m",
    "\x1b]0;title\x07",
    "\x9b1m",
    "\x9d0;x\x9c",
    "\u202eevil",
    "\u2066",
    "\x7f",
    "\x85",
    "\r",
    "\b",
)
NASTY = st.lists(
    st.one_of(
        st.text(alphabet=st.characters(categories=["Cc", "Cf", "Co", "Zl", "Zp"]), max_size=4),
        st.text(alphabet="abc ä漢😀", max_size=4),
        st.sampled_from(KNOWN),
    ),
    min_size=1,
    max_size=6,
).map("".join)
HERE = [HealthCheck.function_scoped_fixture]


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("ENGRAM_EMBEDDING_MODEL", "hashed")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(SAMPLES))
    result = CliRunner().invoke(engram, ["up", "--once", "--json"])
    assert result.exit_code == 0, result.output
    store = open_store(Home(default_home()).memory_db)
    yield store
    store.close()


def spread(store: Store, name: str) -> str:
    """Give every stored name the text, each its own way; returns the name of the project."""
    project = f"{name}-harbor"
    with store.transaction() as tx:
        tx.run("UPDATE project SET name = ?, root = ? WHERE name LIKE '%harbor%'", (project, f"/work/{name}"))
        tx.run("UPDATE session SET branch = ?, cwd = ?", (f"{name}-branch", f"/work/{name}"))
        tx.run("UPDATE transcript SET last_error = ?", (f"{name} error",))
        tx.run("UPDATE stage SET last_error = ?, last_error_ms = 1", (f"{name} failed",))
        tx.run("UPDATE episode SET summary = ?, stale_reason = ?", (f"{name} cache", f"{name} is gone"))
        work.make_due(tx, "extract", f"{name}-session", 0)
    pause(store, f"/work/{name}", 4_000_000_000_000)
    store.checkpoint("TRUNCATE")  # each command would look through the log
    (Home(default_home()).notes / "MEMORY.md").write_text(f"# {name}\n\nzebra {name} cache\n", errors="replace")
    return project


def commands(store: Store, project: str) -> Iterator[list[str]]:
    """Every command that reads, and some that fail, with the nasty name wherever one can be given."""
    memory = memory_records.all_memories(store)[0].episode_id
    session = list_sessions(store)[0].session_id
    yield from (["recall", "cache"], ["recall", "cache", "--explain"], ["search", "cache"], ["timeline"], ["status"])
    yield from (["sessions"], ["doctor"], ["tasks", "list"], ["tasks", "dead"], ["cost"], ["pause", "--list"], ["logs"])
    yield from (["expand", memory], ["expand", memory, "--why"], ["purge"], ["consolidate", "--dry-run"], ["config"])
    yield from (["recall", "cache", "--project", project], ["timeline", "--project", project])
    yield from (["recall", "cache", "--project", f"{project}?"], ["expand", project], ["sessions", project])
    yield from (["pause", "--project", project], ["pause", "--off", "--project", project], ["export"])
    yield ["sessions", session]


def check(text: str, what: object) -> None:
    assert hidden_characters(text.replace("\n", "")) == 0, (what, text)


def ask_everything(store: Store, name: str) -> None:
    """Run every command, once for a person and once with ``--json``."""
    project = spread(store, name)
    for arguments in commands(store, project):
        for form in ([], ["--json"]):
            result = CliRunner().invoke(engram, [*arguments, *form])
            assert result.exit_code in (0, 1, 2), (arguments, result.exception)
            check(result.stdout, arguments)
            if result.exit_code != 2:
                check(result.stderr, arguments)
            if form and result.exit_code == 0 and arguments[0] not in ("export", "logs", "doctor"):
                json.loads(result.stdout)


@settings(max_examples=2, deadline=None, suppress_health_check=HERE)
@example(name="".join(KNOWN))
@given(name=NASTY)
def test_no_command_prints_what_steers_or_hides(filled: Store, name: str) -> None:
    ask_everything(filled, name)


@pytest.mark.soak
@settings(max_examples=40, deadline=None, suppress_health_check=HERE)
@given(name=NASTY)
def test_no_command_prints_what_steers_or_hides_whatever_it_is(filled: Store, name: str) -> None:
    ask_everything(filled, name)


@settings(max_examples=12, deadline=None, suppress_health_check=HERE)
@given(name=NASTY)
def test_no_tool_answers_with_what_steers_or_hides(filled: Store, name: str, tmp_path: Path) -> None:
    project = spread(filled, name)
    memory = memory_records.all_memories(filled)[0].episode_id
    access = Access(load({}).settings, str(tmp_path))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("memory_recall", {"query": "cache", "project": project}),
        ("memory_recall", {"query": "x", "project": f"{project}?"}),
        ("memory_search", {"query": "zebra", "project": project}),
        ("memory_expand", {"id": memory}),
        ("memory_expand", {"id": name}),
        ("memory_get", {"source": "MEMORY.md"}),
        ("memory_get", {"source": name}),
        ("memory_status", {}),
        ("memory_timeline", {"project": project}),
        ("memory_timeline", {"around": name}),
        ("memory_context", {"project": project}),
    ]

    for tool, arguments in calls:
        said, _ = answer(lambda: access, tool, arguments)
        assert said
        check(said, tool)


def test_a_new_project_gets_a_name_of_one_visible_line(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db") as store, store.transaction() as tx:
        names = [
            ensure_project(tx, f"/work/{number}", name).name
            for number, name in enumerate(["a\nb\x9b31m\u202e", "\x1b[2J", "ghp_" + "a1B2c3D4e5" * 3 + "a1B2c3"])
        ]

    assert names == ["a b", "project", "[secret:github-token]"]


def test_a_project_is_found_by_the_name_that_is_shown(filled: Store) -> None:
    project = spread(filled, "\x1b[31mred\u202e")

    assert named_project(filled, visible(project)).name == project


@given(st.text(alphabet=st.characters(categories=["Cc", "Cf", "Cs", "Co", "L", "Nd", "Zl"])))
def test_json_with_hidden_characters_escaped_says_the_same(text: str) -> None:
    escaped = escape_hidden(json.dumps({"name": text}, ensure_ascii=False))

    assert hidden_characters(escaped) == 0
    assert json.loads(escaped) == {"name": text}
