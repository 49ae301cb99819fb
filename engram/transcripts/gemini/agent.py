"""The agent Gemini CLI: find its chats, and read those that have changed."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from engram.errors import TranscriptError
from engram.paths import is_session_id
from engram.settings import Settings
from engram.system.atomic import read_regular
from engram.system.clock import parse_time_ms
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.agents import Cursor, EntryTime, Reading, Source, StoredTurns, Unreadable
from engram.transcripts.gemini import AGENT
from engram.transcripts.growing_file import Line
from engram.transcripts.json_values import object_in, objects_in, parse_json, storable_id, storable_text
from engram.transcripts.line_parsing import BLANK, Records, parse_lines
from engram.transcripts.message_elements import judge
from engram.transcripts.message_turns import Call, Message, path_texts, whole_turns
from engram.transcripts.speaker import Speaker
from engram.transcripts.transcript_files import MAX_HEADS, Skipped, Walk, read_head
from engram.transcripts.turns import Role

# -- Find the chats on disk.

#: Since 2026, a chat has one record per line; before that, it was a single JSON document, rewritten with every message.
SUFFIXES = (".jsonl", ".json")
#: Number of bytes at the beginning of a chat that contain its id.
_HEAD_BYTES = 4096
#: Maximum size, in bytes, of a file that names project folders; a larger file is not read.
_MAX_LIST_BYTES = 4_000_000
#: The beginning of a chat: its id. In other agents' lines, the id follows other keys.
_ID = lazy_regex(rb'\s*\{\s*"sessionId"\s*:\s*"([^"\\]{1,128})"')
_SUBAGENT = lazy_regex(rb'"kind"\s*:\s*"subagent"')


def chats_folder(gemini: Path) -> Path:
    """Return the folder with a subfolder for each project, which in turn contains ``chats``."""
    return gemini / "tmp"


def find_chats(gemini: Path, *, with_subagents: bool = False, walk: Walk | None = None) -> Iterator[Source]:
    """Yield every chat in Gemini CLI's folder, sorted by path, with links last.

    A folder that is missing or unreadable yields none. ``walk.skipped`` lists the files that are not read. Only the
    beginning of a file is read, and only once per process.
    """
    folder = chats_folder(gemini)
    walk = Walk(folder) if walk is None else walk
    projects = [project for entry in walk.entries(folder) if (project := walk.folder(entry)) is not None]
    yield from _chats_in(walk, [project / "chats" for project in projects], with_subagents=with_subagents)


def chats_at(path: Path) -> Iterator[Source]:
    """Yield the chat at a path, or the chats in a folder given by the user that is or contains a ``chats`` folder."""
    path = Path(os.path.abspath(path))
    walk = Walk(path.parent)
    if path.name.startswith("session-") and path.suffix in SUFFIXES:
        yield from _source(walk, path)
        return
    if not os.path.isdir(path):
        return
    folders = (path, path / "chats", *sorted(path.glob("*/chats")), *sorted(path.glob("tmp/*/chats")))
    yield from _chats_in(walk, [folder for folder in folders if folder.name == "chats"], with_subagents=True)


def project_of(chat: Path, known_folders: Callable[[], Iterable[str]]) -> str:
    """Return the project folder of a chat; "" if unknown.

    Newer versions write it into ``.project_root`` next to ``chats`` and into ``projects.json``. Older versions named
    the folder by the SHA-256 of the project's path, which is compared with the paths that Gemini CLI has recorded, and
    then with those of known projects.

    Args:
        known_folders: returns the folders of known projects.
    """
    folder = next((parent.parent for parent in chat.parents if parent.name == "chats"), None)
    if folder is None:
        return ""
    root = storable_text((read_regular(folder / ".project_root", _MAX_LIST_BYTES) or b"").decode("utf-8", "replace"))
    if root.strip():
        return root.strip()
    gemini = folder.parent.parent
    known = object_in(_read_object(gemini / "projects.json").get("projects"))
    for path in (*known, *_read_object(gemini / "trustedFolders.json")):
        if known.get(path) == folder.name or _hash_of(path) == folder.name:
            return storable_text(path)
    is_hash = len(folder.name) == _HASH_DIGITS
    return next((path for path in known_folders() if _hash_of(path) == folder.name), "") if is_hash else ""


#: Number of hexadecimal digits of a SHA-256 hash.
_HASH_DIGITS = 64


def _hash_of(path: str) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()


def _chats_in(walk: Walk, folders: Iterable[Path], *, with_subagents: bool) -> Iterator[Source]:
    links: list[Path] = []
    for folder in folders:
        for entry in walk.entries(folder) if walk.folder_at(folder) is not None else ():
            path = Path(entry.path)
            if path.name.startswith("session-") and path.suffix in SUFFIXES:
                if entry.is_symlink():
                    links.append(path)
                else:
                    yield from _source(walk, path)
            elif with_subagents and is_session_id(path.name) and walk.folder(entry) is not None:
                # A subagent's chat is in a folder named after the session that started the subagent.
                for nested in walk.entries(path):
                    if nested.name.endswith(SUFFIXES[0]):
                        yield from _source(walk, Path(nested.path), parent_id=path.name)
    for path in links:
        yield from _source(walk, path)


def _source(walk: Walk, path: Path, parent_id: str = "") -> Iterator[Source]:
    if path.suffix == ".json" and os.path.lexists(path.with_suffix(".jsonl")):
        # A session from an older version that was resumed has been copied completely into a file of lines.
        return
    facts = walk.file(path)
    if facts is None:
        return
    try:
        session_id = _session_id(str(path), facts.st_dev, facts.st_ino)
    except EOFError:
        return
    if session_id == SUBAGENT and not parent_id:
        return
    name, stamp = path.stem if parent_id else session_id, f"{facts.st_mtime_ns}-{facts.st_size}-{facts.st_ino}"
    yield Source.of_file(AGENT, path, facts, name, parent_id=parent_id, stamp=stamp)


#: Stands for the id of a subagent's chat.
SUBAGENT = " subagent"


@lru_cache(maxsize=MAX_HEADS)
def _session_id(path: str, device: int, number: int) -> str:
    """Return the id at the beginning of a chat, or ``SUBAGENT``.

    Raises:
        EOFError: there is no id, or not yet, so the chat must be read again next time.
    """
    try:
        head = read_head(Path(path), _HEAD_BYTES)
    except (OSError, ValueError):
        raise EOFError from None
    found = _ID.match(head)
    session_id = found[1].decode("utf-8", "replace") if found else ""
    if _SUBAGENT.search(head.split(b'"messages"', 1)[0].split(b"\n", 1)[0] if path.endswith("l") else head):
        return SUBAGENT
    if not is_session_id(session_id):
        raise EOFError
    return session_id


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(read_regular(path, _MAX_LIST_BYTES) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return object_in(value)


# -- Parse a chat into its messages by id, and the words of each.

#: Message types that contain words of the conversation; the types info, warning and error are the program's own.
_ROLES = {"user": Role.USER, "gemini": Role.ASSISTANT}
#: The beginning of the program's own text in the user's place: a command that the user ran with "!", and its output.
_NOT_TYPED = "I ran the following shell command:"
#: Marks the start of the files that a prompt names with "@"; all text after it belongs to these files, whatever it
#: contains.
_FILES = lazy_regex(
    r"^[ \t]*--- Content from [^\n]{1,80} ---[ \t\r]*$|^Content from @[^\n]{1,4200}:[ \t\r]*$", re.MULTILINE
)
_SUMMARY = "<state_snapshot>"
_EDITS = frozenset({"replace", "edit", "write_file"})
_SHELL = "run_shell_command"
_EXIT_CODE = lazy_regex(r"^Exit Code: (-?\d{1,6})$", re.MULTILINE)
#: How to recognise a record on a broken line.
_RECORDS = Records(lazy_regex(r'\{\s*"(?:id|sessionId|\$set)"'), frozenset({"id", "type", "timestamp"}))
_DONE = {"success": False, "error": True, "cancelled": True}


class Chat:
    """The messages of a chat in the order in which they were first written, each in its latest version.

    Messages that the user rewound are kept because they were said, but the next messages do not follow them. Of the
    messages that Gemini CLI lists after compressing the chat, only new ones are added.
    """

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._records: dict[str, dict[str, Any]] = {}
        #: Ids of the messages that the user did not rewind; and for every message, the one of these that it follows.
        self._standing: list[str] = []
        self._behind: dict[str, str] = {}
        self.unreadable: list[Unreadable] = []

    def add_document(self, data: bytes) -> None:
        """Add a whole JSON document, as written by older versions."""
        try:
            document = parse_json(data)
        except (ValueError, RecursionError):
            self.unreadable.append(Unreadable(0, len(data), "not JSON"))
            return
        self._add_all(document.get("messages") if isinstance(document, dict) else None)

    def add_lines(self, data: bytes) -> None:
        """Add the complete lines of a file; text after the last newline is still being written."""
        lines: list[Line] = []
        offset = 0
        for number, line in enumerate(data[: data.rfind(b"\n") + 1].split(b"\n"), 1):
            lines.append(Line(offset, len(line), number, line))
            offset += len(line) + 1
        records, unreadable = parse_lines(lines, _parse_line, _RECORDS)
        self.unreadable += unreadable
        for record in records:
            self._add_record(record)

    def _add_record(self, record: dict[str, Any]) -> None:
        changed = record.get("$set")
        if isinstance(changed, dict):
            self._add_all(changed.get("messages"))
        elif name := storable_id(record.get("id")):
            self._add(name, record)
            self._records[name] = record
        elif (name := storable_id(record.get("$rewindTo"))) in self._standing:
            del self._standing[self._standing.index(name) :]
        else:
            self._add_all(record.get("messages"))

    def _add_all(self, records: object) -> None:
        for record in objects_in(records):
            if name := storable_id(record.get("id")):
                self._add(name, record)

    def _add(self, name: str, record: dict[str, Any]) -> None:
        """Add a message, unless it is known."""
        if name not in self._records:
            self._records[name] = record
            self._behind[name] = self._standing[-1] if self._standing else ""
            if str(record.get("type")) in _ROLES:
                self._standing.append(name)

    def messages(self) -> Iterator[Message]:
        """Yield the messages that the user and Gemini wrote."""
        for position, (name, record) in enumerate(self._records.items()):
            role = _ROLES.get(str(record.get("type")))
            if role is None:
                continue
            yield Message(
                id=self._id_of(name),
                role=role,
                text=_visible(record, role),
                at_ms=parse_time_ms(record.get("timestamp")),
                position=position,
                calls=tuple(_calls(record)),
                behind=self._id_of(self._behind[name]) if self._behind[name] else self._session_id,
            )

    def _id_of(self, name: str) -> str:
        return f"{AGENT}:{self._session_id}:{name}"

    @property
    def compacted_at_ms(self) -> int | None:
        """The latest time at which the chat was replaced by a summary; None if it never was."""
        times = [
            parse_time_ms(record.get("timestamp"))
            for record in self._records.values()
            if _text(record.get("content")).startswith(_SUMMARY)
        ]
        return max((at_ms for at_ms in times if at_ms), default=None)


def _parse_line(line: Line) -> dict[str, Any] | Unreadable | None:
    """Return the object on a line; None for a blank line or any other value."""
    if not line.data.strip(BLANK):
        return None
    try:
        value = parse_json(line.data)
    except (ValueError, RecursionError):
        return Unreadable(line.offset, len(line.data.rstrip(b"\r")), "not JSON")
    return value if isinstance(value, dict) else None


def _visible(record: dict[str, Any], role: Role) -> str:
    """Return the text as shown on the screen: for a prompt, as typed, without the files that it names."""
    text = (_text(record.get("displayContent")) if role is Role.USER else "") or _text(record.get("content"))
    if role is not Role.USER:
        return text
    words = judge([_FILES.split(text, maxsplit=1)[0]], Speaker.PERSON)
    return words.text if words.is_prompt and not words.text.startswith(_NOT_TYPED) else ""


def _text(content: object) -> str:
    """Return the words in a list of parts; tool results and thoughts don't count."""
    if isinstance(content, str):
        return storable_text(content).strip()
    parts = content if isinstance(content, list) else [content]
    words = [
        part if isinstance(part, str) else storable_text(part.get("text"))
        for part in parts
        if isinstance(part, str) or (isinstance(part, dict) and not part.get("thought"))
    ]
    return storable_text("\n".join(filter(None, words))).strip()


def _calls(record: dict[str, Any]) -> Iterator[Call]:
    for call in objects_in(record.get("toolCalls")):
        given = object_in(call.get("args"))
        tool, status = storable_text(call.get("name")), str(call.get("status"))
        printed = _printed(call.get("result"))
        code = _EXIT_CODE.search(printed) if tool == _SHELL else None
        is_error = _DONE.get(status)
        yield Call(
            tool=tool,
            command=storable_text(given.get("command")) if tool == _SHELL else "",
            files=path_texts(given.get("file_path"), given.get("absolute_path")),
            is_edit=tool in _EDITS,
            is_error=is_error or (code is not None and code[1] != "0") if is_error is not None else None,
            exit_code=int(code[1]) if code else None,
            is_refused=status == "cancelled",
            printed=printed,
        )


def _printed(result: object) -> str:
    """Return a tool's output, from the parts of its result."""
    texts = []
    for part in result if isinstance(result, list) else [result]:
        answer = object_in(object_in(object_in(part).get("functionResponse")).get("response"))
        texts += [storable_text(answer.get(key)) for key in ("output", "error")]
    return "\n".join(filter(None, texts))


#: Maximum size of a chat for it to be read, in bytes. A chat is read completely, because any message may be rewritten.
MAX_CHAT_BYTES = 50_000_000


class Gemini:
    """Reads the chats of Gemini CLI. A cursor is the digest of the content read."""

    name = AGENT
    title = "Gemini CLI"
    suffixes = SUFFIXES

    def resume_command(self, session_id: str, path: Path | None = None) -> str:
        """Return the command that resumes a session; a subagent's id begins with that of its parent."""
        return f"gemini --resume {session_id.partition('.')[0]}"

    def speaker_at(self, path: Path, offset: int, length: int) -> Speaker:
        """Return ``Speaker.PERSON``, because chats don't record who writes the prompts."""
        return Speaker.PERSON

    def folders(self, settings: Settings) -> tuple[Path, ...]:
        """Return the folder of all projects' chats."""
        return (chats_folder(settings.gemini_folder),)

    def discover(self, settings: Settings) -> Iterator[Source]:
        """Yield every chat in Gemini CLI's folder."""
        return find_chats(settings.gemini_folder, with_subagents=settings.subagents)

    def skipped(self, settings: Settings) -> list[Skipped]:
        """Return the files in Gemini CLI's folders of chats that are not read."""
        walk = Walk(chats_folder(settings.gemini_folder))
        for _ in find_chats(settings.gemini_folder, with_subagents=settings.subagents, walk=walk):
            pass
        return walk.skipped

    def sources_at(self, path: Path, settings: Settings) -> Iterator[Source]:
        """Yield the chat at a path, or the chats in a folder."""
        return chats_at(path)

    def read(
        self, source: Source, cursor: Cursor, stored: StoredTurns, *, settings: Settings, max_bytes: int
    ) -> Reading:
        """Read the complete chat if it has changed. Raises TranscriptError."""
        data = _read(source.path)
        after = Cursor(hashlib.sha256(data).hexdigest())
        if after == cursor:
            return Reading(cursor, stamp=source.stamp, size=len(data), bytes_read=len(data))
        chat = Chat(source.session_id)
        if len(data) > MAX_CHAT_BYTES:
            chat.unreadable.append(Unreadable(0, len(data), "too large"))
        elif source.path.suffix == ".json":
            chat.add_document(data)
        else:
            chat.add_lines(data)
        messages, cwd = list(chat.messages()), project_of(source.path, stored.project_folders)
        environment: list[str] = []
        return Reading(
            cursor=after,
            updates=whole_turns(AGENT, source.session_id, cwd, messages, environment.append),
            environment=tuple(environment),
            entries=[EntryTime(message.id, message.at_ms) for message in messages],
            unreadable=tuple(chat.unreadable),
            cwd=cwd,
            compacted_at_ms=chat.compacted_at_ms,
            stamp=source.stamp,
            size=len(data),
            bytes_read=len(data),
        )

    def is_moved(self, source: Source, cursor: Cursor) -> bool:
        """Return True if the file contains what was read. Raises TranscriptError."""
        return cursor.position == hashlib.sha256(_read(source.path)).hexdigest()


def _read(path: Path) -> bytes:
    """Return the content of a file; if it is too large, only one byte more than the limit."""
    try:
        return read_head(path, MAX_CHAT_BYTES + 1)
    except OSError as error:
        raise TranscriptError(f"{path.name} can't be read: {error.strerror or error}") from error
