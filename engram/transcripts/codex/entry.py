"""Parse a line of a Codex rollout into a typed entry, or return the reason why it can't be read.

A rollout is two logs in one file: the model's input and output (``response_item``), and the output on the screen
(``event_msg``). Most texts are in both; since version 0.148, the second log has used a different name for them
(``item_completed``). An entry records which log a text is from; ``turn_builder.py`` finds the copies.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import Any, NamedTuple

from engram.system.clock import parse_time_ms
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.agents import Unreadable
from engram.transcripts.growing_file import Line
from engram.transcripts.json_values import PICTURE, objects_in, storable, storable_text, texts_in
from engram.transcripts.line_parsing import BLANK, Records, record_in
from engram.transcripts.message_elements import judge, without_inserted
from engram.transcripts.speaker import Speaker, Words

# -- Separate what a person typed in a Codex user message from what Codex added. Pure.

_PICTURE_TAG = lazy_regex(r"</?image\b[^>]*>")
#: Text that an editor or the desktop app inserts before the typed words: open and attached files, the browser.
_APP_CONTEXT = lazy_regex(
    r"# (?:Context from my IDE setup|Files mentioned by the user|In app browser|Browser comments)\b[^\n]*:|"
    r"This block is automatically supplied\b|## My request(?: for Codex)?:"
)
_APP_REQUEST = lazy_regex(r"^## My request(?: for Codex)?:[ \t]*", re.MULTILINE)
#: The beginning of such a text that quotes what is selected in an open file.
_EDITOR = "# Context from my IDE setup"
#: A comment that the person attached to a place on a page.
_APP_COMMENT = lazy_regex(r"^Comment:[ \t]*\n(.*?)\s*(?=^#{1,2} |\Z)", re.MULTILINE | re.DOTALL)
#: The app's text about pictures, after the prompt's words.
_APP_NOTE = lazy_regex(r"^The next image (?:is untrusted page evidence|was attached by the user)\b.*$", re.MULTILINE)
_REPLY = lazy_regex(r"<send_user_message_question_reply>\s*(.*?)\s*</send_user_message_question_reply>", re.DOTALL)
_FOLDER = lazy_regex(r"<cwd>([^<\n]+)</cwd>")


def words_of(text: str, *, is_for_model: bool = False) -> Words:
    """Return what a person wrote in a message; nothing if Codex wrote all of it.

    Args:
        is_for_model: True if the message is from the log of the model's input, to which Codex adds its own context. In
            this log, a message that consists only of elements is not the user's.
    """
    text = without_inserted(_PICTURE_TAG.sub("", text))
    if _APP_CONTEXT.match(text):
        # The request comes last. What looks like one before it, or like a comment, may be in a file that is open.
        requests = list(_APP_REQUEST.finditer(text))
        context, request = (text[: requests[-1].start()], text[requests[-1].end() :]) if requests else (text, "")
        comments = [] if text.startswith(_EDITOR) else _APP_COMMENT.findall(context)
        typed = [*comments, _APP_NOTE.sub("", request)]
        text = "\n\n".join(filter(None, map(str.strip, typed)))
    reply = _REPLY.fullmatch(text)
    if reply:
        return Words(Speaker.PERSON, _answers(reply[1]))
    words = judge([text], Speaker.PERSON)
    is_kept = words.is_prompt or (words.unknown and not is_for_model)
    return words if is_kept else Words(Speaker.HARNESS)


def folder_in(text: str) -> str:
    """Return the working folder named in an environment context; "" if there is none."""
    match = _FOLDER.search(text) if "<environment_context>" in text else None
    return match[1].strip() if match else ""


def _answers(text: str) -> str:
    """Return the user's answers to questions that Codex asked while it kept working."""
    try:
        replies = json.loads(text)
    except ValueError:
        return ""
    answers = [reply.get("answer") for reply in objects_in(replies)]
    return "\n".join(answer.strip() for answer in answers if isinstance(answer, str)).strip()


class Kind(StrEnum):
    """Types of lines that are read; all others are skipped."""

    #: The head of the session: id, folder, branch.
    META = "meta"
    #: The working folder.
    FOLDER = "folder"
    #: Codex started working on a prompt.
    BEGIN = "begin"
    #: Codex is done.
    END = "end"
    #: The user stopped Codex.
    ABORT = "abort"
    PROMPT = "prompt"
    REPLY = "reply"
    CALL = "call"
    RESULT = "result"
    #: A call with its result.
    FINISHED_CALL = "finished call"
    COMPACTION = "compaction"
    #: The user went back to before the last prompts; ``data`` contains their number.
    ROLLBACK = "rollback"


class Log(StrEnum):
    MODEL = "m"
    EVENT = "e"
    ITEM = "i"


class Entry(NamedTuple):
    """A line that is read. It is a named tuple because there is one for most lines."""

    kind: Kind
    offset: int
    length: int
    #: Line number from 1.
    line: int
    at_ms: int | None
    #: Depending on the kind: the words, the folder, or the id of Codex's turn; "" for other kinds.
    text: str = ""
    log: Log = Log.MODEL
    #: Parts of a prompt that were not typed, such as pasted text.
    beside: tuple[str, ...] = ()
    #: Name of the element that fills a prompt, if it is unknown.
    element: str = ""
    #: The payload, or the item in it.
    data: dict[str, Any] = {}  # noqa: RUF012


#: Kinds of payloads that are skipped without being parsed; these are half of all lines.
_SKIPPED = lazy_regex(rb'"payload":\{"type":"(?:token_count|reasoning|agent_reasoning\w*)"')
_HEAD_BYTES = 200
#: How to recognise a record on a broken line, and that a line may contain another record after its first one.
RECORDS = Records(lazy_regex(r'\{\s*"(?:timestamp|type)"'), frozenset({"timestamp", "type", "payload"}))
_MORE = b'{"timestamp"'
#: Types that have no envelope in rollouts from versions before 0.32.
_BARE_TYPES = ("message", "function_call", "function_call_output", "local_shell_call")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_RESULTS = ("function_call_output", "custom_tool_call_output", "exec_command_end", "patch_apply_end")
_FINISHED = ("CommandExecution", "FileChange", "McpToolCall")


def parse_line(line: Line) -> Entry | Unreadable | None:
    """Return the entry of a line; None for a blank line or a type that is not read. Never raises an exception."""
    raw = line.data
    if not raw.strip(BLANK):
        return None
    if _SKIPPED.search(raw[:_HEAD_BYTES]) and raw.find(_MORE, 1) < 0:
        return None
    data = record_in(line)
    if isinstance(data, Unreadable):
        return data
    type_, payload = _unwrap(data)
    entry = Entry(
        kind=Kind.META,
        offset=line.offset,
        length=line.length,
        line=line.number,
        at_ms=parse_time_ms(data.get("timestamp")),
        data=payload,
    )
    if type_ == "response_item":
        return _of_model(entry, payload)
    if type_ == "event_msg":
        return _of_event(entry, payload)
    if type_ == "session_meta":
        return entry
    if type_ == "turn_context":
        return entry._replace(kind=Kind.FOLDER, text=storable_text(payload.get("cwd")))
    return entry._replace(kind=Kind.COMPACTION) if type_ == "compacted" else None


def _unwrap(data: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the type and payload of a line; the oldest rollouts have no envelope."""
    type_, payload = data.get("type"), data.get("payload")
    if isinstance(payload, dict):
        return (type_ if isinstance(type_, str) else ""), payload
    if type_ in _BARE_TYPES:
        return "response_item", data
    is_head = type_ is None and isinstance(data.get("id"), str) and "instructions" in data
    return ("session_meta" if is_head else ""), data


def _of_model(entry: Entry, payload: dict[str, Any]) -> Entry | None:
    type_ = payload.get("type")
    if type_ in _CALLS:
        return entry._replace(kind=Kind.CALL)
    if type_ in _RESULTS:
        return entry._replace(kind=Kind.RESULT)
    if type_ != "message":
        return None
    content = payload.get("content")
    parts = texts_in(content)
    if payload.get("role") == "assistant":
        return _spoken(entry, Kind.REPLY, "\n".join(parts), Log.MODEL)
    if payload.get("role") != "user":
        return None
    content = _labelled_as_users(content, payload)
    words = [words_of(part, is_for_model=True) for part in texts_in(content)]
    typed = "\n".join(part.text for part in words if part.text)
    folder = next((folder for part in parts if (folder := folder_in(part))), "")
    if folder and not typed:
        return entry._replace(kind=Kind.FOLDER, text=storable(folder))
    entry = entry._replace(beside=tuple(text for part in words for text in part.beside))
    return _spoken(entry, Kind.PROMPT, typed or _picture(content), Log.MODEL)


def _labelled_as_users(content: object, payload: dict[str, Any]) -> object:
    """Return the parts of a message's content except those that Codex labels as its own, such as a hook's context.

    Versions since 0.150 label every part: ``user.text``, ``agents_md.instructions``, ``hooks.additional_context``.
    """
    metadata = payload.get("internal_chat_message_metadata_passthrough")
    kinds = metadata.get("content_item_kinds") if isinstance(metadata, dict) else None
    if not isinstance(content, list) or not isinstance(kinds, list) or len(kinds) != len(content):
        return content
    return [part for part, kind in zip(content, kinds, strict=True) if str(kind).startswith("user.")]


def _of_event(entry: Entry, payload: dict[str, Any]) -> Entry | None:
    match payload.get("type"):
        case "user_message" if payload.get("kind") in (None, "plain"):
            words = words_of(storable_text(payload.get("message")))
            has_picture = bool(payload.get("images") or payload.get("local_images"))
            is_picture = has_picture and not storable_text(payload.get("message")).strip()
            return _asked(entry, words, PICTURE if is_picture else words.text, Log.EVENT)
        case "agent_message":
            return _spoken(entry, Kind.REPLY, storable_text(payload.get("message")), Log.EVENT)
        case "item_completed":
            item = payload.get("item")
            return _of_item(entry, item) if isinstance(item, dict) else None
        case "task_started" | "turn_started":
            return entry._replace(kind=Kind.BEGIN, text=storable_text(payload.get("turn_id")))
        case "task_complete" | "turn_complete":
            return entry._replace(kind=Kind.END)
        case "turn_aborted":
            return entry._replace(kind=Kind.ABORT)
        case "exec_command_end" | "patch_apply_end":
            return entry._replace(kind=Kind.RESULT)
        case "context_compacted":
            return entry._replace(kind=Kind.COMPACTION)
        case "thread_rolled_back":
            return entry._replace(kind=Kind.ROLLBACK)
    return None


def _of_item(entry: Entry, item: dict[str, Any]) -> Entry | None:
    type_ = item.get("type")
    if type_ == "UserMessage":
        content = item.get("content")
        words = words_of("\n".join(texts_in(content)))
        return _asked(entry, words, words.text or _picture(content), Log.ITEM)
    if type_ == "AgentMessage":
        return _spoken(entry, Kind.REPLY, "\n".join(texts_in(item.get("content"))), Log.ITEM)
    return entry._replace(kind=Kind.FINISHED_CALL, data=item) if type_ in _FINISHED else None


def _asked(entry: Entry, words: Words, text: str, log: Log) -> Entry | None:
    """Return the entry of a prompt that the screen showed; None if there is none."""
    return _spoken(entry._replace(beside=words.beside, element=words.unknown), Kind.PROMPT, text, log)


def _spoken(entry: Entry, kind: Kind, text: str, log: Log) -> Entry | None:
    text = storable(text.strip())
    return entry._replace(kind=kind, text=text, log=log, data={}) if text else None


def _picture(content: object) -> str:
    """Return the text that represents a prompt consisting only of a picture; "" if there is text or no picture."""
    parts = objects_in(content)
    has_picture = any("image" in str(part.get("type")) for part in parts)
    has_text = any(words_of(text).text for text in texts_in(parts))
    return PICTURE if has_picture and not has_text else ""
