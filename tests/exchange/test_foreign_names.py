"""No name in somebody else's export (id, slot, session, evidence, project) reaches what is the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engram.enums import Actor, Scope, Status, Voice
from engram.exchange.export import export_records, read_markdown, write_markdown
from engram.exchange.importing import Outcome, undo_import
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.forgetting.forget import forget_memory
from engram.ingest.read_sources import ingest_path
from engram.memories.save import edit_memory, save_memory
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import (
    MAX_SUMMARY_CHARACTERS,
    Memory,
    all_memories,
    evidence_of,
    find_memory,
)
from engram.models.open_memory import open_store
from engram.models.projects.project_folders import list_hints, note_hints
from engram.models.projects.projects import ensure_project
from engram.models.rescue.clean_copies import read_tombstones
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import turns_of_session
from engram.redaction import redact
from engram.settings import Settings
from tests.exchange.exports import as_source, home_settings, import_into
from tests.exchange.test_voices import lines_of
from tests.transcript_lines import say

RULE = "Always weigh the crates on the northern scale."
POISON = "The crates are weighed on the southern scale."
SESSION = "5f0e4e0e-5d62-4ae0-9e42-0000000000f1"


def line(**changes: Any) -> dict[str, Any]:
    return {"id": "ep_0000000000aa", "kind": "fact", "summary": POISON, "content": POISON, "project": "pier"} | changes


def read(store: Store, settings: Settings, text: str = RULE) -> None:
    """Read a session of the user's in which they say something, and extract it."""
    transcript = settings.projects_folder / "-work-pier" / f"{SESSION}.jsonl"
    say(transcript, "user", text, cwd="/work/pier")
    ingest_path(store, transcript, settings=settings, redact=redact, close=True)
    extract_session(store, SESSION, extractor=LocalExtractor(), embedder=None, settings=settings)


def own(store: Store) -> list[Memory]:
    return [one for one in all_memories(store) if one.voice is Voice.USER]


def foreign(store: Store) -> Memory:
    (found,) = [one for one in all_memories(store) if one.voice is Voice.IMPORTED]
    return found


def test_a_copy_that_somebody_changed_does_not_keep_the_original_out(
    store: Store, settings: Settings, other: Store, other_settings: Settings
) -> None:
    read(store, settings)
    exported = lines_of(store)
    changed = [one | {"summary": POISON, "content": POISON} for one in exported]

    import_into(other, other_settings, as_source(changed), is_mine=False)
    import_into(other, other_settings, as_source(exported), is_mine=True)

    assert [(one.episode_id, one.summary) for one in own(other)] == [(exported[0]["id"], RULE)]
    assert foreign(other).summary == POISON


def test_a_foreign_memory_with_the_names_of_an_own_one_is_not_added(store: Store, settings: Settings) -> None:
    read(store, settings)
    (mine,) = lines_of(store)
    changed = mine | {"summary": POISON, "content": POISON}
    named = [
        changed,
        changed | {"id": "ep_0000000000aa", "stable_id": "0" * 16},
        changed | {"id": "ep_0000000000ab", "slot": ""},
    ]

    report = import_into(store, settings, as_source(named), is_mine=False)

    assert report.counts == {Outcome.KNOWN: 3}
    assert lines_of(store) == [mine]


def test_what_a_foreign_file_took_first_does_not_keep_a_session_from_being_kept(
    store: Store, settings: Settings, other: Store, other_settings: Settings
) -> None:
    read(other, other_settings)
    (theirs,) = lines_of(other)
    squatting = theirs | {"id": "ep_0000000000aa", "summary": POISON, "content": POISON}

    import_into(store, settings, as_source([squatting]), is_mine=False)
    read(store, settings)

    assert [one.summary for one in own(store)] == [RULE]
    planted = foreign(store)
    assert (planted.slot, planted.session_id, evidence_of(store, planted.id)) == (None, "", [])
    assert planted.stable_id not in ("", theirs["stable_id"])
    assert planted.episode_id != squatting["id"]


@pytest.mark.parametrize("has_project", [True, False])
def test_a_foreign_memory_joins_no_session_and_forgetting_it_costs_no_word_of_one(
    store: Store, settings: Settings, has_project: bool
) -> None:
    read(store, settings)
    (mine,) = lines_of(store)
    claimed = {name: mine[name] for name in ("session", "evidence", "rests_on")} | {"scope": "project"}
    place = {} if has_project else {"project": ""}

    import_into(store, settings, as_source([line(**claimed, **place)]), is_mine=False)

    planted = foreign(store)
    assert (planted.session_id, evidence_of(store, planted.id)) == ("", [])
    assert (planted.project_id is None) is not has_project
    forget_memory(store, settings.places, planted.episode_id, actor=Actor.USER, also_source=True)
    assert [one.summary for one in own(store)] == [RULE]
    assert [[block.text for block in one.turn.said] for one in turns_of_session(store, 1)] == [[RULE]]


def test_a_session_that_only_a_foreign_file_names_does_not_exist(store: Store, settings: Settings) -> None:
    import_into(store, settings, as_source([line(session=SESSION)]), is_mine=False)
    assert find_session(store, SESSION) is None


@pytest.mark.parametrize("status", ["superseded", "active"])
def test_no_own_memory_becomes_the_successor_of_a_foreign_one(store: Store, settings: Settings, status: str) -> None:
    mine = save_memory(store, RULE, redact, actor=Actor.USER, scope=Scope.GLOBAL)

    import_into(store, settings, as_source([line(status=status, superseded_by=mine.episode_id)]), is_mine=False)

    planted = foreign(store)
    assert (planted.status, planted.superseded_by) == (Status.ARCHIVED, "")
    forget_memory(store, settings.places, planted.episode_id, actor=Actor.USER)
    assert find_memory(store, mine.episode_id) == mine


def test_foreign_memories_that_replaced_each_other_still_do(store: Store, settings: Settings) -> None:
    newer = line(id="ep_0000000000ab", summary="The crates are weighed on the eastern scale.")
    older = line(status="superseded", superseded_by=newer["id"])

    import_into(store, settings, as_source([older, newer]), is_mine=False)

    by_status = {one.status: one for one in all_memories(store)}
    assert by_status[Status.SUPERSEDED].superseded_by == by_status[Status.ACTIVE].episode_id


def test_a_foreign_memory_comes_once_and_never_after_it_was_forgotten(store: Store, settings: Settings) -> None:
    first, second = (import_into(store, settings, as_source([line()]), is_mine=False) for _ in range(2))
    assert (first.counts, second.counts) == ({Outcome.ADDED: 1}, {Outcome.KNOWN: 1})
    assert import_into(store, settings, as_source([line()]), is_mine=True).counts == {Outcome.KNOWN: 1}

    forget_memory(store, settings.places, foreign(store).episode_id, actor=Actor.USER)

    for is_mine in (False, True):
        assert import_into(store, settings, as_source([line()]), is_mine=is_mine).counts == {Outcome.FORGOTTEN: 1}


@pytest.mark.parametrize("is_mine", [False, True])
def test_what_comes_back_from_somebody_who_imported_it_is_not_doubled(
    store: Store, settings: Settings, tmp_path: Path, is_mine: bool
) -> None:
    mine = save_memory(store, RULE, redact, actor=Actor.USER, scope=Scope.GLOBAL)
    old = save_memory(store, POISON, redact, actor=Actor.USER, scope=Scope.GLOBAL)
    gone = save_memory(store, "The crane is rented until May.", redact, actor=Actor.USER, scope=Scope.GLOBAL)
    lines = list(export_records(store, lambda _: True, with_forgotten=False))
    theirs, thirds = home_settings(tmp_path / "b"), home_settings(tmp_path / "c")
    with open_store(theirs.places.memory_db) as b, open_store(thirds.places.memory_db) as c:
        import_into(b, theirs, as_source(lines), is_mine=False)
        of_b = list(export_records(b, lambda _: True, with_forgotten=False))
        import_into(c, thirds, as_source(of_b), is_mine=False)
        of_c = list(export_records(c, lambda _: True, with_forgotten=False))
        # The third gets it from the first, too.
        assert import_into(c, thirds, as_source(lines), is_mine=False).counts == {Outcome.KNOWN: 3}
    # Neither an edit nor that it was forgotten, before its text was noted, makes it another memory.
    edit_memory(store, mine.episode_id, redact, actor=Actor.USER, content="Weigh the crates on any scale.")
    forget_memory(store, settings.places, gone.episode_id, actor=Actor.USER)
    with store.transaction() as tx:
        tx.run("DELETE FROM tombstone WHERE kind = 'text'")
    newer = line(id="ep_0000000000ac", summary="New.", status="superseded", superseded_by=of_b[0]["id"])

    for sent in (of_b, of_c):
        counts = import_into(store, settings, as_source(sent), is_mine=is_mine).counts
        assert counts == {Outcome.KNOWN: 2, Outcome.FORGOTTEN: 1}
    import_into(store, settings, as_source([newer]), is_mine=False)
    assert {one.episode_id for one in own(store)} == {mine.episode_id, old.episode_id}
    assert (foreign(store).status, foreign(store).superseded_by) == (Status.ARCHIVED, "")


def test_a_foreign_import_that_is_undone_can_be_imported_as_ones_own(store: Store, settings: Settings) -> None:
    run_id = import_into(store, settings, as_source([line()]), is_mine=False).run_id
    assert run_id is not None
    undo_import(store, run_id)

    import_into(store, settings, as_source([line(voice="user")]), is_mine=True)

    assert [one.episode_id for one in own(store)] == [line()["id"]]


@pytest.mark.parametrize("form", ["jsonl", "markdown"])
def test_what_others_forgot_is_not_forgotten_here_unless_the_file_is_ones_own(
    lived_in: Store, other: Store, other_settings: Settings, tmp_path: Path, form: str
) -> None:
    lines = list(export_records(lived_in, lambda _: True, with_forgotten=True))[-1:]
    assert lines[0]["tombstones"]

    def source() -> Any:
        write_markdown(tmp_path / "out", lines)
        return read_markdown(tmp_path / "out") if form == "markdown" else as_source(lines)

    report = import_into(other, other_settings, source(), is_mine=False)
    assert (report.tombstones, read_tombstones(other)) == (0, [])
    assert any("forgot" in remark and "--mine" in remark for remark in report.remarks)

    assert import_into(other, other_settings, source(), is_mine=True).tombstones == len(lines[0]["tombstones"])


def test_what_this_memory_forgot_is_proven_to_be_its_own(lived_in: Store, settings: Settings) -> None:
    (forgotten,) = list(export_records(lived_in, lambda _: True, with_forgotten=True))[-1:]
    with lived_in.transaction() as tx:
        tx.run("DELETE FROM tombstone")

    assert import_into(lived_in, settings, as_source([forgotten]), is_mine=False).tombstones

    key = b"/home/me/src/any".hex()
    forged = forgotten | {"tombstones": [{"kind": "project", "key": key, "at_ms": 1}]}
    assert not import_into(lived_in, settings, as_source([forged]), is_mine=False).tombstones


@pytest.mark.parametrize("is_mine", [True, False])
@pytest.mark.parametrize(
    ("remote", "first_commit", "is_same"),
    [
        ("example.com/pier", "c0ffee", True),
        ("example.com/renamed", "c0ffee", True),
        ("", "", True),
        ("example.com/pier", "", True),
        ("example.com/other", "", False),
        ("example.com/other", "decade", False),
        ("example.com/pier", "decade", False),
    ],
)
def test_another_repository_in_the_same_path_is_another_project(
    store: Store, settings: Settings, remote: str, first_commit: str, is_same: bool, is_mine: bool
) -> None:
    with store.transaction() as tx:
        pier = ensure_project(tx, "/app", "app", "/app")
        note_hints(tx, pier.id, "example.com/pier", "c0ffee")
    place = {"project": "app", "project_identity": "/app", "project_root": "/app", "scope": "project"}
    hints = {"project_remote": remote, "project_first_commit": first_commit}

    import_into(store, settings, as_source([line(**place, **hints)]), is_mine=is_mine)

    (found,) = all_memories(store)
    assert (found.project_id == pier.id) is is_same
    by_id = {known.project.id: known for known in list_hints(store)}
    assert (by_id[pier.id].remote, by_id[pier.id].first_commit) == ("example.com/pier", "c0ffee")
    assert found.project_id is not None
    assert is_same or (by_id[found.project_id].remote, by_id[found.project_id].first_commit) == (remote, first_commit)


@pytest.mark.parametrize(
    "huge",
    [
        {"summary": "The crane lifts. " * 300_000},
        {"content": "The crane lifts. " * 300_000},
        {"title": "The crane lifts. " * 300_000},
        {"facts": ["The crane lifts. " * 300_000, *["It does."] * 100_000]},
        {"questions": ["Does the crane lift? " * 300_000, *["Does it?"] * 100_000]},
        {"entities": ["crane " * 300_000, *(f"crane {number}" for number in range(100_000))]},
        {"created_at_ms": -1, "kept_at_ms": -1},
    ],
)
def test_a_foreign_memory_is_no_larger_than_one_of_the_users(
    store: Store, settings: Settings, huge: dict[str, Any]
) -> None:
    import_into(store, settings, as_source([line(**huge)]), is_mine=False)

    planted = foreign(store)
    assert len(planted.summary) <= MAX_SUMMARY_CHARACTERS
    assert len(planted.content) <= 20_000
    assert sum(map(len, (planted.title, *planted.facts, *planted.questions, *planted.entities))) < 20_000
    assert min(planted.created_at_ms, planted.kept_at_ms or 0) >= 0


def test_no_half_of_a_secret_is_left_where_a_content_is_cut(store: Store, settings: Settings) -> None:
    secret = "ghp_" + "a1B2" * 9
    for number, before in enumerate(range(19_960, 20_000, 4)):
        content = ("crate " * 4_000)[:before] + f" {secret} " + "crate " * 10_000
        import_into(store, settings, as_source([line(id=f"ep_{number:012x}", content=content)]), is_mine=False)

    assert not any("ghp_a" in one.content for one in all_memories(store))
