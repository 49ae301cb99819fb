"""The output of a language model: its schema, and functions that parse it.

Unknown keys are ignored, and missing ones are filled in if that is safe.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from engram.enums import Importance, Kind, Scope
from engram.extraction.model.provider import Prose
from engram.models.sessions.sessions import MAX_ROLLING_SUMMARY_CHARACTERS
from engram.redaction import redact
from engram.system.lazy_regex import lazy_regex

#: Maximum number of memories read from an output.
MAX_ANSWER_MEMORIES = 60
#: Maximum number of passages of a memory.
MAX_PASSAGES = 2
#: Maximum number of braces in a text that are tried as the beginning of the output; the model may write some before it.
_MAX_STARTS = 50
#: Maximum number of objects around an answer, and keys of which each item of a bare list has one.
_MAX_WRAPPERS, _ITEM_KEYS = 3, {"evidence", "target"}
_VALUE_STARTS = lazy_regex(r"[{\[]")
#: A whole answer without memories.
_NO_MEMORIES = lazy_regex(r"\s*(?:```\w*\s*)?\[\s*\]\s*(?:```\s*)?")
#: Keys with a list of texts. Other items are ignored, and a single text counts as a list of one.
_LISTS = {"passages", "entities", "questions", "evidence"}
#: Keys with a value from a fixed list. A model without a schema may spell the value differently: "Dead end", "HIGH".
_CHOICES = {"action", "kind", "importance", "scope"}
#: Keys that a usable memory must have, with values of the right shape.
_REQUIRED = {"summary", "evidence"}

Action = Literal["new", "same", "corrects", "supersedes", "resolves", "retracts"]
ProposedKind = Literal[Kind.DECISION, Kind.PREFERENCE, Kind.FIX, Kind.FACT, Kind.STATE, Kind.DEAD_END]


class ProposedMemory(BaseModel):
    model_config = ConfigDict(extra="ignore")

    kind: ProposedKind = Kind.FACT
    summary: str = ""
    evidence: list[str]
    action: Action = "new"
    #: Short id of the memory that the action refers to.
    target: str | None = None
    passages: list[str] = []
    entities: list[str] = []
    questions: list[str] = []
    #: At most ten words; "" if the model gave none.
    title: str = ""
    importance: Importance = Importance.NORMAL
    scope: Scope = Scope.PROJECT


class ModelOutput(BaseModel):
    model_config = ConfigDict(extra="ignore")

    memories: list[ProposedMemory]
    rolling_summary: str = ""
    #: Number of memories that were left out because they have the wrong shape.
    unreadable: int = 0


def _strings(**more: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, **more}


_MEMORY_PROPERTIES: dict[str, Any] = {
    "action": {"type": "string", "enum": list(get_args(Action))},
    "target": {"type": ["string", "null"]},
    "kind": {"type": "string", "enum": list(get_args(ProposedKind))},
    "summary": {"type": "string"},
    "passages": _strings(),
    "entities": _strings(),
    "questions": _strings(),
    "title": {"type": "string"},
    "importance": {"type": "string", "enum": [Importance.HIGH, Importance.NORMAL]},
    "scope": {"type": "string", "enum": [Scope.PROJECT, Scope.GLOBAL]},
    "evidence": _strings(),
}


def answer_schema(item: Mapping[str, Any], **more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an answer: an object with a list of ``memories``.

    Every key is required and none may be added, because strict servers demand this.

    Args:
        item: the properties of an item of the list.
        more: additional properties of the answer.
    """
    memories = {"type": "array", "items": _strict_object(item)}
    return _strict_object({"memories": memories, **more})


def _strict_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


#: The schema that providers must follow in their answer.
ANSWER_SCHEMA: Mapping[str, Any] = answer_schema(_MEMORY_PROPERTIES, rolling_summary={"type": "string"})


def read_answer(text: str) -> ModelOutput:
    """Parse the output in a text; it may be inside a code fence or after the model's thoughts.

    Memories with the wrong shape are left out.

    Raises:
        Prose: there is no output, or none of its memories has the right shape.
        ValueError: it is incomplete.
    """
    answer = json_object(text)
    proposed = answer["memories"][:MAX_ANSWER_MEMORIES]
    memories = [memory for memory in map(_memory, proposed) if memory is not None]
    if proposed and not memories:
        raise Prose("no memory in the answer has the right shape")
    summary = answer.get("rolling_summary")
    return ModelOutput(
        memories=memories,
        rolling_summary=summary if isinstance(summary, str) else "",
        unreadable=len(proposed) - len(memories),
    )


def listed_memories(text: str) -> list[Any]:
    """Return the unchecked items under ``memories`` in a text, for answers with another schema. Raises ValueError."""
    return list(json_object(text)["memories"][:MAX_ANSWER_MEMORIES])


def json_object(text: str) -> dict[str, Any]:
    """Return the object with ``memories`` in a text, as ``read_answer`` finds it.

    It may also be the only one inside other objects, such as ``{"result": …}``, or be written as a bare list.

    Raises:
        Prose: there is no such object, not even a partial one; another request may get no better answer.
        ValueError: it is incomplete.
    """
    thoughts, mark, rest = text.rpartition("</think>")
    answer, failure = _find_object(rest)
    if answer is None and mark:
        # The mark may be part of a memory's text.
        answer, _ = _find_object(text, after=len(thoughts))
    answer = answer or _wrapped_answer(rest)
    if answer is not None:
        return answer
    text = rest
    if failure is None:
        raise Prose("the answer has the wrong shape")
    if '"memories"' in text or text.lstrip().startswith("{"):
        raise ValueError("the answer is incomplete") from failure
    raise Prose("the answer is not JSON") from failure


def _find_object(text: str, after: int = -1) -> tuple[dict[str, Any] | None, Exception | None]:
    """Return the first object with ``memories`` that ends after position ``after``, and the first error before it."""
    decoder = json.JSONDecoder()
    at, failure = max(0, text.find("{")), None
    for _ in range(_MAX_STARTS):
        try:
            # The text after the object may also contain braces.
            answer, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            failure, end = failure or error, at + 1
        else:
            if isinstance(answer, dict) and isinstance(answer.get("memories"), list) and end > after:
                return answer, failure
        if (at := text.find("{", end)) < 0:
            break
    return None, failure


def _wrapped_answer(text: str) -> dict[str, Any] | None:
    """Return the only answer in a text that is inside another value or a bare list; None if there are more or none.

    If an object can't be decoded, the text may have been cut off, and then what is found in it may be only a part.
    """
    if _NO_MEMORIES.fullmatch(text):
        return {"memories": []}
    decoder, found, end = json.JSONDecoder(), list[dict[str, Any]](), 0
    for start in islice(_VALUE_STARTS.finditer(text), _MAX_STARTS):
        if start.start() < end:
            continue
        try:
            value, end = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            if start[0] == "{":
                return None
        else:
            found += _answers_in(value)
    return found[0] if len(found) == 1 else None


def _answers_in(value: Any, depth: int = 0) -> list[dict[str, Any]]:
    """Return the answers in a decoded value, which may be written as JSON in a text."""
    if isinstance(value, str):
        inner = _find_object(value)[0] if '"memories"' in value else None
        return [] if inner is None else [inner]
    if isinstance(value, list):
        is_answer = all(isinstance(item, dict) and _ITEM_KEYS & item.keys() for item in value)
        return [{"memories": value}] if value and is_answer else []
    if not isinstance(value, dict) or depth > _MAX_WRAPPERS:
        return []
    if isinstance(value.get("memories"), list):
        return [value]
    return [answer for inner in value.values() for answer in _answers_in(inner, depth + 1)]


def _memory(raw: Any) -> ProposedMemory | None:
    if not isinstance(raw, dict):
        return None
    filled = {name: value for name, value in raw.items() if value is not None}
    old_content = filled.get("content")
    if "passages" not in filled and isinstance(old_content, str):
        filled["passages"] = [old_content]
    for name in _LISTS & filled.keys():
        given = filled[name] if isinstance(filled[name], list) else [filled[name]]
        filled[name] = [text for text in given if isinstance(text, str)]
    for name in _CHOICES & filled.keys():
        filled[name] = "-".join(str(filled[name]).lower().replace("_", " ").split())
    asked = filled.get("action", "new")
    # Also "retract" or "superseded".
    filled["action"] = next((action for action in get_args(Action) if asked.startswith(action.rstrip("s"))), asked)
    if filled["action"] != "retracts" and "summary" not in filled:
        return None
    try:
        return ProposedMemory.model_validate(filled)
    except ValidationError as error:
        wrong = {problem["loc"][0] for problem in error.errors(include_url=False, include_input=False)}
    except RecursionError:
        return None
    # With an unknown action, a memory with a target may say what no longer holds.
    if wrong & _REQUIRED or ("action" in wrong and filled.get("target")):
        return None
    return ProposedMemory.model_validate({name: value for name, value in filled.items() if name not in wrong})


def rolling_summary_of(answer: ModelOutput) -> str:
    """Return the summary of the session so far, redacted; "" if the model gave none."""
    return " ".join(redact(cleaned(answer.rolling_summary)).split())[:MAX_ROLLING_SUMMARY_CHARACTERS]


def cleaned(text: str) -> str:
    """Remove the characters that no database accepts: NULs and lone surrogates."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
