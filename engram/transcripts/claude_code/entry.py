"""Parse a line of a Claude Code transcript into a typed entry, or return the reason why it can't be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from engram.system.clock import parse_time_ms
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.agents import PullRequest, Title, TitleRank, Unreadable
from engram.transcripts.growing_file import Line
from engram.transcripts.json_values import PICTURE, object_in, objects_in, storable_id, storable_text, texts_in
from engram.transcripts.line_parsing import BLANK, Records, record_in
from engram.transcripts.message_elements import judge, without_inserted
from engram.transcripts.speaker import Speaker, Words, came_by_messenger, claude_code_speaker, declares_person

_SCALARS = rb'\s*+\{(?:(?!"(?:type|attachment)":)"\w++":(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|true|false|null|-?\d++),)*+'
#: Finds the type of a line whose first keys are plain scalars, without parsing the rest.
_TYPE = lazy_regex(_SCALARS + rb'"type":"([\w-]++)"')
_ATTACHMENT = lazy_regex(_SCALARS + rb'"attachment":\{')
#: A web address that is short enough to be stored.
_WEB_ADDRESS = lazy_regex(r"https?://[!-~]{1,300}")
#: Recognises a record on a broken line.
RECORDS = Records(
    lazy_regex(r'\{\s*"(?:parentUuid|type|uuid|sessionId|isSidechain)"'), frozenset({"type", "sessionId"})
)
#: Indicates that a line may contain another record after its first one.
_MORE = lazy_regex(rb'\{"(?:parentUuid"|type":"(?:queue-operation"|(?<=\}\{"type":")))')
#: Number of bytes at the beginning of a line that decide whether looking for its type is worthwhile.
_HEAD_BYTES = 700


class Kind(StrEnum):
    """The types of lines that are read; all others are skipped."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    ATTACHMENT = "attachment"
    QUEUE = "queue-operation"
    #: Links a pull request to the session; it has no uuid and is not part of a turn.
    PULL_REQUEST = "pr-link"
    #: Titles to be displayed; they have no uuid and are not part of a turn.
    SUMMARY = "summary"
    AI_TITLE = "ai-title"
    CUSTOM_TITLE = "custom-title"


#: Kind of line → the rank of its title, and the keys that contain it.
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
    #: The parsed object; its strings may contain characters that ``storable`` replaces.
    data: dict[str, Any]
    #: The message of the line; empty if there is none.
    message: dict[str, Any]

    @property
    def is_aside(self) -> bool:
        """True for lines of a subagent, which contain neither the user's words nor the assistant's."""
        return self.data.get("isSidechain") is True or bool(self.data.get("agentId"))

    @property
    def is_compaction(self) -> bool:
        """True for the line that marks a compaction, with which everything before it leaves the context."""
        return self.kind is Kind.SYSTEM and self.data.get("subtype") == "compact_boundary" and not self.is_aside

    @property
    def pull_request(self) -> PullRequest | None:
        """The pull request in a ``pr-link`` line; None for other lines and for anything but a web address."""
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
        # A summary without its last entry may belong to any session.
        return Title(text, rank, entry) if text and (entry or self.kind is not Kind.SUMMARY) else None


def parse_line(line: Line) -> Entry | Unreadable | None:
    """Return the entry of a line; None for a blank line or a type that is not read. Never raises an exception."""
    if _is_skipped(line.data):
        return None
    data = record_in(line)
    return data if isinstance(data, Unreadable) else _entry(line, data)


def _is_skipped(raw: bytes) -> bool:
    """Return True for lines that need not be parsed: blank, or clearly of a type that is not read."""
    if raw.startswith(b'{"type":') or raw.find(b'"type":"progress"', 0, _HEAD_BYTES) >= 0:
        sniffed = _TYPE.match(raw)
        return sniffed is not None and sniffed[1] not in _KIND_BYTES and not _holds_more(raw)
    if raw.find(b'"attachment":{', 0, _HEAD_BYTES) >= 0:
        return b"queued_command" not in raw and _ATTACHMENT.match(raw) is not None and not _holds_more(raw)
    return not raw.startswith(b"{") and not raw.strip(BLANK)


def _holds_more(raw: bytes) -> bool:
    """Return True if another record may follow the first one on a line.

    Within strings, the marks of a record are escaped.
    """
    return _MORE.search(raw, 1) is not None


def _entry(line: Line, data: dict[str, Any]) -> Entry | None:
    type_ = data.get("type")
    kind = _KINDS.get(type_) if isinstance(type_, str) else None
    if kind is None or (kind is Kind.ATTACHMENT and not _is_block(data.get("attachment"), "queued_command")):
        return None
    # Arguments are passed by position for speed, since there is an entry for nearly every line.
    return Entry(
        kind,
        line.offset,
        line.length,
        line.number,
        storable_id(_original_id(data) if "forkedFrom" in data else data.get("uuid")),
        parse_time_ms(data.get("timestamp")),
        storable_text(data.get("cwd")),
        storable_text(data.get("gitBranch")),
        data,
        object_in(data.get("message")),
    )


def _original_id(data: dict[str, Any]) -> object:
    """Return the id of the original of a line that was copied into a fork's history."""
    origin = data["forkedFrom"]
    copied = origin.get("messageUuid") if isinstance(origin, dict) else None
    return copied or data.get("uuid")


# -- Extract the words in the user's place from a Claude Code line, by the rule in ``engram.transcripts.speaker``.

NO_WORDS = Words(Speaker.HARNESS)
#: Claude Code's text before and after an approved plan.
_PLAN_BEGINNING = "Implement the following plan:\n"
_PLAN_END = lazy_regex(r"\s*If you need specific details from before exiting plan mode\b.*", re.DOTALL)


def text_of(content: object) -> str:
    """Return the text of a message's content: the string itself, or its text blocks joined by newlines."""
    return "\n".join(texts_in(content, "text"))


def words_of(entry: Entry) -> Words:
    """Return the words of an entry in the user's place, and who speaks; empty words for all other entries."""
    if entry.kind is Kind.ATTACHMENT:
        return _queued_command(entry)
    if entry.kind is not Kind.USER:
        return NO_WORDS
    content = entry.message.get("content")
    types = [block.get("type") for block in objects_in(content)]
    if "tool_result" in types:
        return NO_WORDS
    words = _without_plan(_judged(content, entry.data), entry.data)
    if "image" in types and not any(map(without_inserted, texts_in(content, "text"))):
        return words._replace(speaker=claude_code_speaker(entry.data), text=PICTURE)
    return words


def _without_plan(words: Words, fields: Mapping[str, Any]) -> Words:
    """Return the words without the plan that Claude Code inserts into a prompt when the user approves a plan.

    The assistant wrote the plan. Its heading is kept, so that people recognise the session. Older versions don't repeat
    the plan next to the prompt; for them, the plan is the text after the words that begin such a prompt.
    """
    plan = fields.get("planContent")
    if not isinstance(plan, str):
        is_older = words.text.startswith(_PLAN_BEGINNING) and not declares_person(fields)
        plan = _PLAN_END.sub("", words.text[len(_PLAN_BEGINNING) :]) if is_older else ""
    plan = plan.strip()
    before, found, after = words.text.partition(plan) if plan else ("", "", "")
    if not found:
        return words
    heading = plan.partition("\n")[0] if plan.startswith("#") else ""
    parts = (part.strip() for part in (before, heading, _PLAN_END.sub("", after)))
    return words._replace(text="\n\n".join(filter(None, parts)), beside=(*words.beside, plan))


def queued_words(content: object, fields: Mapping[str, Any]) -> Words:
    """Return the words of text that was queued while Claude was working; the data of a task is not a prompt."""
    words = _judged(content, fields)
    is_data = words.text.startswith("{") and '"task_id"' in words.text[:200]
    return words._replace(text="") if is_data else words


def _queued_command(entry: Entry) -> Words:
    attachment = entry.data.get("attachment")
    if not isinstance(attachment, dict) or attachment.get("commandMode") not in (None, "prompt"):
        return NO_WORDS
    return queued_words(attachment.get("prompt"), {**entry.data, **attachment})


def _judged(content: object, fields: Mapping[str, Any]) -> Words:
    return judge(
        texts_in(content, "text"),
        claude_code_speaker(fields),
        is_declared=declares_person(fields),
        by_messenger=came_by_messenger(fields),
    )


def _is_block(block: Any, type_: str) -> bool:
    return isinstance(block, dict) and block.get("type") == type_
