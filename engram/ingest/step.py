"""One portion of one source: read, decide what may be kept, write it with the cursor in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from engram.clock import SYSTEM_CLOCK
from engram.errors import TranscriptError
from engram.failpoint import reach
from engram.ingest.clean import Cleaner, Redact
from engram.ingest.forgotten import without_erased
from engram.ingest.paused import pull_requests_outside, without_paused
from engram.ingest.result import IngestResult
from engram.ingest.scope import (
    TurnPlaces,
    needs_project,
    pauses_for,
    places_of,
    project_for,
    spans_of,
    why_not_project,
)
from engram.ingest.stored import TurnsInStore
from engram.ingest.whole import compare_with_stored, keep_own_entries
from engram.ingest.write import Portion, write_portion
from engram.models.contexts import sessions_of_entries
from engram.models.pauses import Span
from engram.models.sessions import SessionRow, find_session, known_values, salt
from engram.models.store import Store
from engram.models.tombstones import erased_entries
from engram.models.transcripts import (
    Progress,
    drop_unreadable,
    ensure_transcript,
    load_progress,
    move_cursor,
    note_unchanged,
)
from engram.models.turn_changes import forget_places
from engram.models.unsettled import drop_unsettled_turns
from engram.settings import Settings
from engram.transcripts.project import Project, is_excluded
from engram.transcripts.record import TurnUpdate
from engram.transcripts.registry import agent_of
from engram.transcripts.source import EntryTime, PullRequest, Reading, Source, Title
from engram.vaults import keeps_out, own_vault, vault_of_folder

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Step:
    """Reads and stores one portion of a source."""

    store: Store
    source: Source
    settings: Settings
    redact: Redact
    max_bytes: int

    def run(self, result: IngestResult) -> tuple[IngestResult, bool]:
        """Read and store one portion; returns the sum so far, and whether there may be more.

        Raises:
            Conflict: another reader was faster; nothing was written.
            TranscriptError: the source cannot be read.
        """
        before = load_progress(self.store, self.source.place)
        cleaner = Cleaner(self.redact, salt(self.store), known_values(self.store, self.source.session_id))
        stored = TurnsInStore(self.store, cleaner, self.source.session_id)
        reading = agent_of(self.source).read(
            self.source, before.cursor, stored, settings=self.settings, max_bytes=self.max_bytes
        )
        reach("ingest.read")
        if reading.is_restart:
            self._restart(before, reading)
            return result, True
        # The clock of a store may stand still, in tests and simulations.
        reading = in_the_past(reading, max(self.store.now_ms(), SYSTEM_CLOCK.now_ms()))
        if reading.cursor == before.cursor and not reading.unreadable:
            self._note_unchanged(before, reading)
            return result, False
        session = self._session()
        project = None
        if reading.cwd and needs_project(session):
            project = project_for(self.store, reading.cwd, self.settings)
            reason = why_not_project(self.store, reading.cwd, project, self.settings)
            has_dropped = self._drop_what_must_not_be_kept(session, project, reason)
            if reason:
                return replace(result, skipped=reason), False
            if has_dropped:
                return result, True  # the cursor was read before that
        pauses = pauses_for(self.store, session, project)
        places = places_of(self.store, session, project, self.settings, reading.cwd)
        portion = replace(self._portion(before, reading, stored, pauses, places), project=project)
        written = write_portion(self.store, portion, self.settings)
        bytes_read = max(0, reading.bytes_read - before.bytes_read)
        result = result.plus(written, bytes_read=bytes_read, bad_lines=len(reading.unreadable))
        return result, reading.has_more

    def _session(self) -> SessionRow | None:
        """Return the stored session. Raises TranscriptError if another agent has one of the same id."""
        session = find_session(self.store, self.source.session_id)
        if session is not None and session.agent != self.source.agent:
            raise TranscriptError(f"session {session.session_id} is known as one of {session.agent}")
        return session

    def _restart(self, before: Progress, reading: Reading) -> None:
        """Read a source that was cut or rewritten from its beginning, as a new generation."""
        after = Progress(place=before.place, cursor=reading.cursor, generation=before.generation + 1)
        with self.store.transaction() as tx:
            transcript_id = ensure_transcript(tx, self.source.path, before.session_ref, self.source.part)
            drop_unreadable(tx, transcript_id)
            forget_places(tx, transcript_id)
            move_cursor(tx, before, after, transcript_id)
        logger.info("action=reread path=%s generation=%d", self.source.path, after.generation)

    def _note_unchanged(self, before: Progress, reading: Reading) -> None:
        after = replace(before, stamp=reading.stamp, size=reading.size)
        if before.transcript_id and after != before:
            note_unchanged(self.store, after)

    def _drop_what_must_not_be_kept(self, session: SessionRow | None, project: Project, reason: str) -> bool:
        """Delete prompts that waited in the queue, and were read, before the folder was known; True if there were
        any.
        """
        if session is None:
            return False
        spans = None if reason == "excluded" else pauses_for(self.store, session, project)
        dropped = drop_unsettled_turns(self.store, session, spans)
        if dropped:
            logger.info("action=drop_unsettled session=%s turns=%d", session.session_id, dropped)
        return dropped > 0

    def _portion(
        self, before: Progress, reading: Reading, stored: TurnsInStore, pauses: list[Span], places: TurnPlaces
    ) -> Portion:
        """Return what is to be written: nothing that was excluded, paused or forgotten, and every text redacted."""
        updates = keep_own_entries(stored, reading.updates)
        projects: dict[str, Project] = {}
        if own_vault(self.settings.places) is None:  # a vault holds one project
            projects = {update.turn.key: place for update in updates if (place := places.project_of(update.turn))}
        updates = self._cleaned(reading, stored, updates, pauses, projects)
        after = replace(
            before,
            cursor=reading.cursor,
            # Only a read that finds nothing more notes the stamp: if it is killed before that, the next sweep goes on.
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
            known_values=stored.cleaner.new_known,
            cwd=reading.cwd,
            compacted_at_ms=reading.compacted_at_ms,
            moved=reading.moved,
            pull_requests=self._pull_requests(reading, stored, pauses),
            titles=self._titles(reading, stored, pauses),
            copied=self._copied(reading, stored),
        )

    def _cleaned(
        self,
        reading: Reading,
        stored: TurnsInStore,
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
        return compare_with_stored(self.store, [replace(update, turn=stored.cleaner.clean(update)) for update in kept])

    def _keeps_out(self, place: Project) -> bool:
        """True for the project of a turn of which nothing is kept here, wherever its session began."""
        is_kept_out = keeps_out(self.settings.places, place.identity, place.root)
        return is_kept_out or is_excluded(place.root, self.settings.exclude)

    def _pull_requests(self, reading: Reading, stored: TurnsInStore, pauses: list[Span]) -> tuple[PullRequest, ...]:
        """Return the pull requests that are stored, with secrets in their addresses masked."""
        if is_excluded(reading.cwd, self.settings.exclude):
            return ()
        kept = pull_requests_outside(reading.pull_requests, pauses)
        return tuple(link._replace(url=stored.cleaner.clean_short(link.url)) for link in kept)

    def _titles(self, reading: Reading, stored: TurnsInStore, pauses: list[Span]) -> tuple[Title, ...]:
        """Return the titles that are stored, redacted. They have no time, so that any pause keeps them out."""
        if pauses or is_excluded(reading.cwd, self.settings.exclude):
            return ()
        return tuple(title._replace(text=stored.cleaner.clean_short(title.text)) for title in reading.titles)

    def _erased(self, reading: Reading, updates: Collection[TurnUpdate]) -> set[str]:
        """Return the entries of this read whose words were forgotten; a text without an entry goes by its turn's
        key.
        """
        keys = {update.turn.key for update in updates if any(not block.uuid for block in update.turn.said)}
        return erased_entries(self.store, {entry.uuid for entry in reading.entries if entry.uuid} | keys)

    def _copied(self, reading: Reading, stored: TurnsInStore) -> tuple[tuple[str, int], ...]:
        """Return the sessions that hold entries of this source already, each with the time of the last such entry."""
        known = stored.known_entries([entry.uuid for entry in reading.entries if entry.uuid])
        owners = sessions_of_entries(self.store, list(known))
        until: dict[str, int] = {}
        for entry in reading.entries:
            owner = owners.get(entry.uuid, "")
            if owner and owner != self.source.session_id:
                until[owner] = max(until.get(owner, 0), entry.at_ms or 0)
        return tuple(until.items())


def is_excluded_folder(folder: str, settings: Settings) -> bool:
    """True for a folder that the user excludes, or of a vault: turns there are not kept, wherever a session began."""
    return vault_of_folder(settings.places, folder) is not None or is_excluded(folder, settings.exclude)


def in_the_past(reading: Reading, now_ms: int) -> Reading:
    """Return a reading in which nothing is later than now, as entries are that another machine's clock dated.

    Else such a session would be the newest until that time comes, and its memories would not age.
    """
    last = max((entry.at_ms or 0 for entry in reading.entries), default=0)
    if max(last, reading.compacted_at_ms or 0, *(link.at_ms for link in reading.pull_requests), 0) <= now_ms:
        return reading

    def clamp(at_ms: int | None) -> int | None:
        return None if at_ms is None else min(at_ms, now_ms)

    def clamp_turn(update: TurnUpdate) -> TurnUpdate:
        turn = update.turn
        said = tuple(block if (block.at_ms or 0) <= now_ms else replace(block, at_ms=now_ms) for block in turn.said)
        started, ended = clamp(turn.started_at_ms), clamp(turn.ended_at_ms)
        return replace(update, turn=replace(turn, said=said, started_at_ms=started, ended_at_ms=ended))

    return replace(
        reading,
        updates=tuple(map(clamp_turn, reading.updates)),
        entries=[EntryTime(entry.uuid, clamp(entry.at_ms)) for entry in reading.entries],
        compacted_at_ms=clamp(reading.compacted_at_ms),
        pull_requests=tuple(link._replace(at_ms=min(link.at_ms, now_ms)) for link in reading.pull_requests),
    )
