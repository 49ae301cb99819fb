"""Forgetting one memory takes that memory and the words that it alone rests on; they never come back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import httpx2
import numpy as np
import pytest
from planting import plant
from transcript_lines import say

from bench.storing import content_digest
from engram.consolidation.step_context import Context
from engram.consolidation.tidying_steps import archive_exact_duplicates, merge_near_duplicates
from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor, Judgement, Source, Status
from engram.errors import NotFound
from engram.extraction.candidate import Extractor
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.model.openai_provider import OpenAIExtractor
from engram.extraction.model.provider import Budget
from engram.forgetting.forget import forget_memory
from engram.forgetting.forget_plan import ForgetPreview, plan_forget, preview_forget
from engram.ingest.read_sources import ingest_path
from engram.memories.correct import judge_quotation
from engram.models.engine.transaction import Store
from engram.models.forgetting import forget_memories
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.memories import memory_changes, memory_records
from engram.models.memories.memory_records import Evidence, Memory
from engram.models.open_memory import open_store
from engram.models.rescue.carry_over import recover_by_hand
from engram.models.sessions.passage_rows import quotation_id_of
from engram.models.sessions.stored_turns import turns_of_session
from engram.models.shown.injections import Injection, add_injections
from engram.notes.daily_log import log_session
from engram.notes.note_index import index_notes
from engram.redaction import redact
from engram.search.vectors.loaded_vectors import embed_missing
from engram.settings import Settings

SESSION = "5f0e4e0e-5d62-4ae0-9e42-00000000000f"
#: Words that stand nowhere else, so that their bytes can be looked for.
PROMPT, ANSWER, OTHER, COMMAND = "zanzibarian", "quokkafied", "Xylocarpa", "axolotlize"
Keep = Callable[..., Memory]


@pytest.fixture(params=["cysqlite", "sqlite3"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    made = Settings(
        home=tmp_path / "home",
        claude_folder=tmp_path / "claude",
        sqlite_driver=request.param,
        llm_base_url="http://127.0.0.1:9/v1",
        llm_model="m",
    )
    made.places.prepare()
    return made


@pytest.fixture
def transcript(settings: Settings) -> Path:
    return settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"


@pytest.fixture
def said(store: Store, settings: Settings, transcript: Path) -> dict[str, str]:
    """Name → uuid of the entries of a session of three turns that was read."""
    found = {
        "first": say(transcript, "user", "Which colour has the hull?"),
        "blue": say(transcript, "assistant", "The hull is blue, as before."),
        "prompt": say(transcript, "user", f"From now on always paint it {PROMPT} please"),
        "answer": say(transcript, "assistant", f"Decision: the hull is painted in the {ANSWER} tone, since it lasts."),
        "call": say(
            transcript,
            "assistant",
            [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": f"make {COMMAND}"}}],
        ),
        "result": say(
            transcript,
            "user",
            [{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": f"Error: {COMMAND} failed"}],
        ),
        "other": say(transcript, "assistant", f"The root cause was the {OTHER} oil, so I fixed the pump in `oil.py`."),
        "last": say(transcript, "user", "And the mast?"),
        "brown": say(transcript, "assistant", "The mast stays brown."),
    }
    read(store, settings, transcript)
    return found


def read(store: Store, settings: Settings, transcript: Path) -> None:
    ingest_path(store, transcript, settings=settings, redact=redact, close=True)


@pytest.fixture
def remember(store: Store) -> Keep:
    """Keeps a memory as an extractor would; ``uuids`` are the entries it rests on, the telling one first."""

    def remember(summary: str, *uuids: str, **changes: object) -> Memory:
        (turn_id,) = {
            stored.id for stored in turns_of_session(store, 1) for entry in stored.turn.entries if entry.uuid in uuids
        }
        fields = {"session_id": SESSION, "slot": memory_records.slot_of("turn", "decision", summary), **changes}
        words = f"{summary}, word for word"
        made = Memory(memory_records.new_memory_id(), "decision", summary, words, **fields)  # type: ignore[arg-type]
        with store.transaction() as tx:
            return memory_changes.add_memory(
                tx, made, [Evidence(uuid, SESSION, turn_id) for uuid in uuids], actor=Actor.MODEL
            )

    return remember


def words_in(folder: Path, *words: str) -> list[str]:
    return [
        f"{path.relative_to(folder)}: {word}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        for word in words
        if word.lower().encode() in path.read_bytes().lower()
    ]


def texts(store: Store) -> list[str]:
    return [str(value) for (value,) in store.rows("SELECT text FROM said ORDER BY id")]


def forget(store: Store, settings: Settings, memory: Memory, **options: bool) -> object:
    return forget_memory(store, settings.places, memory.episode_id, **options, actor=Actor.USER)


def test_one_memory_goes_with_the_words_that_it_alone_rests_on(
    store: Store, settings: Settings, said: dict[str, str], remember: Keep
) -> None:
    target = remember("The hull is painted", said["answer"], said["prompt"], said["call"])
    beside = remember("Oil breaks the pump", said["other"])
    log_session(store, settings.places, SESSION)
    index_notes(store, settings, redact)
    settings.places.backups.mkdir(mode=0o700)
    store.checkpoint("TRUNCATE")
    for path in (settings.places.backups / "memory-2026-11-05.db", settings.home / "memory.replaced.db"):
        shutil.copyfile(settings.places.memory_db, path)
    assert len(words_in(settings.home, PROMPT, ANSWER, COMMAND)) > 6

    report = forget_memory(store, settings.places, target.episode_id, actor=Actor.USER)
    index_notes(store, settings, redact)
    store.checkpoint("TRUNCATE")

    assert words_in(settings.home, PROMPT, ANSWER, COMMAND) == []
    assert report.plan.episode_ids == (target.episode_id,)
    assert report.plan.title == "The hull is painted"
    assert (len(report.plan.turn_ids), len(report.plan.cut_entries), report.plan.needed) == (0, 3, ())
    assert "The hull is painted" in report.describe()
    assert memory_records.find_memory(store, beside.episode_id) == beside
    assert len(turns_of_session(store, 1)) == 3
    assert [text for text in texts(store) if OTHER in text]
    assert store.find_damage() == ""


def test_what_another_memory_needs_stays_and_is_named(
    store: Store, settings: Settings, said: dict[str, str], remember: Keep
) -> None:
    target = remember("The hull is painted", said["answer"], said["prompt"])
    beside = remember("Paint with that colour", said["prompt"])

    report = forget_memory(store, settings.places, target.episode_id, actor=Actor.USER)

    assert [(one.entry, [e.episode_id for e in one.needed_by]) for one in report.plan.needed] == [
        (said["prompt"], [beside.episode_id])
    ]
    assert "A message in “Which colour has the hull?”" in report.describe()
    assert beside.episode_id in report.describe()
    assert "colour" not in report.describe(lambda _: False).partition("\n")[2]
    preview = ForgetPreview(plan_forget(store, beside.episode_id), (), (), (), 0)
    assert preview.account() == "1 memory, the words of 1 message"
    assert any(PROMPT in text for text in texts(store))
    assert not any(ANSWER in text for text in texts(store))
    assert memory_records.find_memory(store, beside.episode_id) == beside


def test_the_same_words_go_once_nothing_needs_them(
    store: Store, settings: Settings, said: dict[str, str], remember: Keep
) -> None:
    target = remember("The hull is painted", said["answer"], said["prompt"])
    beside = remember("Paint with that colour", said["prompt"])

    forget(store, settings, target)
    forget(store, settings, beside)

    assert words_in(settings.home, PROMPT, ANSWER) == []


def test_a_memory_out_of_force_needs_nothing_but_keeps_its_summary(
    store: Store, settings: Settings, said: dict[str, str], remember: Keep
) -> None:
    target = remember("The hull is painted", said["answer"])
    archived = remember("Something else of old", said["answer"], status=Status.ARCHIVED, facts=(f"{ANSWER} tone",))
    earlier = remember("The hull is painted now", said["answer"], status=Status.ARCHIVED)

    report = forget_memory(store, settings.places, target.episode_id, actor=Actor.USER)

    assert set(report.plan.episode_ids) == {target.episode_id, earlier.episode_id}
    left = memory_records.find_memory(store, archived.episode_id)
    assert left is not None
    assert (left.summary, left.content, left.facts) == (archived.summary, "", ())
    assert words_in(settings.home, ANSWER) == []


def test_with_the_source_whole_turns_go_and_what_rests_on_them(
    store: Store, settings: Settings, said: dict[str, str], remember: Keep
) -> None:
    target = remember("The hull is painted", said["answer"])
    beside = remember("Oil breaks the pump", said["other"])

    report = forget_memory(store, settings.places, target.episode_id, also_source=True, actor=Actor.USER)

    assert set(report.plan.episode_ids) == {target.episode_id, beside.episode_id}
    assert len(report.plan.turn_ids) == 1
    assert words_in(settings.home, PROMPT, ANSWER, OTHER, COMMAND) == []


def test_a_plan_changes_nothing(store: Store, said: dict[str, str], remember: Keep) -> None:
    target = remember("The hull is painted", said["answer"], said["prompt"])
    before = content_digest(store), texts(store)

    plan = plan_forget(store, target.episode_id)

    assert plan.erased == (said["answer"], said["prompt"])
    assert (content_digest(store), texts(store)) == before


# -- nothing brings it back


def model_answer(request: httpx2.Request) -> httpx2.Response:
    """A language model that proposes a memory of everything it is sent."""
    body = json.loads(request.read())
    lines = [line for line in body["messages"][-1]["content"].splitlines() if line.startswith("[e")]
    memories = [
        {
            "kind": "fact",
            "summary": line.split(": ", 1)[1],
            "content": "",
            "entities": [],
            "importance": "normal",
            "scope": "project",
            "evidence": [line[1 : line.index("]")]],
        }
        for line in lines
    ]
    answer = json.dumps({"memories": memories, "rolling_summary": "\n".join(lines)})
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer}}
    return httpx2.Response(
        200,
        json={"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage},
    )


def extractors(store: Store, settings: Settings) -> list[Extractor]:
    asking = OpenAIExtractor(
        settings,
        Budget(store, settings),
        LocalExtractor(),
        api_key="x",
        transport=httpx2.MockTransport(model_answer),
    )
    return [LocalExtractor(), asking]


def extract(store: Store, settings: Settings, extractor: Extractor) -> None:
    plant(store, "UPDATE turn SET revision = revision + 1")
    extract_session(store, SESSION, extractor=extractor, embedder=HashedEmbedder(), settings=settings)


def evidence(store: Store) -> set[str]:
    """Every entry that an automatic memory rests on."""
    return {
        one.uuid
        for memory in memory_records.all_memories(store)
        if memory.source == Source.AUTO
        for one in memory_records.evidence_of(store, memory.id)
    }


def test_an_entry_of_a_forgotten_memory_is_never_evidence_again_for_any_extractor(
    store: Store, settings: Settings, said: dict[str, str], remember: Keep
) -> None:
    target = remember("The hull is painted", said["answer"], said["prompt"])
    beside = remember("Paint with that colour", said["prompt"])
    fresh = {extractor.name for extractor in extractors(store, settings)}
    assert fresh == {"local-4", "openai-1"}
    forget(store, settings, target)

    for extractor in extractors(store, settings):
        extract(store, settings, extractor)

    made = [one for one in memory_records.all_memories(store) if one.episode_id != beside.episode_id]
    assert made
    assert not any(PROMPT in f"{one.summary} {one.content}" for one in made)
    barred = {said["prompt"], said["answer"]}
    assert not [one for one in made if {e.uuid for e in memory_records.evidence_of(store, one.id)} & barred]
    assert memory_records.find_memory(store, beside.episode_id) == beside


def test_without_a_forget_both_extractors_would_rest_on_them(
    store: Store, settings: Settings, said: dict[str, str]
) -> None:
    for extractor in extractors(store, settings):
        extract(store, settings, extractor)

    assert evidence(store) >= {said["prompt"], said["answer"]}


def test_an_extraction_that_is_under_way_writes_nothing_of_it(
    store: Store, settings: Settings, said: dict[str, str], remember: Keep
) -> None:
    target = remember("The hull is painted", said["answer"], said["prompt"])

    class ForgetsMeanwhile(LocalExtractor):
        has_forgotten = False

        def propose(self, *arguments: object) -> list[object]:  # type: ignore[override]
            proposed = super().propose(*arguments)  # type: ignore[arg-type]
            if not self.has_forgotten:
                self.has_forgotten = True
                assert any(said["prompt"] in candidate.evidence for candidate in proposed)
                with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as other:
                    forget(other, settings, target)
            return proposed  # type: ignore[return-value]

    extract_session(store, SESSION, extractor=ForgetsMeanwhile(), embedder=HashedEmbedder(), settings=settings)

    assert not evidence(store) & {said["prompt"], said["answer"]}
    store.checkpoint("TRUNCATE")
    assert words_in(settings.home, PROMPT, ANSWER) == []


def test_a_turn_that_grows_keeps_its_order_and_brings_no_word_back(
    store: Store, settings: Settings, transcript: Path, remember: Keep
) -> None:
    lead = say(transcript, "user", f"Paint the hull {PROMPT}")
    say(transcript, "assistant", "It is done.")
    ingest_path(store, transcript, settings=settings, redact=redact)
    forget(store, settings, remember("The hull is painted", lead))

    say(transcript, "assistant", "The second coat follows.")
    ingest_path(store, transcript, settings=settings, redact=redact)
    say(transcript, "assistant", "The third coat follows.")
    read(store, settings, transcript)

    assert texts(store) == ["It is done.", "The second coat follows.", "The third coat follows."]
    assert words_in(settings.home, PROMPT) == []


def test_a_reading_that_is_under_way_brings_no_word_back(
    store: Store, settings: Settings, transcript: Path, remember: Keep
) -> None:
    lead = say(transcript, "user", f"Paint the hull {PROMPT}")
    answer = say(transcript, "assistant", f"It is {ANSWER} now.")
    ingest_path(store, transcript, settings=settings, redact=redact)
    target = remember("The hull is painted", answer, lead)
    say(transcript, "assistant", "The second coat follows.")
    has_forgotten = False

    def forget_meanwhile(text: str, known: object) -> str:
        nonlocal has_forgotten
        if not has_forgotten:
            has_forgotten = True
            with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as other:
                forget(other, settings, target)
        return redact(text, known)  # type: ignore[arg-type]

    ingest_path(store, transcript, settings=settings, redact=forget_meanwhile, close=True)

    assert has_forgotten
    assert texts(store) == ["The second coat follows."]
    store.checkpoint("TRUNCATE")
    assert words_in(settings.home, PROMPT, ANSWER) == []


def test_reading_everything_again_into_a_new_memory_stores_no_erased_word(
    store: Store, settings: Settings, said: dict[str, str], transcript: Path, remember: Keep, tmp_path: Path
) -> None:
    forget(store, settings, remember("The hull is painted", said["answer"], said["prompt"], said["call"]))
    new_home = tmp_path / "new"

    with open_store(new_home / "memory.db", driver=settings.sqlite_driver) as fresh:
        recover_by_hand(fresh, [settings.places.memory_db], actor=Actor.USER, carry_more=carry_hubs)
        read(fresh, settings, transcript)
        for extractor in extractors(fresh, settings):
            extract(fresh, settings, extractor)
        fresh.checkpoint("TRUNCATE")

        assert any(OTHER in text for text in texts(fresh))
        assert not evidence(fresh) & {said["answer"], said["prompt"], said["call"]}
    assert words_in(new_home, PROMPT, ANSWER, COMMAND) == []


@pytest.mark.parametrize("also_source", [False, True])
def test_tombstones_clean_any_open_memory(
    store: Store, settings: Settings, said: dict[str, str], remember: Keep, tmp_path: Path, *, also_source: bool
) -> None:
    target = remember("The hull is painted", said["answer"], said["prompt"], said["call"])
    beside = remember("Oil breaks the pump", said["other"])
    store.checkpoint("TRUNCATE")
    outside = tmp_path / "outside" / "memory.db"
    outside.parent.mkdir()
    shutil.copyfile(settings.places.memory_db, outside)
    forget(store, settings, target, also_source=also_source)

    with open_store(outside, driver=settings.sqlite_driver) as copy:
        rows = store.rows("SELECT kind, key, at_ms FROM tombstone")
        with copy.transaction() as tx:
            tx.run_many("INSERT OR IGNORE INTO tombstone VALUES (?, ?, ?)", rows)
        with copy.transaction() as tx:
            assert forget_memories.apply_tombstones(tx, actor=Actor.TIDYING) > 0
        forget_memories.wipe_free_space(copy)

        left = [one.episode_id for one in memory_records.all_memories(copy)]
        assert left == ([] if also_source else [beside.episode_id])
        with copy.transaction() as tx:
            assert forget_memories.apply_tombstones(tx, actor=Actor.TIDYING) == 0 or not also_source
        assert copy.find_damage() == ""
    assert words_in(outside.parent, PROMPT, ANSWER, COMMAND) == []


def test_vectors_and_passages_of_erased_words_go_and_those_beside_stay(
    store: Store, settings: Settings, said: dict[str, str], remember: Keep
) -> None:
    target = remember("The hull is painted", said["answer"], said["prompt"])
    while embed_missing(store, HashedEmbedder()):
        pass
    before = store.value("SELECT count(*) FROM passage"), store.value("SELECT count(*) FROM vector")

    forget(store, settings, target)

    passages, vectors = store.value("SELECT count(*) FROM passage"), store.value("SELECT count(*) FROM vector")
    assert (passages, vectors) == (before[0] - 2, before[1] - 3)
    assert store.rows("SELECT rowid FROM passage_fts WHERE passage_fts MATCH ?", (ANSWER,)) == []
    assert np.all([value for (value,) in store.rows("SELECT length(data) FROM vector")])


# -- merged memories


def test_a_memory_that_took_up_another_goes_with_it(
    store: Store, settings: Settings, said: dict[str, str], remember: Keep
) -> None:
    older = remember("The hull is painted", said["prompt"])
    newer = remember(f"The hull shines {ANSWER}", said["answer"])
    context = Context(store, settings, similar=lambda *_: iter([(older.id, newer.id, 0.95)]))
    merge_near_duplicates(context)

    report = forget_memory(store, settings.places, older.episode_id, actor=Actor.USER)

    assert set(report.plan.episode_ids) == {older.episode_id, newer.episode_id}
    assert words_in(settings.home, ANSWER, PROMPT) == []


def test_of_a_memory_that_took_up_the_forgotten_one_the_rest_stays(
    store: Store, settings: Settings, said: dict[str, str], remember: Keep
) -> None:
    older = remember("The hull is painted", said["prompt"])
    newer = remember(f"The hull shines {ANSWER}", said["answer"])
    context = Context(store, settings, similar=lambda *_: iter([(older.id, newer.id, 0.95)]))
    merge_near_duplicates(context)

    report = forget_memory(store, settings.places, newer.episode_id, actor=Actor.USER)

    left = memory_records.find_memory(store, older.episode_id)
    assert left is not None
    assert (left.summary, left.status) == ("The hull is painted", "active")
    assert [one.uuid for one in memory_records.evidence_of(store, left.id)] == [said["prompt"]]
    assert report.plan.episode_ids == (newer.episode_id,)
    assert words_in(settings.home, ANSWER) == []
    assert any(PROMPT in text for text in texts(store))


def test_a_memory_whose_summary_gave_way_to_a_long_one_stays_with_its_own_words(
    store: Store, settings: Settings, said: dict[str, str], remember: Keep
) -> None:
    older = remember("The hull is painted " + "with lead-free paint " * 12, said["prompt"])
    newer = remember(f"The hull shines {ANSWER} " + "in the evening sun " * 15, said["answer"])
    context = Context(store, settings, similar=lambda *_: iter([(older.id, newer.id, 0.95)]))
    merge_near_duplicates(context)
    host = memory_records.find_memory(store, older.episode_id)
    assert host is not None
    assert host.summary == newer.summary

    forget_memory(store, settings.places, newer.episode_id, actor=Actor.USER)

    left = memory_records.find_memory(store, older.episode_id)
    assert left is not None
    assert left.content == older.content
    assert left.summary == left.content
    assert words_in(settings.home, ANSWER) == []


def test_two_that_said_the_same_go_together(
    store: Store, settings: Settings, said: dict[str, str], remember: Keep
) -> None:
    kept = remember(f"The {ANSWER} hull", said["answer"])
    same = remember(f"The {ANSWER} hull", said["prompt"], slot="5" * 32)
    archive_exact_duplicates(Context(store, settings))

    report = forget_memory(store, settings.places, same.episode_id, actor=Actor.USER)

    assert set(report.plan.episode_ids) == {kept.episode_id, same.episode_id}
    assert words_in(settings.home, ANSWER) == []


def quoted(said: dict[str, str], name: str) -> str:
    return quotation_id_of(said[name], 0)


@pytest.mark.parametrize("also_source", [False, True], ids=["words", "turn"])
def test_a_forgotten_quotation_is_nowhere_and_does_not_come_back(
    store: Store, settings: Settings, transcript: Path, said: dict[str, str], also_source: bool
) -> None:
    name = quoted(said, "answer")
    log_session(store, settings.places, SESSION)
    index_notes(store, settings, redact)
    settings.places.backups.mkdir(mode=0o700)
    judge_quotation(store, name, Judgement.HELPFUL, f"{ANSWER} is what I looked for", redact, actor=Actor.USER)
    (settings.places.recollections / "s9.pending").write_text(f"[{name}] 2026-11-05: the tone", encoding="utf-8")
    store.checkpoint("TRUNCATE")
    for path in (settings.places.backups / "memory-2026-11-05.db", settings.home / "memory.replaced.db"):
        shutil.copyfile(settings.places.memory_db, path)

    report = forget_memory(store, settings.places, name, also_source=also_source, actor=Actor.USER)
    index_notes(store, settings, redact)
    store.checkpoint("TRUNCATE")

    assert words_in(settings.home, ANSWER, name) == []
    assert bool(words_in(settings.home, PROMPT)) is not also_source
    plan = report.plan
    assert (plan.episode_ids, len(plan.turn_ids), len(plan.cut_entries)) == ((), int(also_source), int(not also_source))
    read(store, settings, transcript)
    extract_session(store, SESSION, extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=settings)
    store.checkpoint("TRUNCATE")
    assert words_in(settings.home, ANSWER) == []
    with pytest.raises(NotFound):
        plan_forget(store, name)


def test_what_was_made_of_a_forgotten_quotation_goes_and_what_a_person_kept_is_named(
    store: Store, settings: Settings, said: dict[str, str], remember: Keep
) -> None:
    alone = remember("The hull is painted", said["answer"])
    repeated = remember(f"The hull is painted in the {ANSWER} tone since it lasts", said["answer"], said["prompt"])
    other = remember("Paint is bought in Lisbon", said["answer"], said["prompt"])
    pinned = remember("The tone was agreed", said["answer"], is_pinned=True)

    report = forget_memory(store, settings.places, quoted(said, "answer"), actor=Actor.USER)

    assert set(report.plan.episode_ids) == {alone.episode_id, repeated.episode_id}
    assert {memory.episode_id for memory in report.plan.staying} == {other.episode_id, pinned.episode_id}
    assert pinned.episode_id in report.describe()
    left = memory_records.find_memory(store, pinned.episode_id)
    assert left is not None
    assert left.content == ""
    store.checkpoint("TRUNCATE")
    assert words_in(settings.home, ANSWER) == []


# -- a whole session


def test_an_id_of_a_session_that_is_a_word_takes_no_line_that_says_it(
    store: Store, settings: Settings, transcript: Path
) -> None:
    copied = transcript.with_name("short.jsonl")
    say(copied, "user", "Is the harbour deep?")
    say(copied, "assistant", "The harbour is nine metres deep.")
    read(store, settings, copied)
    settings.places.daily_notes.mkdir(mode=0o700, parents=True, exist_ok=True)
    note = settings.places.daily_notes / "2026-02-15.md"
    note.write_text("- where is the short line filtering?\n")

    forget_memory(store, settings.places, "short", actor=Actor.USER)

    assert note.read_text() == "- where is the short line filtering?\n"


def test_the_same_words_in_the_log_of_another_session_stay(store: Store, settings: Settings, transcript: Path) -> None:
    said = "Implement the following plan: oil the crane"
    for session in ("5f0e4e0e-5d62-4ae0-9e42-0000000000a1", "5f0e4e0e-5d62-4ae0-9e42-0000000000a2"):
        path = transcript.with_name(f"{session}.jsonl")
        say(path, "user", said)
        say(path, "assistant", "The crane is oiled, and the log says so.")
        read(store, settings, path)
        log_session(store, settings.places, session)
    logs = list(settings.places.daily_notes.glob("*.md"))
    assert sum(log.read_text().count(said) for log in logs) == 2

    forget_memory(store, settings.places, "5f0e4e0e-5d62-4ae0-9e42-0000000000a1", actor=Actor.USER)

    assert sum(log.read_text().count(said) for log in logs if log.exists()) == 1


def test_a_session_goes_whole_and_never_comes_back(
    store: Store, settings: Settings, transcript: Path, said: dict[str, str], remember: Keep
) -> None:
    with transcript.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"type": "ai-title", "aiTitle": f"Paint it {PROMPT}", "sessionId": SESSION}) + "\n")
    read(store, settings, transcript)
    remember("The hull is painted", said["answer"], said["prompt"], said["call"])
    saved = remember("Saved in it: the mast", said["brown"], source=Source.MANUAL, is_pinned=True)
    other = transcript.with_name(f"{SESSION[:-1]}e.jsonl")
    say(other, "user", "Is the harbour deep?")
    say(other, "assistant", "The harbour is nine metres deep.")
    read(store, settings, other)
    with store.transaction() as tx:
        add_injections(tx, [Injection(SESSION, "p", "prompt", saved.episode_id, 0.5, 9, "shown")])
    log_session(store, settings.places, SESSION)
    (settings.places.recollections / f"{SESSION}.pending").write_text(f"{PROMPT}")
    settings.places.backups.mkdir(mode=0o700)
    store.checkpoint("TRUNCATE")
    backup = settings.places.backups / "memory-2026-11-05.db"
    shutil.copyfile(settings.places.memory_db, backup)
    words = (PROMPT, ANSWER, OTHER, COMMAND, "mast", "hull")
    preview = preview_forget(store, settings.places, SESSION)

    report = forget_memory(store, settings.places, SESSION, actor=Actor.USER)
    store.checkpoint("TRUNCATE")

    assert report.plan.title == preview.plan.title == f"Paint it {PROMPT}"
    assert (len(report.plan.turn_ids), len(report.plan.episode_ids)) == (3, 2)
    assert (len(preview.turns), len(preview.plan.memories)) == (3, 2)
    assert words_in(settings.home, *words) == []
    ingest_path(store, transcript, settings=settings, redact=redact, close=True)
    with store.transaction() as tx:
        tx.run("UPDATE transcript SET cursor = '', stamp = '', generation = generation + 1")
    read(store, settings, transcript)
    read(store, settings, other)
    recover_by_hand(store, [backup], actor=Actor.USER, carry_more=carry_hubs)
    store.checkpoint("TRUNCATE")
    assert words_in(settings.home, *words) == []
    assert any("nine metres" in text for text in texts(store))

    say(transcript, "user", "And the rudder?")
    say(transcript, "assistant", "The rudder is steel.")
    read(store, settings, transcript)
    assert texts(store)[-2:] == ["And the rudder?", "The rudder is steel."]
    assert store.find_damage() == ""
