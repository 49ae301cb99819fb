"""The agent Claude Code: find its transcripts, and read the new lines of each."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from engram.settings import Settings
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.agents import (
    Cursor,
    EntryTime,
    PullRequest,
    Reading,
    Source,
    StoredTurns,
    Title,
    TitleRank,
    Unreadable,
)
from engram.transcripts.claude_code import AGENT
from engram.transcripts.claude_code.discover import (
    SUFFIX,
    find_transcripts,
    identify,
    projects_folder,
    transcripts_below,
)
from engram.transcripts.claude_code.entry import RECORDS, Entry, Kind, parse_line
from engram.transcripts.claude_code.state import ReaderState, dump_cursor, load_cursor
from engram.transcripts.claude_code.turn_builder import TurnBuilder
from engram.transcripts.growing_file import Chunk, Line, Position, holds_prefix
from engram.transcripts.json_values import storable_id, storable_text
from engram.transcripts.line_parsing import chunk_of, parse_lines, reading_of, record_in, too_long_lines
from engram.transcripts.speaker import Speaker, claude_code_speaker
from engram.transcripts.transcript_files import Skipped, Walk
from engram.transcripts.turns import EntryRef, Turn

#: Environment variable that must be set for Claude Code to resume a Code Mode session.
CODE_MODE = "CLAUDE_CODE_EXPERIMENTAL_CODE_MODE"
_REPL_MODE = lazy_regex(rb'^\{[^{}\n]{0,200}"type":\s*"repl-mode"[^{}\n]{0,200}\}', re.MULTILINE)
_ENTRYPOINT = lazy_regex(rb'"entrypoint":\s*"([\w-]{1,60})"')
#: The form of every id that Claude Code gives a session.
_SESSION_ID = lazy_regex(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
#: Number of bytes at the beginning and at the end of a transcript in which to look for the session's mode, which is
#: written at the top and again with each prompt.
_HEAD_BYTES, _TAIL_BYTES = 8_192, 65_536
#: Number of lines that are kept as parsed objects at a time; a single query finds which of their entries are stored.
_LINES_AT_ONCE = 200
#: Maximum number of parent lines to follow from a line that names another session.
_MAX_PARENTS = 20
#: Where a line begins in its file.
_OFFSET = attrgetter("offset")
#: Types of lines that contain only a title.
_ASIDE_KINDS = (Kind.SUMMARY, Kind.AI_TITLE, Kind.CUSTOM_TITLE)


class ClaudeCode:
    """Reads the transcripts of Claude Code: one JSONL file per session, to which lines are appended."""

    name = AGENT
    title = "Claude Code"
    suffixes = (SUFFIX,)

    def resume_command(self, session_id: str, path: Path | None = None) -> str:
        """Return the command that resumes a session; a subagent's id begins with that of its parent.

        Claude Code finds no transcript with a name of another form, so for such a session the result is "".
        """
        own_id = session_id.partition(".")[0]
        if not _SESSION_ID.fullmatch(own_id):
            return ""
        command = f"claude --resume {own_id}"
        is_code_mode = path is not None and path.suffix == SUFFIX and _is_code_mode(path)
        return f"{CODE_MODE}=1 {command}" if is_code_mode else command

    def speaker_at(self, path: Path, offset: int, length: int) -> Speaker:
        """Return who wrote the line of a prompt; a person if it can no longer be read."""
        try:
            with path.open("rb") as file:
                entrypoint = _ENTRYPOINT.search(file.read(_TAIL_BYTES))
                file.seek(offset)
                entry = parse_line(Line(offset, length, 0, file.read(length)))
        except OSError:
            return Speaker.PERSON
        # A queue line doesn't show the folder of its session.
        session = {"entrypoint": entrypoint[1].decode()} if entrypoint else {}
        return claude_code_speaker({**session, **entry.data}) if isinstance(entry, Entry) else Speaker.PERSON

    def folders(self, settings: Settings) -> tuple[Path, ...]:
        return tuple(map(projects_folder, settings.all_claude_folders))

    def discover(self, settings: Settings) -> Iterator[Source]:
        for folder in settings.all_claude_folders:
            yield from find_transcripts(folder, with_subagents=settings.subagents)

    def skipped(self, settings: Settings) -> list[Skipped]:
        """Return the files in the folders of transcripts that are not read."""
        found: list[Skipped] = []
        for folder in settings.all_claude_folders:
            walk = Walk(projects_folder(folder))
            for _ in find_transcripts(folder, with_subagents=settings.subagents, walk=walk):
                pass
            found += walk.skipped
        return found

    def sources_at(self, path: Path, settings: Settings) -> Iterator[Source]:
        """Yield the transcript at a path, or the transcripts in a folder."""
        folders = self.folders(settings)
        place = Path(os.path.abspath(path))
        projects = next((folder for folder in folders if place.is_relative_to(folder)), folders[0])
        if os.path.isdir(path):
            yield from transcripts_below(path, projects)
            return
        source = identify(place, projects)
        if source is not None:
            yield source

    def read(
        self, source: Source, cursor: Cursor, stored: StoredTurns, *, settings: Settings, max_bytes: int
    ) -> Reading:
        """Read the complete lines after the cursor. Raises TranscriptError."""
        position, state = load_cursor(cursor)
        chunk = chunk_of(source, position, RECORDS, max_bytes, settings.line_limit_bytes)
        if chunk.is_rewritten:
            return Reading(cursor=dump_cursor(Position(), state.restarted()), is_restart=True, has_more=True)
        if chunk.position.offset == position.offset and not chunk.is_damaged:
            return reading_of(chunk, cursor, has_more=False)
        portion = _Portion(source, position, state, stored, chunk.lines)
        for start in range(0, len(chunk.lines), _LINES_AT_ONCE):
            portion.add(chunk.lines[start : start + _LINES_AT_ONCE])
        return portion.reading(
            chunk,
            unreadable=(*too_long_lines(chunk), *portion.unreadable),
            others=[(name, other.reading(chunk)) for name, other in portion.others.items() if other.entries],
            has_more=chunk.has_more,
        )

    def is_moved(self, source: Source, cursor: Cursor) -> bool:
        """Return True if the file contains everything read from the cursor's file; ``/cd`` moves transcripts."""
        return holds_prefix(source.path, load_cursor(cursor)[0])


def _is_code_mode(path: Path) -> bool:
    """Return True if the session of a transcript was last in Code Mode; False if it can't be read."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            tail = file.read(_TAIL_BYTES)
    except OSError:
        return False
    marks = _REPL_MODE.findall(tail) or _REPL_MODE.findall(head)
    return bool(marks) and re.search(rb'"replMode":\s*true', marks[-1]) is not None


def _bytes_before(path: Path, offset: int) -> bytes:
    """Return the end of what comes before an offset in a transcript; b"" if it can't be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, offset - _TAIL_BYTES))
            return file.read(min(offset, _TAIL_BYTES))
    except OSError:
        return b""


class _Portion:
    """Collects the results of one read of a transcript, line by line; only the id and time of each entry are kept.

    Lines of other sessions go to a portion for each of them.
    """

    def __init__(
        self, source: Source, position: Position, state: ReaderState, stored: StoredTurns, lines: Sequence[Line]
    ) -> None:
        if not position.offset and not state.is_reread and stored.is_session_known():
            state = replace(state, is_reread=True)
        self.entries: list[EntryTime] = []
        self.unreadable: list[Unreadable] = []
        self.pull_requests: list[PullRequest] = []
        #: The last title for each rank and entry, because the same line is written repeatedly.
        self.titles: dict[tuple[TitleRank, str], Title] = {}
        self.moved: list[EntryRef] = []
        self.environment: list[str] = []
        self.cwd = ""
        self.compacted_at_ms: int | None = None
        self.has_own = state.has_own
        #: Other sessions that lines of the file name, in order.
        self.others: dict[str, _Portion] = {}
        self._source = source
        self._stored = stored
        #: All lines of this read.
        self._lines = lines
        #: Up to here, the lines of the session have been read.
        self._start = position.offset
        #: Uuid of a line of this read → the result of ``_other_session`` for that line.
        self._sessions: dict[str, str] = {}
        self._is_reread = state.is_reread
        self._known: set[str] = set()
        stored_turns = ((key, stored.load(key)) for key in state.turns_to_resume)
        self.builder = TurnBuilder(
            source.session_id,
            state=state,
            resume={key: turn for key, turn in stored_turns if turn is not None},
            owner=self._owner,
            load=self._load if state.is_reread else _none,
            holder=stored.holder,
            ancestors=lambda entry: (parent for parent, _ in self._ancestors(entry)),
            is_subagent=source.is_subagent,
            note_environment=self.environment.append,
        )

    def add(self, lines: Sequence[Line]) -> None:
        entries, unreadable = parse_lines(lines, parse_line, RECORDS)
        self.unreadable += unreadable
        by_session: dict[str, list[Entry]] = {"": []}
        for entry in entries:
            # A line that the file repeats under another session is a copy.
            session_id = self._sessions.get(entry.uuid)
            if session_id is None:
                session_id = self._other_session(entry)
                if entry.uuid:
                    self._sessions[entry.uuid] = session_id
            by_session.setdefault(session_id, []).append(entry)
        self._take(by_session.pop(""))
        for session_id, others in by_session.items():
            if session_id not in self.others:
                cursor, stored = self._stored.other(session_id)
                source = replace(self._source, session_id=session_id)
                self.others[session_id] = _Portion(source, *load_cursor(cursor), stored, self._lines)
            # Lines before this point were read earlier, by a reader that stopped before it stored this session's own
            # lines.
            start = self.others[session_id]._start
            self.others[session_id]._take([entry for entry in others if entry.offset >= start])

    def reading(self, chunk: Chunk, *, has_more: bool = False, **found: Any) -> Reading:
        """Return what a chunk contains of the session."""
        built = self.builder.finish()
        return reading_of(
            chunk,
            dump_cursor(chunk.position, replace(built.state, has_own=self.has_own)),
            updates=built.updates,
            withdrawn=built.withdrawn,
            entries=self.entries,
            cwd=self.cwd,
            compacted_at_ms=self.compacted_at_ms,
            pull_requests=tuple(self.pull_requests),
            titles=tuple(self.titles.values()),
            moved=tuple(self.moved),
            environment=tuple(self.environment),
            has_more=has_more,
            **found,
        )

    def _take(self, entries: Sequence[Entry]) -> None:
        self._known.update(self._stored.known_entries([entry.uuid for entry in entries if entry.uuid]))
        self.entries += [EntryTime(entry.uuid, entry.at_ms) for entry in entries]
        self.cwd = self.cwd or next((entry.cwd for entry in entries if entry.cwd), "")
        for entry in entries:
            if self._is_reread and entry.uuid in self._known:
                self.moved.append(EntryRef(entry.uuid, entry.offset, entry.length, entry.line))
            if entry.kind in _ASIDE_KINDS:
                if (title := entry.title) is not None:
                    self.titles[title.rank, title.entry] = title
            elif entry.kind is not Kind.PULL_REQUEST:
                if entry.kind is Kind.SYSTEM and entry.at_ms and entry.is_compaction:
                    self.compacted_at_ms = max(self.compacted_at_ms or 0, entry.at_ms)
                self.builder.add(entry)
            elif (link := entry.pull_request) is not None:
                self.pull_requests.append(link)

    def _other_session(self, entry: Entry) -> str:
        """Return the session of a line that is not of this session; "" for this session's lines.

        Some versions write lines of one session into the file of another. Other lines that name another session are
        either a copied history (before the session's first own line, or in a file that was renamed), or a continuation
        of the session's own lines, written when Claude Code had just begun a new session but still used the old id.
        """
        named = entry.data.get("sessionId")
        if named == self._source.session_id:
            self.has_own = True
        elif self.has_own and _SESSION_ID.fullmatch(session_id := storable_id(named)) and not self._continues(entry):
            return session_id
        return ""

    def _continues(self, entry: Entry) -> bool:
        """Return True if a line that names another session follows a line of the session for which the file is named.

        The lines between the two may be of a type that is not read, so they are looked up in the file.
        """
        for parent, named in self._ancestors(entry):
            if named == self._source.path.stem:
                return True
            if not parent or self._sessions.get(parent):
                break
            if parent in self._sessions or self._stored.holder(parent) is not None:
                return True
        return False

    def _ancestors(self, entry: Entry) -> Iterator[tuple[str, str]]:
        """Yield the id of the line that an entry follows, then that of the line before it, and so on.

        With each id comes the session that the line with this link names; "" for the entry itself. The lines after
        the first are looked up in the file.
        """
        before: bytes | None = None
        parent, named = storable_id(entry.data.get("parentUuid")), ""
        for _ in range(_MAX_PARENTS):
            yield parent, named
            if not parent:
                break
            before = self._bytes_before(entry.offset) if before is None else before
            at = before.rfind(b'"uuid":"%b"' % parent.encode())
            line = before[before.rfind(b"\n", 0, at) + 1 : before.find(b"\n", at)] if at >= 0 else b""
            found = record_in(Line(0, len(line), 0, line))
            if isinstance(found, Unreadable):
                break
            parent, named = storable_id(found.get("parentUuid")), storable_text(found.get("sessionId"))

    def _bytes_before(self, offset: int) -> bytes:
        """Return the end of what comes before an offset, from the lines of this read if these reach far enough."""
        at, first, end = bisect_left(self._lines, offset, key=_OFFSET), max(0, offset - _TAIL_BYTES), offset
        parts: list[bytes] = []
        while at and end > first:
            at -= 1
            line = self._lines[at]
            parts.append((line.data + b"\n")[: end - line.offset])
            if line.offset + len(parts[-1]) != end:
                break  # a line between the two was skipped
            end = line.offset
        if end > first:
            return _bytes_before(self._source.path, offset)
        return b"".join(reversed(parts))[first - end :]

    def _load(self, key: str) -> Turn | None:
        turn = self._stored.load(key)
        return turn if turn is not None and turn.session_id == self._source.session_id else None

    def _owner(self, uuid: str) -> str | None:
        # Keys that begin with "q:" belong to prompts that exist only in a queue-operation line.
        is_known = uuid in self._known or (uuid.startswith("q:") and self._stored.is_known(uuid))
        return uuid if is_known else None


def _none(key: str) -> None:
    """Return None, because nothing is loaded from the store while a session is read for the first time."""
