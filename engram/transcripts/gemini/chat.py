"""Parse a chat of Gemini CLI, of either form, into messages. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from engram.system.clock import parse_time_ms
from engram.transcripts.agents import Unreadable
from engram.transcripts.gemini import AGENT
from engram.transcripts.lines import BLANK, Records, parse_lines, storable_id, storable_text
from engram.transcripts.messages import Call, Message, path_texts
from engram.transcripts.speaker import Speaker, judge
from engram.transcripts.tail import Line, parse_json
from engram.transcripts.turns import Role

#: Message types that hold words; info, warning and error are the program's own.
_ROLES = {"user": Role.USER, "gemini": Role.ASSISTANT}
#: How texts begin that stand in the user's place and are the program's: what the user ran with "!", and its output.
_NOT_TYPED = "I ran the following shell command:"
#: Where the files that a prompt names with "@" begin: everything behind it is theirs, whatever they say.
_FILES = re.compile(r"^[ \t]*--- Content from [^\n]{1,80} ---[ \t]*$|^Content from @[^\n]{1,400}:[ \t]*$", re.MULTILINE)
_SUMMARY = "<state_snapshot>"
_EDITS = frozenset({"replace", "edit", "write_file"})
_SHELL = "run_shell_command"
_EXIT_CODE = re.compile(r"^Exit Code: (-?\d{1,6})$", re.MULTILINE)
#: How a record is recognised on a broken line.
_RECORDS = Records(re.compile(r'\{\s*"(?:id|sessionId|\$set)"'), frozenset({"id", "type", "timestamp"}))
_DONE = {"success": False, "error": True, "cancelled": True}


class Chat:
    """The messages of a chat in the order in which they were first written, each as it was written last.

    What the user rewound stays, as it was said; a list of messages that Gemini CLI writes after it compressed the chat
    only adds what is new.
    """

    def __init__(self, session_id: str) -> None:
        """An empty chat of a session."""
        self._session_id = session_id
        self._records: dict[str, dict[str, Any]] = {}
        self.unreadable: list[Unreadable] = []

    def add_document(self, data: bytes) -> None:
        """Add a whole JSON document, as older versions write it."""
        try:
            document = parse_json(data)
        except (ValueError, RecursionError):
            self.unreadable.append(Unreadable(0, len(data), "no JSON"))
            return
        self._add_all(document.get("messages") if isinstance(document, dict) else None)

    def add_lines(self, data: bytes) -> None:
        """Add the whole lines of a file; the rest behind the last newline is not written yet."""
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
        elif storable_id(record.get("id")):
            self._records[storable_id(record["id"])] = record
        else:
            self._add_all(record.get("messages"))

    def _add_all(self, records: object) -> None:
        for record in records if isinstance(records, list) else []:
            name = storable_id(record.get("id")) if isinstance(record, dict) else ""
            if name:
                self._records.setdefault(name, record)

    def messages(self) -> list[Message]:
        """Return the messages that the user and Gemini wrote."""
        return list(self._messages())

    def _messages(self) -> Iterator[Message]:
        for position, (name, record) in enumerate(self._records.items()):
            role = _ROLES.get(str(record.get("type")))
            if role is None:
                continue
            yield Message(
                id=f"{AGENT}:{self._session_id}:{name}",
                role=role,
                text=_visible(record, role),
                at_ms=parse_time_ms(record.get("timestamp")),
                position=position,
                calls=tuple(_calls(record)),
            )

    @property
    def compacted_at_ms(self) -> int | None:
        """The latest time at which the chat was replaced by a summary; None if it was not."""
        times = [
            parse_time_ms(record.get("timestamp"))
            for record in self._records.values()
            if _text(record.get("content")).startswith(_SUMMARY)
        ]
        return max((at_ms for at_ms in times if at_ms), default=None)


def _parse_line(line: Line) -> dict[str, Any] | Unreadable | None:
    """Return the object on a line; None for a blank line and other values."""
    if not line.data.strip(BLANK):
        return None
    try:
        value = parse_json(line.data)
    except (ValueError, RecursionError):
        return Unreadable(line.offset, len(line.data.rstrip(b"\r")), "no JSON")
    return value if isinstance(value, dict) else None


def _visible(record: dict[str, Any], role: Role) -> str:
    """Return what the screen showed: a prompt as it was typed, without the files that it names."""
    text = (_text(record.get("displayContent")) if role is Role.USER else "") or _text(record.get("content"))
    if role is not Role.USER:
        return text
    words = judge([_FILES.split(text, maxsplit=1)[0]], Speaker.PERSON)
    return words.text if words.is_prompt and not words.text.startswith(_NOT_TYPED) else ""


def _text(content: object) -> str:
    """Return the words of a list of parts; results of tools and thoughts are none."""
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
    calls = record.get("toolCalls")
    for call in calls if isinstance(calls, list) else []:
        if not isinstance(call, dict):
            continue
        given = call.get("args")
        given = given if isinstance(given, dict) else {}
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
    """Return what a tool answered, out of the parts of its result."""
    texts = []
    for part in result if isinstance(result, list) else [result]:
        response = part.get("functionResponse") if isinstance(part, dict) else None
        answer = response.get("response") if isinstance(response, dict) else None
        if isinstance(answer, dict):
            texts += [storable_text(answer.get(key)) for key in ("output", "error")]
    return "\n".join(filter(None, texts))
