"""Notes of the earlier Engram are indexed where they lie, stay with their projects, and go with a forget."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Actor
from engram.forgetting.forget import forget_memory
from engram.forgetting.whole_project import forget_project
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory
from engram.models.projects.notes import is_seen_by
from engram.models.projects.projects import ensure_project
from engram.notes.note_index import find_notes, index_notes, owners_of_lines
from engram.redaction import redact
from engram.settings import Settings


def write(settings: Settings) -> None:
    for name, text in {
        "MEMORY.md": "# Memory\n\n- Tides are read from the gauge.\n",
        "2026-02-20.md": "## harbor\n\nThe barge lies at pier 3.\n\n## 10:30\n\nA talk about the roof.\n",
        "archive/2026-01.md": "## dock\n\nThe winch was oiled in January, as every year.\n",
        "random.md": "not a note of it",
        "notes/MEMORY.md": "# Memory\n\nours\n",
    }.items():
        path = settings.home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (settings.home / "daily").symlink_to(settings.home / "archive")


def test_they_are_indexed_and_a_section_is_seen_by_its_project_alone(store: Store, settings: Settings) -> None:
    write(settings)
    with store.transaction() as tx:
        harbor, dock = (ensure_project(tx, f"/gone/{name}", name, f"/gone/{name}") for name in ("harbor", "dock"))

    index_notes(store, settings, redact)

    sources = [source for source, _ in find_notes(settings)]
    assert sources == ["earlier/2026-02-20.md", "earlier/MEMORY.md", "earlier/archive/2026-01.md", "MEMORY.md"]
    owners = owners_of_lines(sources[0], (settings.home / "2026-02-20.md").read_text().splitlines())
    seen = [[is_seen_by(store, owner, project.id) for project in (harbor, dock)] for owner in owners]
    assert seen[2] == [True, False]
    assert seen[-1] == [False, False]
    (memory,) = set(owners_of_lines("earlier/MEMORY.md", ["# Memory", "- Tides"]))
    assert is_seen_by(store, memory, dock.id)
    found = store.value("SELECT count(*) FROM note_chunk WHERE text LIKE '%barge lies%'")
    assert found == 1


def test_what_is_forgotten_leaves_them_too(store: Store, settings: Settings, keep: Callable[..., Memory]) -> None:
    write(settings)
    with store.transaction() as tx:
        harbor = ensure_project(tx, "/gone/harbor", "harbor", "/gone/harbor")
    index_notes(store, settings, redact)
    memory = keep("The winch was oiled in January, as every year.")

    forget_memory(store, settings.places, memory.episode_id, actor=Actor.USER)
    forget_project(store, settings.places, harbor, actor=Actor.USER)

    assert "winch" not in (settings.home / "archive" / "2026-01.md").read_text()
    day = (settings.home / "2026-02-20.md").read_text()
    assert "barge" not in day
    assert "roof" in day
