"""Lines that Claude Code wrote into the file of another session belong to the session that they name."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from growing_transcript import Content, Ingest, MakeTranscript, Transcript, Turns
from repositories import repository

from engram.ingest.read_portion import Step
from engram.ingest.read_sources import ingest_all, ingest_path
from engram.models.engine.transaction import Store
from engram.models.projects.projects import list_projects
from engram.models.sessions.reading_progress import all_seen, read_missing_again
from engram.models.sessions.sessions import find_session
from engram.redaction import redact
from engram.settings import Settings
from engram.transcripts import line_parsing
from engram.transcripts.agents import Place
from engram.transcripts.growing_file import read_chunk
from tests.empty_memory import open_empty

OWN, OTHER = "11111111-aaaa-4bbb-8ccc-000000000001", "22222222-aaaa-4bbb-8ccc-000000000002"


@pytest.fixture
def transcript(make_transcript: MakeTranscript) -> Transcript:
    """The file of one session."""
    return make_transcript(OWN)


def own(cwd: str = "/gone/engine") -> dict[str, Any]:
    return {"sessionId": OWN, "cwd": cwd}


def other(cwd: str = "/gone/engine") -> dict[str, Any]:
    return {"sessionId": OTHER, "cwd": cwd}


def talk_in_turns(transcript: Transcript, first: dict[str, Any], second: dict[str, Any]) -> None:
    """Two sessions whose lines alternate in one file."""
    transcript.user("mend the winch", **first)
    transcript.user("paint the hull", **second)
    transcript.says("the winch is mended", **first)
    transcript.says("the hull is painted", **second)
    transcript.user("oil it too", **first)
    transcript.says("the winch is oiled", **first)


def said(turns: Turns) -> dict[str, list[tuple[str, str]]]:
    """Session → its prompts with their replies."""
    found: dict[str, list[tuple[str, str]]] = {}
    for stored in turns():
        found.setdefault(stored.turn.session_id, []).append((stored.turn.prompt, stored.turn.reply))
    return found


APART = {
    OWN: [("mend the winch", "the winch is mended"), ("oil it too", "the winch is oiled")],
    OTHER: [("paint the hull", "the hull is painted")],
}


@pytest.mark.parametrize("max_bytes", [1, 400, 1_000_000])
def test_replies_belong_to_the_prompt_of_their_own_session(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, max_bytes: int
) -> None:
    talk_in_turns(transcript, own(), other())
    transcript.add({"type": "custom-title", "customTitle": "Painting", "sessionId": OTHER})

    ingest(transcript, max_bytes=max_bytes)

    assert said(turns) == APART
    sessions = store.rows("SELECT session_id, title, message_count FROM session ORDER BY 1")
    assert sessions == [(OWN, "", 4), (OTHER, "Painting", 2)]


def test_it_makes_no_difference_when_the_file_is_read(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store
) -> None:
    talk_in_turns(transcript, own(), other())
    lines = transcript.path.read_text().splitlines(keepends=True)
    transcript.path.write_text("")

    for line in lines:
        transcript.text(line)
        ingest(transcript)

    assert said(turns) == APART
    assert store.value("SELECT count(*) FROM said") == 6


@pytest.mark.parametrize("max_bytes", [1, 400, 1_000_000])
def test_a_copied_history_is_not_taken_for_the_lines_that_follow(
    transcript: Transcript, ingest: Ingest, turns: Turns, max_bytes: int
) -> None:
    _copied_before(transcript)
    transcript.user("oil it too", **other())
    transcript.says("it is oiled", **other())

    ingest(transcript, max_bytes=max_bytes)

    assert said(turns) == {
        OWN: [("paint the hull", "the hull is painted"), ("mend the winch", "the winch is mended")],
        OTHER: [("oil it too", "it is oiled")],
    }


def test_the_file_is_read_once_for_all_sessions_in_it(
    transcript: Transcript, ingest: Ingest, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    monkeypatch.setattr(
        line_parsing, "read_chunk", lambda path, *a, **b: (read.append(path), read_chunk(path, *a, **b))[1]
    )
    transcript.user("mend the winch", **own())
    for number in range(5):
        transcript.user("paint the hull", sessionId=f"22222222-aaaa-4bbb-8ccc-00000000001{number}")

    ingest(transcript)

    assert read == [transcript.path]
    assert len(said(turns)) == 6


@pytest.mark.parametrize("kind", ["folders", "repositories"])
def test_they_belong_to_the_project_of_their_own_session(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, tmp_path: Path, kind: str
) -> None:
    for name in ("harbor", "lantern"):
        (tmp_path / name).mkdir()
        if kind == "repositories":
            repository(tmp_path / name)
    talk_in_turns(transcript, own(f"{tmp_path}/harbor"), other(f"{tmp_path}/lantern"))

    ingest(transcript)

    names = {project.id: project.name for project in list_projects(store)}
    assert {(names[stored.project_id or 0], stored.turn.session_id) for stored in turns()} == {
        ("harbor", OWN),
        ("lantern", OTHER),
    }
    found = find_session(store, OTHER)
    assert found is not None
    assert (found.cwd, names[found.project_id or 0]) == (f"{tmp_path}/lantern", "lantern")


@pytest.mark.parametrize("left_out", [OWN, OTHER])
def test_an_excluded_session_in_another_ones_file_is_not_stored(
    transcript: Transcript, ingest: Ingest, turns: Turns, settings: Settings, left_out: str
) -> None:
    folders = {OWN: "/gone/harbor", OTHER: "/gone/lantern"}
    settings = dataclasses.replace(settings, exclude=(folders[left_out],))
    talk_in_turns(transcript, own(folders[OWN]), other(folders[OTHER]))

    ingest(transcript, settings=settings)

    assert said(turns) == {session: texts for session, texts in APART.items() if session != left_out}


@pytest.mark.parametrize("is_first", [True, False])
def test_the_other_session_has_a_file_too(
    transcript: Transcript, make_transcript: MakeTranscript, ingest: Ingest, turns: Turns, is_first: bool
) -> None:
    theirs = make_transcript(OTHER, at_ms=transcript.at_ms - 60_000)
    theirs.user("begin with the rudder", **other())
    theirs.says("the rudder is done", **other())
    talk_in_turns(transcript, own(), other())
    # The lines in the wrong file were copied to where they belong.
    with theirs.path.open("a", encoding="utf-8") as file:
        file.writelines(line for line in transcript.path.read_text().splitlines(keepends=True) if OTHER in line)

    for one in (theirs, transcript) if is_first else (transcript, theirs):
        ingest(one)

    found = said(turns)
    assert found[OWN] == APART[OWN]
    assert sorted(found[OTHER]) == [("begin with the rudder", "the rudder is done"), *APART[OTHER]]


def test_a_prompt_that_waits_in_one_queue_is_not_handed_over_by_the_other(
    transcript: Transcript, ingest: Ingest, turns: Turns
) -> None:
    transcript.user("mend the winch", **own())
    transcript.user("paint the hull", **other())
    queue = {"type": "queue-operation", "uuid": None, "content": "and be quick"}
    transcript.add(queue | {"operation": "enqueue"} | own())
    transcript.add(queue | {"operation": "remove", "content": None} | other())
    transcript.says("the hull is painted", **other())
    transcript.says("the winch is mended", **own())

    ingest(transcript)

    found = said(turns)
    assert found[OTHER] == APART[OTHER]
    assert sorted(found[OWN]) == [("and be quick", ""), ("mend the winch", "the winch is mended")]


def _copied_before(transcript: Transcript) -> None:
    transcript.user("paint the hull", **other())
    transcript.says("the hull is painted", **other())
    transcript.user("mend the winch", **own())
    transcript.says("the winch is mended", **own())


def _named_otherwise(transcript: Transcript) -> None:
    transcript.user("paint the hull", **other())
    transcript.says("the hull is painted", **other())


def _without_a_session(transcript: Transcript) -> None:
    transcript.user("paint the hull", **own())
    transcript.says("the hull is painted", cwd="/gone/engine")
    for other_name in ("../../x", "not-a-uuid", f"{OTHER}.agent-a1", 5, None):
        transcript.says("again", sessionId=other_name, cwd="/gone/engine")


@pytest.mark.parametrize("write", [_copied_before, _named_otherwise, _without_a_session])
def test_a_copied_history_and_a_renamed_file_stay_one_session(
    transcript: Transcript, ingest: Ingest, turns: Turns, write: Callable[[Transcript], None]
) -> None:
    write(transcript)

    ingest(transcript)

    assert list(said(turns)) == [OWN]
    assert said(turns)[OWN][0][0] == "paint the hull"


def test_a_subagents_lines_name_its_parent(
    settings: Settings, ingest: Ingest, make_transcript: MakeTranscript, turns: Turns
) -> None:
    folder = settings.projects_folder / "-gone-engine" / OWN / "subagents"
    folder.mkdir(parents=True)
    agent = Transcript(folder / "agent-a1.jsonl")
    agent.says("found it", **own(), isSidechain=True, agentId="a1")
    agent.says("and more", **other(), isSidechain=True, agentId="a1")

    ingest(agent.path, settings=dataclasses.replace(settings, subagents=True))

    assert list(said(turns)) == [f"{OWN}.agent-a1"]


def test_a_copy_of_the_file_leaves_the_original_as_it_was(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, settings: Settings
) -> None:
    talk_in_turns(transcript, own(), other())
    ingest(transcript)
    copy = settings.projects_folder / "-gone-copy" / transcript.path.name
    copy.parent.mkdir()
    shutil.copy(transcript.path, copy)
    ingest_all(store, settings=settings, redact=redact)
    seen = all_seen(store)

    again = ingest_all(store, settings=settings, redact=redact)

    assert set(seen) == {Place(path, part) for path in (transcript.path, copy) for part in ("", OTHER)}
    assert all_seen(store) == seen
    assert not any(result.has_read for result in again)
    assert said(turns) == APART


def test_a_moved_file_is_not_read_again(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, settings: Settings
) -> None:
    talk_in_turns(transcript, own(), other())
    ingest(transcript)
    moved = settings.projects_folder / "-gone-harbor" / transcript.path.name
    moved.parent.mkdir()
    transcript.path.rename(moved)

    (result,) = ingest_all(store, settings=settings, redact=redact)

    assert set(all_seen(store)) == {Place(moved, ""), Place(moved, OTHER)}
    assert not result.has_read
    assert said(turns) == APART


@pytest.mark.parametrize("max_bytes", [1, 900, 1_000_000])
def test_nothing_is_lost_if_the_reader_stops_in_between(
    transcript: Transcript,
    ingest: Ingest,
    turns: Turns,
    content: Content,
    monkeypatch: pytest.MonkeyPatch,
    max_bytes: int,
) -> None:
    talk_in_turns(transcript, own(), other())

    def stop(step: Step, *arguments: Any) -> Any:
        if not step.source.part:
            raise KeyboardInterrupt
        return keep(step, *arguments)

    keep = Step.keep
    monkeypatch.setattr(Step, "keep", stop)
    with pytest.raises(KeyboardInterrupt):
        ingest(transcript)
    assert said(turns) == {OTHER: APART[OTHER]}
    monkeypatch.setattr(Step, "keep", keep)
    ingest(transcript, max_bytes=max_bytes)

    assert said(turns) == APART
    before = content()
    ingest(transcript)
    assert content() == before


def test_damage_counts_once_and_a_rewritten_file_is_read_again(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store
) -> None:
    talk_in_turns(transcript, own(), other())
    transcript.text(json.dumps({"type": "user", **other()})[:-9] + "\n")
    ingest(transcript)
    assert store.value("SELECT count(*) FROM bad_line") == 1

    lines = transcript.path.read_text().splitlines(keepends=True)
    transcript.path.write_text(
        "".join([*lines[:1], '{"type":"summary"}\n', *lines[1:-1]]).replace("painted", "varnished")
    )
    transcript.says("and waxed", **other())
    ingest(transcript)

    assert said(turns) == APART | {OTHER: [("paint the hull", "the hull is varnished\n\nand waxed")]}
    assert store.value("SELECT count(*) FROM bad_line") == 0


def test_turns_that_a_restored_memory_lacks_are_found_again(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, tmp_path: Path
) -> None:
    talk_in_turns(transcript, own(), other())
    ingest(transcript)
    with open_empty(tmp_path / "whole.db") as whole:
        ingest_path(whole, transcript.path, settings=Settings(home=tmp_path / "home"), redact=redact)
        with store.transaction() as tx:
            lost = "SELECT t.id FROM turn t JOIN session s ON s.id = t.session_ref WHERE s.session_id = ?"
            tx.run(f"DELETE FROM entry WHERE turn_id IN ({lost})", (OTHER,))
            tx.run(f"DELETE FROM said WHERE turn_id IN ({lost})", (OTHER,))
            tx.run(f"DELETE FROM turn WHERE id IN ({lost})", (OTHER,))
        assert list(said(turns)) == [OWN]

        with store.transaction() as tx:
            assert read_missing_again(tx, whole) == 1
    ingest(transcript)

    assert said(turns) == APART


@pytest.mark.parametrize("max_bytes", [1, 1_000_000])
@pytest.mark.parametrize("between", [None, "progress", "attachment"])
def test_lines_that_continue_the_sessions_own_under_the_former_id_are_its(
    transcript: Transcript, ingest: Ingest, turns: Turns, store: Store, between: str | None, max_bytes: int
) -> None:
    transcript.user("implement the plan", **other(), parentUuid=None)
    first = transcript.says("it is implemented", **own(), parentUuid=f"{OWN}-1")
    if between is not None:
        more = {"type": between, "attachment": {"type": "date"}, "parentUuid": first}
        first = transcript.add(more | other())
        lines = transcript.path.read_text().splitlines()
        transcript.path.write_text("".join(line.replace('"uuid": ', '"uuid":') + "\n" for line in lines))
    transcript.add({"type": "system", "subtype": "turn_duration", "parentUuid": first} | other())
    transcript.user("and test it", **other(), parentUuid=f"{OWN}-{transcript.number}")
    transcript.says("it is tested", **own(), parentUuid=f"{OWN}-{transcript.number}")

    ingest(transcript, max_bytes=max_bytes)

    assert said(turns) == {OWN: [("implement the plan", "it is implemented"), ("and test it", "it is tested")]}
    assert store.value("SELECT count(*) FROM session") == 1


@pytest.mark.parametrize("is_own_first", [True, False])
@pytest.mark.parametrize("max_bytes", [1, 1_000_000])
def test_a_line_that_stands_under_two_sessions_belongs_to_the_first(
    transcript: Transcript, ingest: Ingest, turns: Turns, is_own_first: bool, max_bytes: int
) -> None:
    transcript.user("mend the winch", **own())
    first, second = (own(), other()) if is_own_first else (other(), own())
    prompt = transcript.user("paint the hull", **first)
    reply = transcript.says("the hull is painted", **first)
    transcript.user("paint the hull", uuid=prompt, **second)
    transcript.says("the hull is painted", uuid=reply, **second)

    ingest(transcript, max_bytes=max_bytes)

    painted = ("paint the hull", "the hull is painted")
    expected = {OWN: [("mend the winch", "")]}
    expected.setdefault(first["sessionId"], []).append(painted)
    assert said(turns) == expected
