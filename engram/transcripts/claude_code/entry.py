"""Parse one line of a Claude Code transcript into a typed entry, or say why it cannot be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from engram.system.clock import parse_time_ms
from engram.transcripts.agents import PullRequest, Title, TitleRank, Unreadable
from engram.transcripts.lines import BLANK, PICTURE, Records, storable_id, storable_text
from engram.transcripts.speaker import (
    Speaker,
    Words,
    came_by_messenger,
    claude_code_speaker,
    declares_person,
    judge,
    sets_something,
    without_inserted,
)
from engram.transcripts.tail import Line, parse_json

_SCALARS = rb'\s*+\{(?:(?!"(?:type|attachment)":)"\w++":(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|true|false|null|-?\d++),)*+'
#: Finds the type of a line whose first keys are plain scalars without parsing the rest.
_TYPE = re.compile(_SCALARS + rb'"type":"([\w-]++)"')
_ATTACHMENT = re.compile(_SCALARS + rb'"attachment":\{')
#: A web address that is short enough to be kept.
_WEB_ADDRESS = re.compile(r"https?://[!-~]{1,300}")
#: How a record is recognised on a broken line.
RECORDS = Records(
    re.compile(r'\{\s*"(?:parentUuid|type|uuid|sessionId|isSidechain)"'), frozenset({"type", "sessionId"})
)
#: What shows that a line may hold another record behind its first one.
_MORE = (b'{"parentUuid"', b'}{"type":"', b'{"type":"queue-operation"')
#: Bytes at the beginning of a line that decide whether looking for its type is worthwhile.
_HEAD_BYTES = 700


class Kind(StrEnum):
    """The types of lines that are read; all others are skipped."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    ATTACHMENT = "attachment"
    QUEUE = "queue-operation"
    #: Names a pull request of the session; it has no uuid and belongs to no turn.
    PULL_REQUEST = "pr-link"
    #: Titles for people; they have no uuid and belong to no turn.
    SUMMARY = "summary"
    AI_TITLE = "ai-title"
    CUSTOM_TITLE = "custom-title"


#: Kind of line → how much its title counts, and the keys that hold it.
_TITLES: dict[Kind, tuple[TitleRank, tuple[str, ...]]] = {
    Kind.SUMMARY: (TitleRank.SUMMARY, ("summary",)),
    Kind.AI_TITLE: (TitleRank.GENERATED, ("aiTitle", "title")),
    Kind.CUSTOM_TITLE: (TitleRank.CUSTOM, ("customTitle", "title")),
}
_KINDS = {kind.value: kind for kind in Kind}
_KIND_BYTES = {kind.value.encode(): kind for kind in Kind}


class Entry(NamedTuple):
    """A line that is read. Fields that are missing or of an unexpected type are empty."""

    kind: Kind
    offset: int
    length: int
    #: Line number from 1.
    line: int
    uuid: str
    at_ms: int | None
    cwd: str
    branch: str
    #: The parsed object; its strings may hold characters that ``storable`` replaces.
    data: dict[str, Any]
    #: The message of the line; empty if there is none.
    message: dict[str, Any]

    @property
    def is_aside(self) -> bool:
        """True for lines of a subagent: they hold words neither of the user nor of the assistant."""
        return self.data.get("isSidechain") is True or bool(self.data.get("agentId"))

    @property
    def is_compaction(self) -> bool:
        """True for the line that marks a compaction: everything before it left the context."""
        return self.kind is Kind.SYSTEM and self.data.get("subtype") == "compact_boundary" and not self.is_aside

    @property
    def pull_request(self) -> PullRequest | None:
        """The pull request that a ``pr-link`` line names; None for other lines and for what is no web address."""
        url = storable_text(self.data.get("prUrl")) if self.kind is Kind.PULL_REQUEST else ""
        return PullRequest(self.at_ms or 0, url) if _WEB_ADDRESS.fullmatch(url) else None

    @property
    def title(self) -> Title | None:
        """The title that a line gives a session; None for other lines."""
        if self.kind not in _TITLES:
            return None
        rank, keys = _TITLES[self.kind]
        text = next((text for key in keys if (text := storable_text(self.data.get(key)).strip())), "")
        entry = storable_id(self.data.get("leafUuid")) if self.kind is Kind.SUMMARY else ""
        # A summary without the entry that it ends with may be of any session.
        return Title(text, rank, entry) if text and (entry or self.kind is not Kind.SUMMARY) else None


def parse_line(line: Line) -> Entry | Unreadable | None:
    """Return the entry of a line; None for a blank line and for types that are not read. Never raises on any bytes."""
    raw = line.data
    if _is_skipped(raw):
        return None
    try:
        data = parse_json(raw)
    except ValueError:
        return Unreadable(line.offset, line.length, "not JSON")
    except RecursionError:
        return Unreadable(line.offset, line.length, "nested too deeply")
    except MemoryError:
        return Unreadable(line.offset, line.length, "too large for the memory")
    if not isinstance(data, dict):
        return Unreadable(line.offset, line.length, "not a JSON object")
    return _entry(line, data)


def _is_skipped(raw: bytes) -> bool:
    """True for lines that need not be parsed: blank, or clearly of a type that is not read."""
    head = raw[:_HEAD_BYTES]
    if head.startswith(b'{"type":') or b'"type":"progress"' in head:
        sniffed = _TYPE.match(raw)
        return sniffed is not None and sniffed[1] not in _KIND_BYTES and not _holds_more(raw)
    if b'"attachment":{' in head:
        return b"queued_command" not in raw and _ATTACHMENT.match(raw) is not None and not _holds_more(raw)
    return not head.startswith(b"{") and not raw.strip(BLANK)


def _holds_more(raw: bytes) -> bool:
    """True if another record may be behind the first one of a line; strings hold none of these unescaped."""
    first, second, third = _MORE
    return raw.find(first, 1) >= 0 or raw.find(second, 1) >= 0 or raw.find(third, 1) >= 0


def _entry(line: Line, data: dict[str, Any]) -> Entry | None:
    type_ = data.get("type")
    kind = _KINDS.get(type_) if isinstance(type_, str) else None
    if kind is None or (kind is Kind.ATTACHMENT and not _is_queued_command(data)):
        return None
    message = data.get("message")
    return Entry(
        kind=kind,
        offset=line.offset,
        length=line.length,
        line=line.number,
        uuid=storable_id(_id_of(data)),
        at_ms=parse_time_ms(data.get("timestamp")),
        cwd=storable_text(data.get("cwd")),
        branch=storable_text(data.get("gitBranch")),
        data=data,
        message=message if isinstance(message, dict) else {},
    )


def _id_of(data: dict[str, Any]) -> object:
    """Return the id of a line; of a line of a fork's history, which is a copy, that of the line it was copied from."""
    if "forkedFrom" not in data:
        return data.get("uuid")
    origin = data["forkedFrom"]
    copied = origin.get("messageUuid") if isinstance(origin, dict) else None
    return copied or data.get("uuid")


def _is_queued_command(data: dict[str, Any]) -> bool:
    attachment = data.get("attachment")
    return isinstance(attachment, dict) and attachment.get("type") == "queued_command"


# -- What a line of Claude Code in the user's place says, by the rule of ``engram.transcripts.speaker``.

NO_WORDS = Words(Speaker.HARNESS)


def text_of(content: object) -> str:
    """Return the text of a message's content: the string itself, or its text blocks joined by newlines."""
    return "\n".join(_texts(content))


def words_of(entry: Entry) -> Words:
    """Return what an entry in the user's place says, and who says it; nothing for all other entries."""
    if entry.kind is Kind.ATTACHMENT:
        return _queued_command(entry)
    if entry.kind is not Kind.USER or _has_result(content := entry.message.get("content")):
        return NO_WORDS
    words = _judged(content, entry.data)
    has_picture = isinstance(content, list) and any(_is_block(block, "image") for block in content)
    if has_picture and not any(map(without_inserted, _texts(content))):
        return words._replace(speaker=claude_code_speaker(entry.data), text=PICTURE)
    return words


def queued_words(content: object, fields: Mapping[str, Any]) -> Words:
    """Return what a text says that waits in the queue while Claude works.

    A command without further words is no prompt, and neither are the data of a task and a command that sets something.
    Any other command with further words (``/review the parser``) is one, since the words reach the model.
    """
    words = _judged(content, fields)
    is_bare = words.text.startswith("/") and (len(words.text.split()) == 1 or sets_something(words.text))
    is_data = words.text.startswith("{") and '"task_id"' in words.text[:200]
    return words._replace(text="") if is_bare or is_data else words


def is_by_program(entry: Entry) -> bool:
    """Return True for a line of a session that a program runs: what its dialogs report is the program's."""
    return claude_code_speaker(entry.data) is Speaker.PROGRAM


def _queued_command(entry: Entry) -> Words:
    attachment = entry.data.get("attachment")
    if not isinstance(attachment, dict) or attachment.get("commandMode") not in (None, "prompt"):
        return NO_WORDS
    return queued_words(attachment.get("prompt"), {**entry.data, **attachment})


def _judged(content: object, fields: Mapping[str, Any]) -> Words:
    return judge(
        _texts(content),
        claude_code_speaker(fields),
        is_declared=declares_person(fields),
        by_messenger=came_by_messenger(fields),
    )


def _has_result(content: object) -> bool:
    return isinstance(content, list) and any(_is_block(block, "tool_result") for block in content)


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list) else []
    return [str(b["text"]) for b in blocks if _is_block(b, "text") and isinstance(b.get("text"), str)]


def _is_block(block: Any, type_: str) -> bool:
    return isinstance(block, dict) and block.get("type") == type_
