"""Read a portion of a source: parse it, decide what may be stored, and write that together with the cursor."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engram.errors import TranscriptError
from engram.ingest.copied_turns import ends_of, originals_of
from engram.ingest.redact_turns import Cleaner, Redact
from engram.ingest.session_project import (
    TurnPlaces,
    needs_project,
    pauses_for,
    places_of,
    project_of_session,
    spans_of,
    why_not_project,
)
from engram.ingest.write_portion import IngestResult, Portion, write_portion
from engram.models.engine.transaction import Store
from engram.models.forgetting.erase_project import drop_unsettled_turns, is_within
from engram.models.memories.tombstones import (
    are_words_forgotten,
    barred_entries,
    erased_entries,
    forgotten_words,
    said_key,
)
from engram.models.projects.projects import find_project_of_identity
from engram.models.sessions.reading_progress import (
    Progress,
    TurnsInStore,
    drop_unreadable,
    ensure_transcript,
    load_progress,
    move_cursor,
    note_unchanged,
    read_parts_from_beginning,
)
from engram.models.sessions.sessions import SessionRow, find_session, known_values, salt, sessions_of_entries
from engram.models.sessions.stored_turns import load_turn
from engram.models.sessions.turn_changes import forget_places
from engram.models.work.work import Span
from engram.settings import Settings
from engram.system.clock import SYSTEM_CLOCK
from engram.system.failpoint import reach
from engram.transcripts.agents import EntryTime, PullRequest, Reading, Source, Title
from engram.transcripts.project import Project, is_excluded
from engram.transcripts.registry import agent_of
from engram.transcripts.turns import Action, Role, TextBlock, Turn, TurnUpdate, without_entries
from engram.vaults import is_excluded_by_vault, own_vault, vault_of_folder

# -- Omit forgotten words, so that they are never stored again. Pure.


def without_erased(updates: Iterable[TurnUpdate], erased: Collection[str]) -> tuple[TurnUpdate, ...]:
    """Return the turns without the words of erased entries, which are their texts and the facts about their tool calls.

    Args:
        erased: ids of entries, and keys of turns for which a prompt without an entry was erased.
    """
    if not erased:
        return tuple(updates)
    return tuple(replace(update, turn=without_entries(update.turn, erased)) for update in updates)


def keys_of_new_words(update: TurnUpdate) -> Iterator[tuple[bytes, str]]:
    """Yield, for each new text and command of a redacted turn, a key independent of ids, and the id of its entry."""
    turn = update.turn
    for block in turn.said[update.said_before :]:
        if block.at_ms:
            yield said_key(block.at_ms, block.text), block.uuid or turn.key
    for action in turn.actions[update.actions_before :]:
        if action.at_ms and action.command:
            yield said_key(action.at_ms, action.command), action.uuid


# -- Compare the complete turns that a reader returned with the stored turns, after removing what does not belong to
# them.
#
# The reader of a database, or of a source that is rewritten, need not know what is stored. At every read, it returns
# each turn in its present form. This section turns it into a new turn, an extended one, a replacement, or nothing.


def keep_own_entries(stored_turns: TurnsInStore, updates: Iterable[TurnUpdate]) -> tuple[TurnUpdate, ...]:
    """Return the updates without forgotten turns, forgotten entries, or entries that belong to another turn.

    An entry belongs to only one turn across all sources, so copies of a session count once. Only complete turns are
    changed.
    """
    kept = []
    taken: set[str] = set()
    for update in updates:
        if update.is_whole:
            turn = _own_part(stored_turns, update.turn, taken)
            if turn is None:
                continue
            taken.update(entry.uuid for entry in turn.entries)
            update = replace(update, turn=turn)
        kept.append(update)
    return tuple(kept)


def _own_part(stored_turns: TurnsInStore, turn: Turn, taken: set[str]) -> Turn | None:
    """Return the part of a turn that may be stored under its key; None if there is none."""
    stored = stored_turns.load(turn.key)
    if stored is None and stored_turns.is_known(turn.key):
        return None
    if stored is not None and stored.session_id != turn.session_id:
        return None
    uuids = {entry.uuid for entry in turn.entries}
    own = {entry.uuid for entry in stored.entries} if stored is not None else set()
    others = stored_turns.known_entries(sorted(uuids - own)) | (uuids & taken)
    if not others:
        return turn
    left = replace(
        without_entries(turn, others), entries=tuple(entry for entry in turn.entries if entry.uuid not in others)
    )
    return left if left.said or left.actions or left.entries else None


def compare_with_stored(store: Store, updates: Iterable[TurnUpdate]) -> tuple[TurnUpdate, ...]:
    """Return the updates, with complete turns (already redacted) reduced to the parts that must be written."""
    compared = (_compare(store, update) if update.is_whole else update for update in updates)
    return tuple(update for update in compared if update is not None)


def _compare(store: Store, update: TurnUpdate) -> TurnUpdate | None:
    turn = update.turn
    stored = load_turn(store, turn.key)
    if stored is None:
        return update
    before = stored.turn
    entries = {entry.uuid for entry in turn.entries}
    entries_before = {entry.uuid for entry in before.entries}
    same_actions = _count_same_actions(before.actions, turn.actions)
    is_longer = (
        _words(turn.said[: len(before.said)]) == _words(before.said)
        and entries_before <= entries
        and same_actions == len(before.actions)
    )
    is_same = (
        is_longer
        and len(turn.said) == len(before.said)
        and entries == entries_before
        and tuple(map(_as_stored, turn.actions)) == before.actions
        and _facts(turn) == _facts(before)
    )
    if is_same:
        is_closed_now = turn.is_closed and not before.is_closed
        return replace(update, is_new=False, has_grown=False) if is_closed_now else None
    return replace(
        update,
        said_before=len(before.said) if is_longer else 0,
        entries_before=len(entries & entries_before),
        actions_before=same_actions,
        is_new=False,
        is_replaced=not is_longer,
    )


def _words(said: Iterable[TextBlock]) -> list[tuple[str, str, str, str]]:
    """Return the properties by which texts are compared, without positions, which may differ in a rewritten source."""
    return [(block.uuid, block.role.value, block.text, block.message_id) for block in said]


def _facts(turn: Turn) -> tuple[object, ...]:
    return turn.opening, turn.is_interrupted, turn.extra


def _count_same_actions(before: tuple[Action, ...], now: tuple[Action, ...]) -> int:
    """Return how many tool calls at the beginning match the stored ones; a result may have been added."""
    count = 0
    for stored, action in zip(before, now, strict=False):
        is_same = _as_stored(action) == stored or (
            not stored.result_uuid and (stored.uuid, stored.tool) == (action.uuid, action.tool)
        )
        if not is_same:
            break
        count += 1
    return count


def _as_stored(action: Action) -> Action:
    """Return the action in its stored form: once its result has arrived, without the id used to find the result."""
    return action._replace(tool_use_id="") if action.result_uuid else action


# -- Omit everything that was said while the user had paused Engram. Pure.


def without_paused(
    updates: Iterable[TurnUpdate], entries: Iterable[EntryTime], pauses: Sequence[Span]
) -> tuple[TurnUpdate, ...]:
    """Return the turns without anything said or done during a pause.

    A turn that began during a pause is omitted entirely. Parts without a time are judged by their turn. Parts that were
    stored earlier are kept, because they were said before the pause.

    Args:
        entries: the entries of this read, which contain the times of tool calls.
        pauses: the pauses of the session's project, and global ones.
    """
    if not pauses:
        return tuple(updates)
    times = {entry.uuid: entry.at_ms for entry in entries if entry.uuid}
    begun_outside = (update for update in updates if not is_within(update.turn.started_at_ms, pauses))
    return tuple(rest for update in begun_outside if (rest := _cut(update, times, pauses)) is not None)


def _cut(update: TurnUpdate, times: Mapping[str, int | None], pauses: Sequence[Span]) -> TurnUpdate | None:
    """Return the turn without anything said during a pause; None if nothing is left of a new turn."""
    turn = update.turn
    said = [
        block
        for number, block in enumerate(turn.said)
        if number < update.said_before or not is_within(block.at_ms, pauses)
    ]
    actions = [
        action if number < update.actions_before else _without_result(action, times, pauses)
        for number, action in enumerate(turn.actions)
        if number < update.actions_before or not is_within(times.get(action.uuid), pauses)
    ]
    if len(said) == len(turn.said) and actions == list(turn.actions):
        return update
    if update.is_new and not (said or actions):
        return None
    messages = {block.message_id or block.uuid for block in said if block.role is Role.ASSISTANT}
    turn = replace(turn, said=tuple(said), actions=tuple(actions), message_count=len(messages))
    return replace(update, turn=turn)


def _without_result(action: Action, times: Mapping[str, int | None], pauses: Sequence[Span]) -> Action:
    """Return a call made before a pause, without the words of its result if that arrived during the pause."""
    if not is_within(times.get(action.result_uuid), pauses):
        return action
    return action._replace(error_line="", error_lines=(), error_keys=(), commit="")


logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Step:
    store: Store
    source: Source
    settings: Settings
    redact: Redact
    max_bytes: int
    #: What ``read`` found about other sessions, each with the step that stores it.
    others: list[tuple[Step, Progress, Reading]] = field(default_factory=list)
    #: Looks up stored turns while reading, and caches what is needed again to store the result.
    _stored: TurnsInStore = field(init=False)

    def __post_init__(self) -> None:
        self._stored = TurnsInStore(self.store, self.source.session_id, self.source.path)

    def read(self) -> tuple[Progress, Reading]:
        """Read one portion; return how far the source had been read, and what was found. Raises TranscriptError."""
        before = load_progress(self.store, self.source.place)
        stored = self._stored
        reading = agent_of(self.source).read(
            self.source, before.cursor, stored, settings=self.settings, max_bytes=self.max_bytes
        )
        reach("ingest.read")
        self.others = [
            (replace(self, source=replace(self.source, session_id=name, part=name), others=[]), progress, found)
            for name, found in reading.others
            for progress in [stored.others[name]]
        ]
        return before, reading

    def keep(self, before: Progress, reading: Reading, result: IngestResult) -> tuple[IngestResult, bool]:
        """Store what ``read`` returned; return the totals so far and whether there may be more to read.

        Raises:
            Conflict: another reader was faster; nothing was written.
            TranscriptError: the session belongs to another agent.
        """
        if reading.is_restart:
            self._restart(before, reading)
            return result, True
        # A store's clock may stand still in tests and simulations.
        reading = in_the_past(reading, max(self.store.now_ms(), SYSTEM_CLOCK.now_ms()))
        if reading.cursor == before.cursor and not reading.unreadable:
            after = replace(before, stamp=reading.stamp, size=reading.size)
            if before.transcript_id and after != before:
                note_unchanged(self.store, after)
            return result, False
        session = self._session()
        project = None
        if reading.cwd and needs_project(session):
            project = project_of_session(self.store, reading.cwd, self.settings)
            reason = why_not_project(self.store, reading.cwd, project, self.settings)
            has_dropped = self._drop_what_must_not_be_kept(session, project, reason)
            if reason:
                return replace(result, skipped=reason), False
            if has_dropped:
                return result, True  # the cursor was loaded before this deletion
        pauses = pauses_for(self.store, session, project)
        places = places_of(self.store, session, project, self.settings, reading.cwd)
        portion = replace(self._portion(before, reading, pauses, places), project=project)
        portion = self._without_copied_turns(portion, session)
        written = write_portion(self.store, portion, self.settings)
        bytes_read = max(0, reading.bytes_read - before.bytes_read)
        result = result.plus(written, bytes_read=bytes_read, bad_lines=len(reading.unreadable))
        return result, reading.has_more

    def _session(self) -> SessionRow | None:
        """Return the stored session. Raises TranscriptError if another agent has a session with the same id."""
        session = find_session(self.store, self.source.session_id)
        if session is not None and session.agent != self.source.agent:
            raise TranscriptError(f"session {session.session_id} is already known as a session of {session.agent}")
        return session

    def _restart(self, before: Progress, reading: Reading) -> None:
        """Start over with a truncated or rewritten source, which becomes a new generation."""
        after = Progress(place=before.place, cursor=reading.cursor, generation=before.generation + 1)
        with self.store.transaction() as tx:
            transcript_id = ensure_transcript(tx, self.source.path, before.session_ref, self.source.part)
            drop_unreadable(tx, transcript_id)
            forget_places(tx, transcript_id)
            move_cursor(tx, before, after, transcript_id)
            for part_id in () if self.source.part else read_parts_from_beginning(tx, self.source.path):
                forget_places(tx, part_id)
        logger.info("action=reread path=%s generation=%d", self.source.path, after.generation)

    def _drop_what_must_not_be_kept(self, session: SessionRow | None, project: Project, reason: str) -> bool:
        """Delete queued prompts that were read before the folder was known; return True if there were any."""
        if session is None:
            return False
        spans = None if reason == "excluded" else pauses_for(self.store, session, project)
        dropped = drop_unsettled_turns(self.store, session, spans)
        if dropped:
            logger.info("action=drop_unsettled session=%s turns=%d", session.session_id, dropped)
        return dropped > 0

    def _portion(self, before: Progress, reading: Reading, pauses: list[Span], places: TurnPlaces) -> Portion:
        """Return the portion to write, without anything excluded, paused or forgotten, and with all text redacted."""
        cleaner = Cleaner(self.redact, salt(self.store), known_values(self.store, self.source.session_id))
        for text in reading.environment:
            cleaner.note_environment(text)
        updates = keep_own_entries(self._stored, reading.updates)
        projects: dict[str, Project] = {}
        if own_vault(self.settings.places) is None:  # a vault holds one project
            projects = {update.turn.key: place for update in updates if (place := places.project_of(update.turn))}
        updates = self._cleaned(reading, cleaner, updates, pauses, projects)
        after = replace(
            before,
            cursor=reading.cursor,
            # Only a read that reaches the end records the stamp, so that the next sweep continues an interrupted read.
            stamp="" if reading.has_more else reading.stamp,
            size=reading.size,
            bytes_read=reading.bytes_read,
            lines_read=reading.lines_read,
        )
        return Portion(
            source=self.source,
            before=before,
            after=after,
            updates=updates,
            projects=projects,
            withdrawn=reading.withdrawn,
            unreadable=reading.unreadable,
            known_values=cleaner.new_known,
            cwd=reading.cwd,
            compacted_at_ms=reading.compacted_at_ms,
            moved=reading.moved,
            pull_requests=self._pull_requests(reading, cleaner, pauses),
            titles=self._titles(reading, cleaner, pauses),
            copied=self._copied(reading),
        )

    def _without_copied_turns(self, portion: Portion, session: SessionRow | None) -> Portion:
        """Return a portion without the turns that another session in their project already has.

        Those that are stored, because their end had not been read, are withdrawn.
        """
        if not portion.updates:
            return portion
        projects = [*portion.projects.values(), *([portion.project] if portion.project else [])]
        rows = (find_project_of_identity(self.store, project.identity) for project in projects if project.identity)
        project_ids = {row.id for row in rows if row is not None}
        if session is not None and session.project_id is not None:
            project_ids.add(session.project_id)
        originals = originals_of(self.store, portion.updates, project_ids, self.source.session_id)
        if not originals:
            return portion
        copies = [update for update in portion.updates if update.turn.key in originals]
        return replace(
            portion,
            updates=tuple(update for update in portion.updates if update.turn.key not in originals),
            withdrawn=(*portion.withdrawn, *(update.turn.key for update in copies if not update.is_new)),
            copied=tuple(ends_of(originals.values(), portion.copied).items()),
        )

    def _cleaned(
        self,
        reading: Reading,
        cleaner: Cleaner,
        updates: tuple[TurnUpdate, ...],
        pauses: list[Span],
        projects: Mapping[str, Project],
    ) -> tuple[TurnUpdate, ...]:
        spans = {place.identity: spans_of(self.store, place.identity) for place in projects.values()}
        updates = tuple(
            rest
            for update in updates
            for place in [projects.get(update.turn.key)]
            for rest in without_paused([update], reading.entries, pauses if place is None else spans[place.identity])
        )
        updates = without_erased(updates, self._erased(reading, updates))
        folders = {folder for update in updates for folder in update.turn.folders}
        excluded = {folder for folder in folders if is_excluded_folder(folder, self.settings)}
        out = {place.identity for place in projects.values() if self._keeps_out(place)}
        kept = (
            update
            for update in updates
            if excluded.isdisjoint(update.turn.folders)
            and ((place := projects.get(update.turn.key)) is None or place.identity not in out)
        )
        clean = self._without_copies([replace(update, turn=cleaner.clean(update)) for update in kept])
        return compare_with_stored(self.store, clean)

    def _without_copies(self, updates: Collection[TurnUpdate]) -> Iterable[TurnUpdate]:
        """Return redacted turns without words forgotten under other ids, since a session may have been copied."""
        if not are_words_forgotten(self.store):
            return updates
        found = [key for update in updates for key in keys_of_new_words(update)]
        gone = forgotten_words(self.store, {key for key, _ in found})
        copied = {uuid for key, uuid in found if key in gone}
        # An entry that is barred by its own id has already been handled.
        return without_erased(updates, copied - barred_entries(self.store, copied)) if copied else updates

    def _keeps_out(self, place: Project) -> bool:
        """Return True if nothing from a turn's project may be stored in this memory, wherever the session began."""
        is_kept_out = is_excluded_by_vault(self.settings.places, place.identity, place.root)
        return is_kept_out or is_excluded(place.root, self.settings.exclude)

    def _pull_requests(self, reading: Reading, cleaner: Cleaner, pauses: list[Span]) -> tuple[PullRequest, ...]:
        """Return the pull requests to store, with secrets in their addresses masked."""
        if is_excluded(reading.cwd, self.settings.exclude):
            return ()
        kept = tuple(link for link in reading.pull_requests if not is_within(link.at_ms, pauses))
        return tuple(link._replace(url=cleaner.clean_short(link.url)) for link in kept)

    def _titles(self, reading: Reading, cleaner: Cleaner, pauses: list[Span]) -> tuple[Title, ...]:
        """Return the redacted titles to store. Titles have no time, so any pause excludes them."""
        if pauses or is_excluded(reading.cwd, self.settings.exclude):
            return ()
        return tuple(title._replace(text=cleaner.clean_short(title.text)) for title in reading.titles)

    def _erased(self, reading: Reading, updates: Collection[TurnUpdate]) -> set[str]:
        """Return the entries of this read that had their words forgotten.

        A text without an entry is identified by its turn's key.
        """
        keys = {update.turn.key for update in updates if any(not block.uuid for block in update.turn.said)}
        return erased_entries(self.store, {entry.uuid for entry in reading.entries if entry.uuid} | keys)

    def _copied(self, reading: Reading) -> tuple[tuple[str, int], ...]:
        """Return the sessions that already contain entries of this source, each with the time of the last one."""
        known = self._stored.known_entries([entry.uuid for entry in reading.entries if entry.uuid])
        owners = sessions_of_entries(self.store, list(known)) if known else {}
        until: dict[str, int] = {}
        for entry in reading.entries:
            owner = owners.get(entry.uuid, "")
            if owner and owner != self.source.session_id:
                until[owner] = max(until.get(owner, 0), entry.at_ms or 0)
        return tuple(until.items())


def is_excluded_folder(folder: str, settings: Settings) -> bool:
    """Return True for a folder that the user excluded or that belongs to a vault; turns in it must not be stored."""
    return vault_of_folder(settings.places, folder) is not None or is_excluded(folder, settings.exclude)


def in_the_past(reading: Reading, now_ms: int) -> Reading:
    """Return the reading with times in the future, which may come from another machine's clock, set to the present.

    Otherwise, such a session would remain the newest until that time, and its memories would not age until then.
    """
    last = max((entry.at_ms or 0 for entry in reading.entries), default=0)
    if max(last, reading.compacted_at_ms or 0, *(link.at_ms for link in reading.pull_requests), 0) <= now_ms:
        return reading

    def clamp(at_ms: int | None) -> int | None:
        return None if at_ms is None else min(at_ms, now_ms)

    def clamp_turn(update: TurnUpdate) -> TurnUpdate:
        turn = update.turn
        said = tuple(block if (block.at_ms or 0) <= now_ms else replace(block, at_ms=now_ms) for block in turn.said)
        actions = tuple(action if (action.at_ms or 0) <= now_ms else action.run_at(now_ms) for action in turn.actions)
        started, ended = clamp(turn.started_at_ms), clamp(turn.ended_at_ms)
        return replace(update, turn=replace(turn, said=said, actions=actions, started_at_ms=started, ended_at_ms=ended))

    return replace(
        reading,
        updates=tuple(map(clamp_turn, reading.updates)),
        entries=[EntryTime(entry.uuid, clamp(entry.at_ms)) for entry in reading.entries],
        compacted_at_ms=clamp(reading.compacted_at_ms),
        pull_requests=tuple(link._replace(at_ms=min(link.at_ms, now_ms)) for link in reading.pull_requests),
    )
