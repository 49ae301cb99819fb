"""The data sets that ``engram bench`` reads: LoCoMo, LongMemEval, and questions over coding sessions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engram.errors import BadRequest

#: LoCoMo's numbers of categories; the fifth ("adversarial") has no answer and is left apart.
LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
#: Evidence ids as they should be (D8:6); some are malformed: "D8:6; D9:17", "D:11:26", "D30:05".
_DIALOGUE_ID = re.compile(r"D:?\s*(\d+)\s*:\s*0*(\d+)")
_SESSION_KEY = re.compile(r"session_\d+")
_LOCOMO_DATE = "%I:%M %p on %d %B, %Y"


@dataclass(frozen=True, slots=True)
class Unit:
    """One thing said in a chat: the unit that is found."""

    #: Unique in the whole set.
    id: str
    session: str
    speaker: str
    text: str
    at_ms: int
    #: True for the first of the two who speak (the user, where one is).
    is_first: bool


@dataclass(frozen=True, slots=True)
class Question:
    """One question with what answers it."""

    id: str
    text: str
    category: str
    #: Ids of units, or uuids of entries; empty where nothing answers it.
    wanted: frozenset[str]
    #: When it is asked, in milliseconds since 1970; None: after all that was said.
    now_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Chat:
    """One memory to be filled and the questions to it."""

    name: str
    units: tuple[Unit, ...]
    questions: tuple[Question, ...]


def read_locomo(path: Path) -> Iterator[Chat]:
    """LoCoMo's conversations, categories 1 to 4, questions with evidence that can be resolved.

    Raises:
        BadRequest: the file is not LoCoMo's JSON.
    """
    for number, one in enumerate(_json(path)):
        try:
            name = str(one.get("sample_id", number))
            units = tuple(_locomo_units(name, one["conversation"]))
            yield Chat(name, units, tuple(_locomo_questions(name, one["qa"], {unit.id for unit in units})))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadRequest(f"{path} is not in the form of LoCoMo: {error!r}") from error


def _locomo_units(name: str, conversation: dict[str, Any]) -> Iterator[Unit]:
    keys = sorted((key for key in conversation if _SESSION_KEY.fullmatch(key)), key=lambda key: int(key[8:]))
    for key in keys:
        day = datetime.strptime(conversation[f"{key}_date_time"], _LOCOMO_DATE).replace(tzinfo=UTC)
        for place, turn in enumerate(conversation[key]):
            caption = f" [shares {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            yield Unit(
                f"{name}/{turn['dia_id']}", f"{name}-{key}", turn["speaker"], turn["text"] + caption,
                int(day.timestamp() * 1000) + place * 1000, turn["speaker"] == conversation["speaker_a"],
            )  # fmt: skip


def _locomo_questions(name: str, asked: list[dict[str, Any]], known: set[str]) -> Iterator[Question]:
    for number, one in enumerate(asked):
        found = (pair for text in one.get("evidence", []) for pair in _DIALOGUE_ID.findall(text))
        wanted = frozenset(f"{name}/D{int(session)}:{int(place)}" for session, place in found) & known
        if one["category"] in LOCOMO_CATEGORIES and wanted:
            category = LOCOMO_CATEGORIES[one["category"]]
            yield Question(f"{name}-{number}", one["question"], category, frozenset(wanted))


def read_longmemeval(path: Path) -> Iterator[Chat]:
    """LongMemEval: each question has a history of its own; what answers it are the turns marked ``has_answer``.

    Where no turn is marked, every turn of an answer session counts. Raises BadRequest for another form.
    """
    for one in _json(path):
        try:
            yield _longmemeval_chat(one)
        except (KeyError, TypeError, ValueError) as error:
            raise BadRequest(f"{path} is not in the form of LongMemEval: {error!r}") from error


def _longmemeval_chat(one: dict[str, Any]) -> Chat:
    name = str(one["question_id"])
    units, marked, told = [], set(), set()
    sessions = zip(one["haystack_session_ids"], one["haystack_dates"], one["haystack_sessions"], strict=True)
    for session_id, date, turns in sessions:
        day = _longmemeval_ms(date)
        for place, turn in enumerate(turns):
            unit = Unit(
                f"{name}/{session_id}/{place}", f"{name}-{session_id}", turn["role"], turn["content"],
                day + place * 1000, turn["role"] == "user",
            )  # fmt: skip
            units.append(unit)
            if turn.get("has_answer"):
                marked.add(unit.id)
            if session_id in one["answer_session_ids"]:
                told.add(unit.id)
    wanted = frozenset() if name.endswith("_abs") else frozenset(marked or told)
    asked_at = _longmemeval_ms(one["question_date"])
    return Chat(name, tuple(units), (Question(name, one["question"], one["question_type"], wanted, asked_at),))


def _longmemeval_ms(text: str) -> int:
    plain = re.sub(r"\s*\([A-Za-z]+\)", "", text)
    return int(datetime.strptime(plain, "%Y/%m/%d %H:%M").replace(tzinfo=UTC).timestamp() * 1000)


def read_code_questions(path: Path) -> dict[str, list[Question]]:
    """Project → its questions, from a JSONL file with id, project, question, evidence and category.

    Raises:
        BadRequest: the file is of another form.
    """
    found: dict[str, list[Question]] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for line in filter(str.strip, file):
                one = json.loads(line)
                wanted = frozenset(entry["uuid"] for entry in one["evidence"])
                question = Question(one["id"], one["question"], one.get("category", ""), wanted)
                found.setdefault(one["project"], []).append(question)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"{path} holds no questions: {error!r}") from error
    return found


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadRequest(f"{path} cannot be read: {error}") from error
