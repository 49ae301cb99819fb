"""The prompts that Claude Code keeps in history.jsonl when it deletes their transcripts, as sessions without answers.

A line is ``{"display", "pastedContents", "timestamp" (ms), "project", "sessionId"}``, one for each Enter on the screen;
older versions write no ``sessionId``. A pasted text is in the line, or in ``paste-cache/HASH.txt`` while that exists.
Whatever a transcript tells is not told again: neither a session that is stored or has its transcript in place, nor a
prompt without a session at the time of a prompt that is stored.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from engram.errors import TranscriptError
from engram.paths import is_session_id
from engram.settings import Settings
from engram.system.clock import SYSTEM_CLOCK
from engram.transcripts.agents import Cursor, EntryTime, Reading, Source, StoredTurns
from engram.transcripts.claude_code.discover import HISTORY, SUFFIX, projects_folder
from engram.transcripts.lines import storable, storable_text
from engram.transcripts.messages import Message, whole_turns
from engram.transcripts.speaker import Speaker, is_engrams, judge
from engram.transcripts.tail import parse_json
from engram.transcripts.transcript_files import Skipped, facts_of, read_head, stamp_of
from engram.transcripts.turns import Role, TurnUpdate

#: Name of these sessions' agent, as it is stored with every session.
AGENT = "claude-code-history"
#: Begins the ids of these sessions; the id of Claude Code's session follows.
PREFIX = "prompts-"
#: Largest history, in bytes, and longest pasted text, in characters, that is read.
MAX_HISTORY_BYTES, MAX_PASTE_CHARS = 100_000_000, 20_000
#: A prompt without a session is one that is stored if that was asked at most this much earlier or later, in ms.
SAME_MOMENT_MS = 5_000
#: A session is told by the history only this long after its last prompt, in ms: its transcript may be about to begin.
QUIET_MS = 3_600_000
_PASTE_MARK = re.compile(r"\[Pasted text #(\d+)(?: \+\d+ lines?)?\]")
_PASTE_HASH = re.compile(r"[0-9a-f]{8,64}")
_COMMAND = re.compile(r"/[\w:.-]+(?:\s+|$)")


class Prompt(NamedTuple):
    """A prompt of the history."""

    #: Number of its line in the file, from 0.
    line: int
    at_ms: int
    #: The folder that it was typed in.
    cwd: str
    #: What was typed, with a mark for each pasted text.
    text: str
    #: Pasted texts, and hashes of those that are in the cache.
    pasted: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()


class PromptHistory:
    """Reads history.jsonl: each session of it that has no transcript is a source. A cursor is the time of its last
    prompt.
    """

    name = AGENT
    title = "Claude Code's prompt history"
    suffixes = (SUFFIX,)

    def resume_command(self, session_id: str, path: Path | None = None) -> str:
        """Return "": a session without a transcript can't be resumed."""
        return ""

    def speaker_at(self, path: Path, offset: int, length: int) -> Speaker:
        """Return a person: nothing else is in the history."""
        return Speaker.PERSON

    def folders(self, settings: Settings) -> tuple[Path, ...]:
        """Return none: the sweep is soon enough for what has no transcript."""
        return ()

    def discover(self, settings: Settings) -> Iterator[Source]:
        """Yield each session of the history whose transcript is not in place."""
        if settings.prompt_history:
            yield from self._sources(settings.claude_folder / HISTORY, settings)

    def skipped(self, settings: Settings) -> list[Skipped]:
        """Return nothing: what has no transcript is read, and the rest is in transcripts."""
        return []

    def sources_at(self, path: Path, settings: Settings) -> Iterator[Source]:
        """Yield the sessions in a history."""
        if path.name == HISTORY and settings.prompt_history:
            yield from self._sources(path, settings)

    def read(
        self, source: Source, cursor: Cursor, stored: StoredTurns, *, settings: Settings, max_bytes: int
    ) -> Reading:
        """Read the prompts of a session, unless its transcript was read. Raises TranscriptError."""
        facts = facts_of(source.path)
        prompts = [] if facts is None else _sessions(source.path, stamp_of(facts)).get(source.part, [])
        if not prompts:
            raise TranscriptError(f"{source.path.name} has no prompt of session {source.part} any more")
        after = Cursor(str(prompts[-1].at_ms))
        if after == cursor:
            return Reading(cursor, stamp=source.stamp)
        kept = [] if stored.is_stored(source.part) else _without_known(source.part, prompts, stored)
        return Reading(
            cursor=after,
            updates=tuple(_turns(source, kept, stored)),
            entries=[EntryTime(_id_of(source, prompt), prompt.at_ms) for prompt in kept],
            cwd=kept[0].cwd if kept else "",
            stamp=source.stamp,
        )

    def is_moved(self, source: Source, cursor: Cursor) -> bool:
        """Return False: the history stays where it is."""
        return False

    def _sources(self, path: Path, settings: Settings) -> Iterator[Source]:
        facts = facts_of(path)
        if facts is None:
            return
        sessions = _sessions(path, stamp_of(facts))
        folders = map(projects_folder, settings.all_claude_folders)
        present = {file.stem for folder in folders for file in folder.glob(f"*/*{SUFFIX}")}
        quiet_ms = SYSTEM_CLOCK.now_ms() - QUIET_MS
        for part, prompts in sessions.items():
            if part not in present and prompts[-1].at_ms <= quiet_ms:
                yield Source(
                    agent=AGENT,
                    path=path,
                    session_id=f"{PREFIX}{part}"[:128],
                    stamp=f"{len(prompts)}-{prompts[-1].at_ms}",
                    changed_at_ns=prompts[-1].at_ms * 1_000_000,
                    part=part,
                )


@lru_cache(maxsize=1)
def _sessions(path: Path, stamp: str) -> Mapping[str, Sequence[Prompt]]:
    """Return the prompts of each session by time; ``stamp`` tells when the file has changed."""
    sessions: dict[str, list[Prompt]] = {}
    try:
        data = read_head(path, MAX_HISTORY_BYTES)
    except (OSError, ValueError):
        return {}
    # What is behind the last newline is not written yet.
    for number, line in enumerate(data.split(b"\n")[:-1]):
        try:
            record = parse_json(line)
        except (ValueError, RecursionError):
            continue
        prompt = _prompt_of(record, number) if isinstance(record, dict) else None
        if prompt is not None:
            session = record.get("sessionId")
            name = session if is_session_id(session) else _nameless(prompt)
            sessions.setdefault(name, []).append(prompt)
    for prompts in sessions.values():
        prompts.sort(key=lambda prompt: (prompt.at_ms, prompt.line))
    return sessions


def _nameless(prompt: Prompt) -> str:
    """Return a name for the prompts of a folder and day of which no session is known."""
    day = prompt.at_ms // 86_400_000
    return f"day-{day}-{hashlib.sha256(prompt.cwd.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _prompt_of(record: Mapping[str, Any], number: int) -> Prompt | None:
    """Return the prompt of a line; None for what asks nothing: a bare command, a shell command, nothing at all."""
    at_ms, cwd = record.get("timestamp"), storable_text(record.get("project"))
    typed = storable_text(record.get("display")).strip()
    if typed.startswith("#"):
        typed = typed.lstrip("# ")
    command = _COMMAND.match(typed)
    if not isinstance(at_ms, int) or isinstance(at_ms, bool) or at_ms <= 0 or not cwd:
        return None
    if not typed or typed.startswith("!") or (command and (command.end() == len(typed) or is_engrams(typed))):
        return None
    words = judge([typed], Speaker.PERSON)
    if not words.is_prompt:
        return None
    pasted, cached = _pasted(record.get("pastedContents"), typed)
    return Prompt(number, at_ms, cwd, words.text, (*words.beside, *pasted), cached)


def _pasted(contents: object, typed: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the pasted texts that a prompt has marks of, and the hashes of those that are elsewhere."""
    named = set(_PASTE_MARK.findall(typed))
    pasted, cached = [], []
    for name, content in contents.items() if isinstance(contents, dict) else ():
        if name not in named or not isinstance(content, dict) or content.get("type") != "text":
            continue
        text, key = content.get("content"), content.get("contentHash")
        if isinstance(text, str):
            pasted.append(storable(text[:MAX_PASTE_CHARS]))
        elif isinstance(key, str) and _PASTE_HASH.fullmatch(key):
            cached.append(key)
    return tuple(pasted), tuple(cached)


def _without_known(part: str, prompts: Sequence[Prompt], stored: StoredTurns) -> list[Prompt]:
    """Return the prompts; of those without a session only what was not asked at the time of one that is stored."""
    if not part.startswith("day-"):
        return list(prompts)
    times = stored.prompt_times(prompts[0].at_ms - SAME_MOMENT_MS, prompts[-1].at_ms + SAME_MOMENT_MS)
    return [prompt for prompt in prompts if all(abs(prompt.at_ms - at_ms) > SAME_MOMENT_MS for at_ms in times)]


def _turns(source: Source, prompts: Sequence[Prompt], stored: StoredTurns) -> Iterator[TurnUpdate]:
    messages = []
    for prompt in prompts:
        messages.append(
            Message(_id_of(source, prompt), Role.USER, prompt.text, prompt.at_ms, prompt.line, cwd=prompt.cwd)
        )
        texts = [*prompt.pasted, *filter(None, (_cached_paste(source.path, key) for key in prompt.cached))]
        messages += [
            Message(f"{_id_of(source, prompt)}-paste{number}", Role.CONTEXT, text, prompt.at_ms, prompt.line)
            for number, text in enumerate(texts)
        ]
    return iter(whole_turns(AGENT, source.session_id, "", messages, stored.note_environment))


def _cached_paste(history: Path, key: str) -> str:
    """Return a pasted text of the cache; "" if it is gone: Claude Code deletes it with old transcripts."""
    try:
        data = read_head(history.parent / "paste-cache" / f"{key}.txt", MAX_PASTE_CHARS * 4)
    except (OSError, ValueError):
        return ""
    return storable(data.decode("utf-8", "replace")[:MAX_PASTE_CHARS])


def _id_of(source: Source, prompt: Prompt) -> str:
    """Return the id of a prompt: the same however the file is rewritten."""
    return f"{source.session_id}-{prompt.at_ms}"
