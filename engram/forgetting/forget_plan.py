"""What forgetting deletes, planned and shown: a memory with words that no other needs, a message, or a session."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.enums import Source, Status
from engram.errors import NotFound
from engram.forgetting.forget_files import (
    clean_exports,
    clean_lines,
    clean_recollections,
    copies_of_memory,
    cut_daily_log,
    foreign_files_with,
    line_beginnings,
    plain_line,
)
from engram.models.engine.transaction import Store
from engram.models.forgetting import forget_memories
from engram.models.forgetting.erase_entries import memories_resting_on_source, source_texts, sources_of, turn_of_source
from engram.models.memories import memory_history, memory_records
from engram.models.memories.judgements import is_kept_by_hand
from engram.models.memories.memory_changes import predecessors_of
from engram.models.memories.memory_records import MAX_CONTENT_CHARACTERS, MAX_SUMMARY_CHARACTERS, Memory
from engram.models.memories.tombstones import CutMemory, Forgotten
from engram.models.sessions.passage_rows import (
    EvidencePlace,
    Quotation,
    find_quotation,
    is_quotation_id,
    places_of,
    quotation_prefix,
)
from engram.models.sessions.sessions import SessionRow, find_session, session_titles
from engram.models.sessions.stored_turns import StoredTurn, load_turn_row, turns_of_session
from engram.paths import Home
from engram.system.clock import day_of, iso_or_none
from engram.system.lazy_regex import lazy_regex
from engram.text.splitting import sentence_texts
from engram.text.words import words_of
from engram.trust.display import cut_at_word, number_of

# -- Merge the texts of two near-identical memories. Pure functions.

SUMMARY_JOINT = " | "
CONTENT_JOINT = "\n\n---\n\n"
#: An id that can't be confused with a word, because it is long and contains digits.
_UNMISTAKABLE = lazy_regex(r"(?=.*\d)\S{16,}")


def comparable(text: str) -> str:
    """Return a text for comparison: in lower case, without outer punctuation, and with single spaces."""
    return " ".join(text.lower().split()).strip(" .!;:")


def merged_summary(older: str, newer: str) -> str:
    """Join two summaries; return only one of them if they say the same thing or are too long together."""
    if comparable(newer) in comparable(older):
        return older
    if comparable(older) in comparable(newer):
        return newer
    joined = older + SUMMARY_JOINT + newer
    return joined if len(joined) <= MAX_SUMMARY_CHARACTERS else newer


def merged_content(older: str, newer: str) -> str:
    """Join two contents; if they are too long together, drop the oldest parts, which are kept in their own memories."""
    if newer.strip() in older:
        return older
    if older.strip() in newer:
        return newer
    parts = [*older.split(CONTENT_JOINT), newer]
    while len(parts) > 1 and len(CONTENT_JOINT.join(parts)) > MAX_CONTENT_CHARACTERS:
        del parts[0]
    return CONTENT_JOINT.join(parts)


#: Maximum length of the description of a forgotten quotation, in characters.
MAX_TITLE_CHARACTERS = 120
#: A memory that repeats a sentence of a message is forgotten with the message if the sentence has at least this many
#: words.
MIN_SENTENCE_WORDS = 3
#: Minimum share of the shorter summary's words that two summaries have in common for an archived memory to count as an
#: earlier version.
MIN_SAME_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class NeededEntry:
    """An entry that is kept because another memory also rests on it."""

    #: Id of the entry, or the key of its turn for a queued prompt.
    entry: str
    #: The memories that need it.
    needed_by: tuple[Memory, ...]
    #: Title of its session and day, for display; "" if its turn is no longer stored.
    said_in: str = ""


@dataclass(frozen=True, slots=True)
class ForgetPlan:
    #: The given memory with its earlier and merged versions and, with ``also_source``, all memories that rest on its
    #: turns.
    memories: tuple[Memory, ...]
    #: Memories that become current again, because the memory that replaced them is deleted.
    restored: tuple[Memory, ...]
    #: Row ids of turns that are deleted completely; only with ``also_source``, or for a session.
    turn_ids: tuple[int, ...] = ()
    #: Entries whose words are deleted while their turns are kept.
    erased: tuple[str, ...] = ()
    #: Entries on which the memories rest; they must not become evidence for new automatic memories.
    barred: tuple[str, ...] = ()
    #: Entries that are kept, with the memories that need them.
    needed: tuple[NeededEntry, ...] = ()
    #: The remaining text of the memory into which the given one was merged.
    cut: CutMemory | None = None
    #: The quotation that was given instead of a memory.
    quotation: Quotation | None = None
    #: The session that was given instead. Its turns are deleted with every memory that rests on them.
    session_id: str = ""
    #: Title of that session.
    session_title: str = ""
    #: Memories that rest on the quotation but are kept, because they also rest on other words or were kept by hand.
    staying: tuple[Memory, ...] = ()

    @property
    def title(self) -> str:
        """The target, for display: the text of a quotation, the title of a session, or the summary of a memory."""
        if self.session_id:
            return self.session_title or self.session_id
        if self.quotation is not None:
            return cut_at_word(" ".join(self.quotation.text.split()), MAX_TITLE_CHARACTERS)
        return self.memories[0].summary

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which a text may mention it: ids of memories and sessions, and prefixes of quotation ids.

        A session id that could be an ordinary word, such as the name of a copied file, is left out.
        """
        quoted = () if self.quotation is None else (quotation_prefix(self.quotation.source),)
        named = [self.session_id] if _UNMISTAKABLE.search(self.session_id) else []
        return (*self.episode_ids, *quoted, *named)

    @property
    def episode_ids(self) -> tuple[str, ...]:
        return tuple(memory.episode_id for memory in self.memories)

    @property
    def cut_entries(self) -> tuple[str, ...]:
        """The entries with words that are deleted while their turns are kept; none if entire turns are deleted."""
        return () if self.turn_ids else self.erased

    def account(self, *, files: int, backups: int, is_done: bool) -> str:
        """Describe how much is deleted, in the same words before and after the deletion.

        Args:
            files: number of files in the memory folder that change.
            backups: number of backups and set-aside databases that are searched.
        """
        gone = [number_of(len(self.memories), "memory")] if self.memories else []
        gone += [number_of(len(self.turn_ids), "whole turn")] if self.turn_ids else []
        gone += [f"the words of {number_of(len(self.cut_entries), 'message')}"] if self.cut_entries else []
        changed = "changed" if is_done else "changes" if files == 1 else "change"
        searched = "searched" if is_done else "is searched" if backups == 1 else "are searched"
        also = [f"{number_of(files, 'file')} {changed}"] if files else []
        also += [f"{number_of(backups, 'backup')} {searched}"] if backups else []
        return "; ".join(filter(None, [", ".join(gone), ", ".join(also)]))

    def needed_to_json(self) -> list[dict[str, Any]]:
        return [{"entry": kept.entry, "by": [memory.episode_id for memory in kept.needed_by]} for kept in self.needed]

    def forgotten(self, store: Store) -> Forgotten:
        """Return the plan in the form that applies to every copy of the database."""
        return Forgotten(
            episode_ids=self.episode_ids,
            turn_keys=tuple(forget_memories.turn_keys(store, self.turn_ids)),
            erased=self.erased,
            barred=self.barred,
            cut=self.cut,
            session_ids=(self.session_id,) if self.session_id else (),
        )


def said_in(store: Store, source: str) -> str:
    """Return the title of an entry's session and the day, for display; "" if its turn is not stored."""
    turn_id = turn_of_source(store, source)
    stored = None if turn_id is None else load_turn_row(store, turn_id)
    session = None if stored is None else find_session(store, stored.turn.session_id)
    if stored is None or session is None:
        return ""
    title = session_titles(store, [session]).get(session.session_id, "") or session.session_id
    return f"“{title}”" + (f", {day_of(stored.turn.started_at_ms)}" if stored.turn.started_at_ms else "")


def plan_forget(store: Store, episode_id: str, *, also_source: bool = False) -> ForgetPlan:
    """Plan to forget a memory, a quotation with its entire message, or a session with all its turns.

    Args:
        episode_id: the memory or quotation, or the agent's id of the session.
        also_source: also delete the entire turns that it rests on, and every memory that rests on them.

    Raises:
        NotFound: there is nothing with this id.
    """
    if is_quotation_id(episode_id):
        return _plan_quotation(store, episode_id, also_source=also_source)
    if (session := find_session(store, episode_id)) is not None:
        return _plan_session(store, session)
    target = memory_records.find_memory(store, episode_id)
    if target is None:
        raise NotFound(
            f"there is no memory or session {episode_id[:40]!r}; recall and timeline print the ids of memories, "
            "sessions those of sessions"
        )
    host = _host_of(store, target)
    cut = None if host is None else _without(host, target)
    cluster = {target.id: target}
    if host is not None and cut is None:
        cluster[host.id] = host
        host = None
    turn_ids: list[int] = []
    if also_source:
        turn_ids = forget_memories.turn_ids_of(store, target)
        cluster |= {memory.id: memory for memory in forget_memories.memories_resting_on(store, turn_ids)}
    cluster = _with_versions(store, cluster.values())
    restored = _restored(store, list(cluster.values()))
    barred = list(dict.fromkeys(source for memory in cluster.values() for source in sources_of(store, memory)))
    needed = _needed(store, barred, cluster, {memory.id for memory in restored}, host, target)
    stays = {entry.entry for entry in needed}
    return ForgetPlan(
        memories=tuple(cluster.values()),
        turn_ids=tuple(turn_ids),
        erased=tuple(source for source in barred if source not in stays),
        barred=tuple(barred),
        needed=tuple(needed),
        restored=tuple(restored),
        cut=cut,
    )


def _plan_quotation(store: Store, quotation_id: str, *, also_source: bool) -> ForgetPlan:
    """Plan to forget a quotation's message, with the memories that rest only on it or repeat a sentence of it."""
    quotation = find_quotation(store, quotation_id)
    if quotation is None:
        raise NotFound(f"there is no quotation {quotation_id[:40]!r}; recall and timeline print the ids that exist")
    turn_ids = [quotation.stored.id] if also_source else []
    resting = memories_resting_on_source(store, quotation.source)
    going = forget_memories.memories_resting_on(store, turn_ids) if also_source else []
    going += [memory for memory in resting if _is_forgotten_with(store, memory, quotation)]
    cluster = _with_versions(store, going)
    barred = [quotation.source, *(source for memory in cluster.values() for source in sources_of(store, memory))]
    return ForgetPlan(
        memories=tuple(cluster.values()),
        turn_ids=tuple(turn_ids),
        erased=(quotation.source,),
        barred=tuple(dict.fromkeys(barred)),
        restored=tuple(_restored(store, list(cluster.values()))),
        quotation=quotation,
        staying=tuple(memory for memory in resting if memory.id not in cluster and memory.is_current),
    )


def _plan_session(store: Store, session: SessionRow) -> ForgetPlan:
    """Plan to forget the turns of a session, every memory that rests on them, and the memories saved in it."""
    turn_ids = [stored.id for stored in turns_of_session(store, session.id)]
    made_here = memory_records.memories_of_session(store, session.session_id)
    resting = forget_memories.memories_resting_on(store, turn_ids)
    cluster = _with_versions(store, [*resting, *made_here])
    return ForgetPlan(
        memories=tuple(cluster.values()),
        turn_ids=tuple(turn_ids),
        restored=tuple(_restored(store, list(cluster.values()))),
        session_id=session.session_id,
        session_title=session_titles(store, [session]).get(session.session_id, ""),
    )


def _is_forgotten_with(store: Store, memory: Memory, quotation: Quotation) -> bool:
    """Return True for an automatic memory that rests only on the quotation's message or repeats a sentence of it."""
    if memory.source != Source.AUTO or is_kept_by_hand(memory):
        return False
    texts = source_texts(store, [quotation.source])
    said = [sentence for text in texts for sentence in sentence_texts(text)]
    return set(sources_of(store, memory)) <= {quotation.source} or any(
        _says_same(memory.summary, text) for text in said if len(words_of(text)) >= MIN_SENTENCE_WORDS
    )


def _with_versions(store: Store, memories: Iterable[Memory]) -> dict[int, Memory]:
    """Return row id → memory, for memories and their archived versions."""
    cluster = {memory.id: memory for memory in memories}
    for memory in list(cluster.values()):
        cluster |= {version.id: version for version in _versions_of(store, memory)}
    return cluster


def _versions_of(store: Store, memory: Memory) -> list[Memory]:
    """Return the archived versions of a memory.

    These are the memories merged into it, former replacements that were undone, and similar ones from the same entries.
    """
    versions: dict[int, Memory] = {}
    todo = [memory]
    while todo:
        version = todo.pop()
        merged = [
            other
            for other in (
                *memory_records.memories_superseded_by(store, version.episode_id),
                *_undone_successors(store, version),
            )
            if other.status == Status.ARCHIVED and other.id not in versions
        ]
        versions |= {other.id: other for other in merged}
        todo += merged
    for source in sources_of(store, memory):
        for other in memories_resting_on_source(store, source):
            is_automatic = other.status == Status.ARCHIVED and other.source == Source.AUTO
            if is_automatic and _says_same(other.summary, memory.summary):
                versions[other.id] = other
    versions.pop(memory.id, None)
    return list(versions.values())


def _undone_successors(store: Store, memory: Memory) -> list[Memory]:
    """Return the memories that were made to replace a memory, such as corrections, but no longer do."""
    steps = [step for step in memory_history.history_of(store, memory.episode_id) if step.after.get("superseded_by")]
    successors = []
    for step in steps:
        other = memory_records.find_memory(store, str(step.after["superseded_by"]))
        if other is not None and other.episode_id != memory.superseded_by:
            made = next(iter(memory_history.history_of(store, other.episode_id)), None)
            if made is not None and made.run_id is not None and made.run_id == step.run_id:
                successors.append(other)
    return successors


def _says_same(first: str, second: str) -> bool:
    words, others = words_of(first), words_of(second)
    return len(words & others) >= MIN_SAME_SHARE * max(1, min(len(words), len(others)))


def _restored(store: Store, cluster: Sequence[Memory]) -> list[Memory]:
    """Return the memories that become current again, because only deleted memories had replaced them."""
    going = {memory.episode_id for memory in cluster}
    restored: dict[int, Memory] = {}
    for memory in cluster:
        # Imported memories may replace each other in a circle.
        last, seen = memory, {"", memory.episode_id}
        while last.episode_id in going and last.superseded_by not in seen:
            seen.add(last.superseded_by)
            last = memory_records.find_memory(store, last.superseded_by) or last
        if last.episode_id in going:
            predecessors = predecessors_of(store, memory)
            restored |= {memory.id: memory for memory in predecessors if memory.episode_id not in going}
    return list(restored.values())


def _needed(
    store: Store,
    sources: Iterable[str],
    going: dict[int, Memory],
    restored: set[int],
    host: Memory | None,
    target: Memory,
) -> list[NeededEntry]:
    """Return the entries that are kept because a memory that remains current needs them."""
    from_target = set() if host is None else _given_to_host(store, host, target)
    needed = []
    for source in sources:
        needed_by = [
            memory
            for memory in memories_resting_on_source(store, source)
            if memory.id not in going
            and (memory.is_current or memory.id in restored)
            and not (host is not None and memory.id == host.id and source in from_target)
        ]
        if needed_by:
            needed.append(NeededEntry(source, tuple(needed_by), said_in(store, source)))
    return needed


def _host_of(store: Store, target: Memory) -> Memory | None:
    """Return the current memory into which ``target`` was merged, if any."""
    host = memory_records.find_memory(store, target.superseded_by) if target.superseded_by else None
    return None if host is None or target.status != Status.ARCHIVED or not host.is_current else host


def _without(host: Memory, target: Memory) -> CutMemory | None:
    """Return the host's text without the words of ``target``; None if nothing is left."""
    own = [part for part in host.summary.split(SUMMARY_JOINT) if comparable(part) not in comparable(target.summary)]
    content = [part for part in host.content.split(CONTENT_JOINT) if part.strip() not in target.content]
    rest = CONTENT_JOINT.join(content)
    # The host's own summary may have given way to the target's, because both together were too long.
    summary = SUMMARY_JOINT.join(own) or cut_at_word(" ".join(rest.split()), MAX_SUMMARY_CHARACTERS)
    left = CutMemory(host.episode_id, summary, rest, ())
    words = f"{left.summary}\n{left.content}".lower()
    entities = tuple(name for name in host.entities if name not in target.entities or name.lower() in words)
    return dataclasses.replace(left, entities=entities) if left.summary else None


def _given_to_host(store: Store, host: Memory, target: Memory) -> set[str]:
    """Return the entries that ``host`` got when ``target`` was merged into it."""
    evidence = [entry.uuid for entry in memory_records.evidence_of(store, host.id)]
    own: set[str] = set()
    for change in memory_history.history_of(store, host.episode_id):
        if change.action == "evidence" and target.episode_id in change.reason:
            own = set(evidence[: int(change.before["count"])])
            return set(sources_of(store, target)) - own
    return set()


# -- The preview: exactly what forgetting a memory would delete, with the files.


@dataclass(frozen=True, slots=True)
class ForgottenFiles:
    """What a plan removes from the memory folder's files."""

    forgotten: Forgotten
    #: Sessions with sections of the daily log that are rewritten.
    sessions: tuple[str, ...]
    #: Beginnings of the forgotten lines.
    beginnings: tuple[str, ...]
    #: Ids of the memories, and prefixes of quotation ids.
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, store: Store, plan: ForgetPlan) -> ForgottenFiles:
        """Collect the texts to search for in files. Call this before the rows are deleted."""
        texts = [text for memory in plan.memories for text in (memory.summary, memory.content, *memory.facts)]
        texts += [*source_texts(store, plan.erased), *forget_memories.turn_texts(store, plan.turn_ids)]
        beginnings = tuple(line_beginnings(texts))
        return cls(plan.forgotten(store), _sessions(store, plan), beginnings, plan.names)

    @property
    def is_kept(self) -> Callable[[str], bool]:
        """A filter that returns True for a line that neither mentions nor repeats any of the memories."""
        return _line_filter(self.names, self.beginnings)

    def clean(self, places: Home, *, is_dry: bool = False) -> tuple[list[str], list[Path]]:
        """Remove everything from recollections, exports and notes; return the names of changed files and the notes.

        With ``is_dry``, nothing is changed; the return value is the same.
        """
        changed = [self.forgotten.cut.episode_id] if self.forgotten.cut else []
        ids = self.forgotten.episode_ids
        is_kept = _line_filter([*self.names, *changed], self.beginnings)
        cleaned = clean_recollections(places, is_kept, self.forgotten.session_ids, is_dry=is_dry)
        cleaned += clean_exports(places, ids, self.forgotten, self.is_kept, is_dry=is_dry)
        notes = [
            *cut_daily_log(places, self.sessions, is_dry=is_dry),
            *clean_lines(places, self.is_kept, _line_filter(self.names, ()), is_dry=is_dry),
        ]
        return cleaned, list(dict.fromkeys(notes))


@dataclass(frozen=True, slots=True)
class ErasedEntry:
    """An entry with words that are deleted while its turn is kept."""

    place: EvidencePlace
    #: Its stored texts, including facts about tool calls.
    texts: tuple[str, ...]
    #: Title of its session and day, for display.
    said_in: str = ""


@dataclass(frozen=True, slots=True)
class ForgetPreview:
    """Exactly what forgetting would delete, and what it would keep."""

    plan: ForgetPlan
    #: Empty if entire turns are deleted.
    entries: tuple[ErasedEntry, ...]
    #: Turns that are deleted completely; only with the source.
    turns: tuple[StoredTurn, ...]
    #: Names of the files in the memory folder that are removed or rewritten.
    files: tuple[str, ...]
    #: Backups and set-aside databases that are searched.
    backups: int
    #: Names of other programs' databases in the memory folder that contain its words and will keep them.
    foreign: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "memories": [
                {"id": memory.episode_id, "summary": memory.summary, "status": memory.status}
                for memory in plan.memories
            ],
            "entries": [
                {
                    "entry": entry.place.uuid,
                    "session": entry.place.session_id,
                    "path": entry.place.path,
                    "line": entry.place.line,
                    "texts": list(entry.texts),
                }
                for entry in self.entries
            ],
            "turns": [
                {
                    "session": stored.turn.session_id,
                    "at": iso_or_none(stored.turn.started_at_ms),
                    "prompt": stored.turn.prompt,
                }
                for stored in self.turns
            ],
            "changed": None if plan.cut is None else {"id": plan.cut.episode_id, "summary": plan.cut.summary},
            "needed": plan.needed_to_json(),
            "restored": [memory.episode_id for memory in plan.restored],
            "quotation": None if plan.quotation is None else plan.quotation.quotation_id,
            "staying": [memory.episode_id for memory in plan.staying],
            "files": list(self.files),
            "backups": self.backups,
            "foreign": list(self.foreign),
        }

    def account(self) -> str:
        """Describe how much would be deleted, in the same words as the later report."""
        return self.plan.account(files=len(self.files), backups=self.backups, is_done=False)


def preview_forget(store: Store, places: Home, episode_id: str, *, also_source: bool = False) -> ForgetPreview:
    """Return what ``forget_memory`` would do now, from the same plan. Raises NotFound if nothing has this id."""
    plan = plan_forget(store, episode_id, also_source=also_source)
    files = ForgottenFiles.of(store, plan)
    cleaned, notes = files.clean(places, is_dry=True)
    return ForgetPreview(
        plan=plan,
        entries=tuple(
            ErasedEntry(place, tuple(source_texts(store, [place.uuid])), said_in(store, place.uuid))
            for place in places_of(store, plan.cut_entries)
        ),
        turns=tuple(stored for turn_id in plan.turn_ids if (stored := load_turn_row(store, turn_id)) is not None),
        files=(*cleaned, *(path.name for path in notes)),
        backups=len(copies_of_memory(places, store.driver)),
        foreign=tuple(foreign_files_with(places, store.driver, files.beginnings)),
    )


def _sessions(store: Store, plan: ForgetPlan) -> tuple[str, ...]:
    """Return the sessions with sections of the daily log that are rewritten."""
    of_entries = [turn_id for source in plan.erased if (turn_id := turn_of_source(store, source)) is not None]
    of_memories = [memory.session_id for memory in plan.memories if memory.session_id]
    of_turns = forget_memories.sessions_of_turns(store, [*plan.turn_ids, *of_entries])
    return tuple(dict.fromkeys([*of_turns, *of_memories]))


def _line_filter(episode_ids: Sequence[str], beginnings: Sequence[str]) -> Callable[[str], bool]:
    def is_kept(line: str) -> bool:
        words = plain_line(line)
        return not any(episode_id in line for episode_id in episode_ids) and not any(
            text in words for text in beginnings
        )

    return is_kept
