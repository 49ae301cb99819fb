"""Read the data sets of ``python -m bench``: LoCoMo, LongMemEval, and questions about coding sessions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engram.errors import BadRequest

#: LoCoMo's category numbers; the fifth ("adversarial") has no answers and is left out.
LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
#: Evidence ids such as D8:6; some are malformed: "D8:6; D9:17", "D:11:26", "D30:05".
_DIALOGUE_ID = re.compile(r"D:?\s*(\d+)\s*:\s*0*(\d+)")
_SESSION_KEY = re.compile(r"session_\d+")
_LOCOMO_DATE = "%I:%M %p on %d %B, %Y"


@dataclass(frozen=True, slots=True)
class Unit:
    """One message of a chat: the unit of retrieval."""

    #: Unique in the data set.
    id: str
    session: str
    speaker: str
    text: str
    at_ms: int
    #: True for the first of the two speakers (the user, if there is one).
    is_first: bool


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the evidence that answers it."""

    id: str
    text: str
    category: str
    #: Ids of units, or uuids of entries; empty for a question without an answer.
    wanted: frozenset[str]
    #: When it is asked, in milliseconds since 1970; None for after the last message.
    now_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Chat:
    """The messages that fill one memory, and the questions about it."""

    name: str
    units: tuple[Unit, ...]
    questions: tuple[Question, ...]


def read_locomo(path: Path) -> Iterator[Chat]:
    """Yield LoCoMo's conversations with the questions of categories 1 to 4 whose evidence can be resolved.

    Raises:
        BadRequest: the file is not LoCoMo's JSON.
    """
    for number, sample in enumerate(_json(path)):
        try:
            name = str(sample.get("sample_id", number))
            units = tuple(_locomo_units(name, sample["conversation"]))
            yield Chat(name, units, tuple(_locomo_questions(name, sample["qa"], {unit.id for unit in units})))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadRequest(f"{path} is not in LoCoMo's format: {error!r}") from error


def _locomo_units(name: str, conversation: dict[str, Any]) -> Iterator[Unit]:
    keys = sorted((key for key in conversation if _SESSION_KEY.fullmatch(key)), key=lambda key: int(key[8:]))
    for key in keys:
        day = datetime.strptime(conversation[f"{key}_date_time"], _LOCOMO_DATE).replace(tzinfo=UTC)
        for place, turn in enumerate(conversation[key]):
            caption = f" [shares {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            yield Unit(
                id=f"{name}/{turn['dia_id']}",
                session=f"{name}-{key}",
                speaker=turn["speaker"],
                text=turn["text"] + caption,
                at_ms=int(day.timestamp() * 1000) + place * 1000,
                is_first=turn["speaker"] == conversation["speaker_a"],
            )


def _locomo_questions(name: str, entries: list[dict[str, Any]], unit_ids: set[str]) -> Iterator[Question]:
    for number, entry in enumerate(entries):
        references = (pair for text in entry.get("evidence", []) for pair in _DIALOGUE_ID.findall(text))
        wanted = frozenset(f"{name}/D{int(session)}:{int(place)}" for session, place in references) & unit_ids
        if entry["category"] in LOCOMO_CATEGORIES and wanted:
            category = LOCOMO_CATEGORIES[entry["category"]]
            yield Question(f"{name}-{number}", entry["question"], category, frozenset(wanted))


def read_longmemeval(path: Path) -> Iterator[Chat]:
    """Yield LongMemEval's questions, each with its own history; the turns marked ``has_answer`` are the evidence.

    If no turn is marked, every turn of an answer session counts. Raises BadRequest for another format.
    """
    for entry in _json(path):
        try:
            yield _longmemeval_chat(entry)
        except (KeyError, TypeError, ValueError) as error:
            raise BadRequest(f"{path} is not in LongMemEval's format: {error!r}") from error


def _longmemeval_chat(entry: dict[str, Any]) -> Chat:
    name = str(entry["question_id"])
    units, marked, in_session = [], set(), set()
    sessions = zip(entry["haystack_session_ids"], entry["haystack_dates"], entry["haystack_sessions"], strict=True)
    for session_id, date, turns in sessions:
        day = _longmemeval_ms(date)
        for place, turn in enumerate(turns):
            unit = Unit(
                id=f"{name}/{session_id}/{place}",
                session=f"{name}-{session_id}",
                speaker=turn["role"],
                text=turn["content"],
                at_ms=day + place * 1000,
                is_first=turn["role"] == "user",
            )
            units.append(unit)
            if turn.get("has_answer"):
                marked.add(unit.id)
            if session_id in entry["answer_session_ids"]:
                in_session.add(unit.id)
    question = Question(
        id=name,
        text=entry["question"],
        category=entry["question_type"],
        wanted=frozenset() if name.endswith("_abs") else frozenset(marked or in_session),
        now_ms=_longmemeval_ms(entry["question_date"]),
    )
    return Chat(name, tuple(units), (question,))


def _longmemeval_ms(text: str) -> int:
    without_weekday = re.sub(r"\s*\([A-Za-z]+\)", "", text)
    return int(datetime.strptime(without_weekday, "%Y/%m/%d %H:%M").replace(tzinfo=UTC).timestamp() * 1000)


def read_code_questions(path: Path) -> dict[str, list[Question]]:
    """Return project → questions, from JSON lines with id, project, question, evidence and category.

    Raises:
        BadRequest: the file has another format.
    """
    by_project: dict[str, list[Question]] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for line in filter(str.strip, file):
                entry = json.loads(line)
                wanted = frozenset(evidence["uuid"] for evidence in entry["evidence"])
                question = Question(entry["id"], entry["question"], entry.get("category", ""), wanted)
                by_project.setdefault(entry["project"], []).append(question)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"{path} is not a file of questions: {error!r}") from error
    return by_project


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadRequest(f"can't read {path}: {error}") from error
