"""Read prompts from Claude Code's history.jsonl, which outlives the transcripts, as sessions without answers.

There is one line per submitted input: ``{"display", "pastedContents", "timestamp" (ms), "project", "sessionId"}``;
older versions do not write ``sessionId``. Pasted text is in the line, or in ``paste-cache/HASH.txt`` as long as that
exists. Nothing is added twice. Sessions that are stored or still have a transcript are skipped, as are prompts without
a session that were typed at the same time as a stored prompt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from engram.errors import TranscriptError
from engram.paths import is_session_id
from engram.settings import Settings
from engram.system.clock import SYSTEM_CLOCK
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.agents import Cursor, EntryTime, Reading, Source, StoredTurns
from engram.transcripts.claude_code.discover import HISTORY, SUFFIX, projects_folder
from engram.transcripts.json_values import parse_json, storable, storable_text
from engram.transcripts.message_elements import is_engrams, judge
from engram.transcripts.message_turns import Message, whole_turns
from engram.transcripts.speaker import Speaker
from engram.transcripts.transcript_files import Skipped, facts_of, read_head, stamp_of
from engram.transcripts.turns import Role, TurnUpdate

#: The agent's name as stored with each of these sessions.
AGENT = "claude-code-history"
#: Prefix of the ids of these sessions, followed by Claude Code's session id.
PREFIX = "prompts-"
#: Maximum size of the history, in bytes, and of pasted text, in characters; anything beyond is not read.
MAX_HISTORY_BYTES, MAX_PASTE_CHARS = 100_000_000, 20_000
#: A prompt without a session counts as already stored if it is at most this many milliseconds from a stored one.
SAME_MOMENT_MS = 5_000
#: Minimum age of a session's last prompt before the session is read, in milliseconds; its transcript may still be
#: created until then.
QUIET_MS = 3_600_000
_PASTE_MARK = lazy_regex(r"\[Pasted text #(\d+)(?: \+\d+ lines?)?\]")
_PASTE_HASH = lazy_regex(r"[0-9a-f]{8,64}")
_COMMAND = lazy_regex(r"/[\w:.-]+(?:\s+|$)")


class Prompt(NamedTuple):
    #: Number of its line in the file, from 0.
    line: int
    at_ms: int
    #: The folder in which it was typed.
    cwd: str
    #: What was typed, with a placeholder for each piece of pasted text.
    text: str
    #: Pasted texts, and hashes of those that are in the cache.
    pasted: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()


class PromptHistory:
    """Reads history.jsonl. Each session in it without a transcript is a source.

    The cursor of a source is the time of its last prompt.
    """

    name = AGENT
    title = "Claude Code's prompt history"
    suffixes = (SUFFIX,)

    def resume_command(self, session_id: str, path: Path | None = None) -> str:
        """Return "", because a session without a transcript can't be resumed."""
        return ""

    def speaker_at(self, path: Path, offset: int, length: int) -> Speaker:
        """Return ``Speaker.PERSON``, because the history contains only what people typed."""
        return Speaker.PERSON

    def folders(self, settings: Settings) -> tuple[Path, ...]:
        """Return (), because the history need not be watched; the periodic sweep finds changes soon enough."""
        return ()

    def discover(self, settings: Settings) -> Iterator[Source]:
        if settings.prompt_history:
            yield from self._sources(settings.claude_folder / HISTORY, settings)

    def skipped(self, settings: Settings) -> list[Skipped]:
        """Return [], because sessions that are not read from the history are read from their transcripts."""
        return []

    def sources_at(self, path: Path, settings: Settings) -> Iterator[Source]:
        if path.name == HISTORY and settings.prompt_history:
            yield from self._sources(path, settings)

    def read(
        self, source: Source, cursor: Cursor, stored: StoredTurns, *, settings: Settings, max_bytes: int
    ) -> Reading:
        """Read the prompts of a session, unless its transcript was read. Raises TranscriptError."""
        facts = facts_of(source.path)
        prompts = [] if facts is None else _sessions(source.path, stamp_of(facts)).get(source.part, [])
        if not prompts:
            raise TranscriptError(f"{source.path.name} no longer contains prompts from session {source.part}")
        after = Cursor(str(prompts[-1].at_ms))
        if after == cursor:
            return Reading(cursor, stamp=source.stamp)
        kept = [] if stored.is_stored(source.part) else _without_known(source.part, prompts, stored)
        return Reading(
            cursor=after,
            updates=_turns(source, kept),
            entries=[EntryTime(_id_of(source, prompt), prompt.at_ms) for prompt in kept],
            cwd=kept[0].cwd if kept else "",
            stamp=source.stamp,
        )

    def is_moved(self, source: Source, cursor: Cursor) -> bool:
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
    """Return the prompts of each session in order of time; ``stamp`` changes when the file does."""
    sessions: dict[str, list[Prompt]] = {}
    try:
        data = read_head(path, MAX_HISTORY_BYTES)
    except (OSError, ValueError):
        return {}
    # A line without a newline is still being written.
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
    """Return a name for the prompts from a folder and day that have no known session."""
    day = prompt.at_ms // 86_400_000
    return f"day-{day}-{hashlib.sha256(prompt.cwd.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _prompt_of(record: Mapping[str, Any], number: int) -> Prompt | None:
    """Return the prompt on a line; None for a bare command, a shell command or an empty line, which ask for nothing."""
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
    """Return the pasted texts that a prompt refers to, and the hashes of those stored in the paste cache."""
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
    """Return the prompts that aren't stored yet.

    A prompt without a session counts as stored if a stored one was sent at about the same time.
    """
    if not part.startswith("day-"):
        return list(prompts)
    times = stored.prompt_times(prompts[0].at_ms - SAME_MOMENT_MS, prompts[-1].at_ms + SAME_MOMENT_MS)
    return [prompt for prompt in prompts if all(abs(prompt.at_ms - at_ms) > SAME_MOMENT_MS for at_ms in times)]


def _turns(source: Source, prompts: Sequence[Prompt]) -> tuple[TurnUpdate, ...]:
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
    return whole_turns(AGENT, source.session_id, "", messages)


def _cached_paste(history: Path, key: str) -> str:
    """Return pasted text from the cache; "" if it is gone (Claude Code deletes it with old transcripts)."""
    try:
        data = read_head(history.parent / "paste-cache" / f"{key}.txt", MAX_PASTE_CHARS * 4)
    except (OSError, ValueError):
        return ""
    return storable(data.decode("utf-8", "replace")[:MAX_PASTE_CHARS])


def _id_of(source: Source, prompt: Prompt) -> str:
    """Return the id of a prompt, which does not change if the file is rewritten."""
    return f"{source.session_id}-{prompt.at_ms}"
