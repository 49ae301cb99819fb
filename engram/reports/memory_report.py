"""Report everything known about a memory or quotation: its evidence, its history, and where it was shown."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engram.enums import Actor, Judgement
from engram.errors import BadRequest
from engram.models.engine.transaction import Reader, Store
from engram.models.memories import memory_history, memory_records
from engram.models.memories.branches import unmerged_branch
from engram.models.memories.judgements import HELPFUL_LIFT, Usefulness, judgement_of, standing_judgements, usefulness_of
from engram.models.memories.memory_history import Change
from engram.models.memories.memory_records import (
    ENUM_FIELDS,
    LIST_FIELDS,
    Evidence,
    Memory,
    evidence_of,
    is_local_extractor,
)
from engram.models.memories.memory_undo import REDO, UNDO
from engram.models.projects.projects import project_by_id
from engram.models.search import memory_lists
from engram.models.sessions.passage_rows import (
    EvidencePlace,
    Quotation,
    places_of,
    quotations_beginning_with,
    require_quotation,
)
from engram.models.sessions.stored_turns import StoredTurn, load_turn_row
from engram.models.shown import injections
from engram.models.shown.injections import Injection
from engram.system.clock import iso_or_none
from engram.system.lazy_regex import lazy_regex
from engram.text.splitting import sentence_spans
from engram.text.words import stems, topic_words
from engram.transcripts.turns import Action, Role
from engram.trust.display import number_of

# -- A memory as JSON and back, with the keys that export, import and every ``--json`` share.

#: Field of a memory → key in JSON, if they differ.
_NAMES = {"episode_id": "id", "session_id": "session", "is_pinned": "pinned", "is_lowered": "lowered"}
#: Largest integer that every program reads exactly from JSON; numbers of memories are never larger.
MAX_INTEGER = (1 << 53) - 1
#: Fields that are meaningful in this database only.
_LOCAL = {"id", "project_id"}


def memory_to_json(store: Store, memory: Memory) -> dict[str, Any]:
    """Return every field of a memory that is meaningful elsewhere. ``evidence`` is a list of entry uuids."""
    values: dict[str, Any] = {
        _NAMES.get(known.name, known.name): getattr(memory, known.name)
        for known in dataclasses.fields(Memory)
        if known.name not in _LOCAL
    }
    rests_on = memory_records.evidence_of(store, memory.id)
    values |= {name: list(values[name]) for name in LIST_FIELDS}
    values["evidence"] = [entry.uuid for entry in rests_on if entry.uuid]
    values["evidence_sessions"] = list(dict.fromkeys(entry.session_id for entry in rests_on if entry.session_id))
    return values


def memory_from_json(line: Mapping[str, Any]) -> tuple[Memory, list[Evidence]]:
    """Return a memory and its evidence from JSON that ``memory_to_json`` wrote, without row ids. Raises BadRequest."""
    values: dict[str, Any] = {}
    for known in dataclasses.fields(Memory):
        key = _NAMES.get(known.name, known.name)
        if known.name not in _LOCAL and line.get(key) is not None:
            values[known.name] = _checked(known, line[key])
    for needed in ("episode_id", "kind", "summary", "content"):
        if not values.get(needed) and needed != "content":
            raise BadRequest(f"a memory needs {_NAMES.get(needed, needed)!r}")
    values.setdefault("content", "")
    if not memory_records.is_memory_id(values["episode_id"]):
        raise BadRequest(f"{values['episode_id'][:40]!r} is not a memory's id")
    sessions = [str(session_id) for session_id in line.get("evidence_sessions") or [] if isinstance(session_id, str)]
    session = sessions[0] if sessions else values.get("session_id", "")
    uuids = line.get("evidence") or []
    if not isinstance(uuids, list) or not all(isinstance(uuid, str) for uuid in uuids):
        raise BadRequest("evidence must be a list of ids")
    return Memory(**values), [Evidence(uuid, session) for uuid in uuids]


def _checked(field: dataclasses.Field[Any], value: Any) -> Any:
    """Return the value if it has the field's type. Raises BadRequest."""
    default = field.default
    if field.name in ENUM_FIELDS:
        return ENUM_FIELDS[field.name].parse(value)
    if field.name in LIST_FIELDS:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
    elif isinstance(default, bool):
        if isinstance(value, bool):
            return value
    elif field.name.endswith("_ms") or isinstance(default, int):
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER:
            return value
    elif isinstance(default, float):
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER:
            return float(value)
    elif isinstance(value, str):
        return value
    raise BadRequest(f"{_NAMES.get(field.name, field.name)} = {str(value)[:60]!r} can't be used")


#: Author shown for changes that an extractor made by rules.
RULES = "rules"


@dataclass(frozen=True, slots=True)
class MemoryReport:
    memory: Memory
    #: Transcript, line and uuid of every entry that it rests on; empty if it was saved by hand.
    evidence: tuple[EvidencePlace, ...]
    #: Oldest first.
    history: tuple[Change, ...]
    #: Latest first.
    injections: tuple[Injection, ...]
    related: tuple[Memory, ...]
    uses: Usefulness
    #: The unmerged branch on which it was learned, if the user is not on that branch; else "".
    branch: str = ""

    def to_json(self, store: Store) -> dict[str, Any]:
        return memory_to_json(store, self.memory) | {
            "evidence": [place.to_json() for place in self.evidence],
            "history": [_change_to_json(change, self.memory.extractor) for change in self.history],
            "injections": [
                {"session": injection.session_id, **injection_to_json(injection)} for injection in self.injections
            ],
            "uses": {
                "shown_sessions": self.uses.shown,
                "used_sessions": self.uses.used,
                "unused_in_a_row": self.uses.unused,
                "sunk": round(self.uses.sink, 4),
                "judgement": self.uses.judgement,
            },
            "unmerged_branch": self.branch,
            "related": [{"id": memory.episode_id, "summary": memory.summary} for memory in self.related],
        }


def report_memory(store: Store, memory: Memory, asked_on: str = "") -> MemoryReport:
    """Collect everything known about a memory. Nothing is hidden, because the report is for the user."""
    return MemoryReport(
        memory=memory,
        evidence=tuple(evidence_places(store, memory)),
        history=tuple(memory_history.history_of(store, memory.episode_id)),
        injections=tuple(injections.injections_of_memory(store, memory.episode_id)),
        uses=usefulness_of(store, [memory.episode_id]).get(memory.episode_id, Usefulness()),
        branch=unmerged_branch(store, memory.id, asked_on),
        related=tuple(memory_lists.related_memories(store, memory, memory.project_id)),
    )


def evidence_places(store: Store, memory: Memory) -> list[EvidencePlace]:
    """Return the transcript, line and uuid of every entry that a memory rests on."""
    return places_of(store, [entry.uuid for entry in memory_records.evidence_of(store, memory.id) if entry.uuid])


def injection_to_json(injection: Injection) -> dict[str, Any]:
    return {
        "channel": injection.channel,
        "state": injection.state,
        "at": iso_or_none(injection.at_ms),
        "score": injection.score,
        "tokens": injection.tokens,
        "used_at": iso_or_none(injection.used_at_ms),
    }


#: Action in a memory's history → what happened, for display.
ACTIONS: Mapping[str, str] = {
    "extract": "kept from what was said",
    "save": "saved",
    "edit": "edited",
    "pin": "pinned",
    "unpin": "unpinned",
    "bad": "judged wrong",
    "helpful": "judged helpful",
    "outdated": "judged outdated",
    "take back": "judgement withdrawn",
    "supersede": "replaced",
    "correct": "saved as a correction",
    "archive": "archived",
    "merge": "another one was merged into it",
    "restore": "current again",
    "release": "has another successor",
    "confirm": "confirmed",
    "evidence": "rests on more entries",
    "pack": "its text was compressed",
    "weaken": "aged",
    "graduate": "became a line of notes/MEMORY.md",
    "undo": "undone",
    "redo": "the undo was undone",
    "erase": "forgotten words were erased from it",
    "move": "moved to another project",
    "rescope": "applies only in its project",
}


def done_of(change: Change) -> str:
    """Describe a step of a memory's history in words."""
    return ACTIONS.get(change.action, change.action)


#: Field that a change records → its name for people; other fields are called by their own names.
FIELDS: Mapping[str, str] = {
    "summary": "what Claude is shown",
    "content": "full text",
    "scope": "where it applies",
    "valid_from_ms": "valid since",
    "valid_to_ms": "valid until",
    "superseded_by": "what replaced it",
    "is_lowered": "judged wrong",
    "is_pinned": "pinned",
    "stale_reason": "why it may no longer hold",
    "project_id": "project",
    "entities": "what it is about",
    "graduated_at_ms": "its line in notes/MEMORY.md",
    "extractor": "who made it",
    "is_unjoined": "compared with others",
    "confirmations": "how often it was confirmed",
}
#: The reason of an undo, which begins with what was undone, and the line of a run for it.
_UNDONE = lazy_regex(r"((?:the undo: |redo: )*)([a-z ]+?)(?:: (.*))?", re.DOTALL)
#: The reason that is stored if none is given, alone or after what was withdrawn or undone.
_NO_REASON = lazy_regex(r"(?:\A|: )by hand\Z")
_UNDO_LINE = lazy_regex(r"(undo|redo) (the undo|[a-z ]+) of (ep_[0-9a-f]{12})")


def changed_in(change: Change) -> list[str]:
    """Return the names of the fields that a step of a memory's history changed, for people."""
    plain = (name.removeprefix("is_").removesuffix("_ms").replace("_", " ") for name in change.before)
    return [FIELDS.get(name, said) for name, said in zip(change.before, plain, strict=True)]


def reason_of(change: Change) -> str:
    """Return the reason of a step; that of an undo names what was undone as ``done_of`` does.

    A reason that nobody gave is stored as "by hand" and left out.
    """
    reason = _NO_REASON.sub("", change.reason)
    undone = _UNDONE.fullmatch(reason) if change.action in (UNDO, REDO) else None
    if undone is None or undone[2] not in ACTIONS:
        return reason
    return f"“{ACTIONS[undone[2]]}”" + (f", {undone[3]}" if undone[3] else "")


def undo_in_words(line: str) -> str:
    """Return a line of a report about an undo as a sentence; other lines unchanged."""
    found = _UNDO_LINE.fullmatch(line)
    if found is None:
        return line
    verb, action, episode_id = found.groups()
    if verb == REDO:
        return f"{episode_id}: the undo was undone"
    return f"{episode_id}: “{ACTIONS.get(action, action)}” undone"


def who_changed(change: Change, extractor: str) -> str:
    """Return who made a change, for display; changes made by rules are not attributed to a model.

    Args:
        extractor: the memory's extractor, for a step that does not specify one.
    """
    made_by = str(change.after.get("extractor") or extractor)
    return RULES if change.actor is Actor.MODEL and is_local_extractor(made_by) else change.actor.value


def _change_to_json(change: Change, extractor: str = "") -> dict[str, Any]:
    return {
        "at": iso_or_none(change.at_ms),
        "action": change.action,
        "actor": who_changed(change, extractor),
        "reason": change.reason,
        "run": change.run_id,
        "before": dict(change.before),
        "after": dict(change.after),
    }


@dataclass(frozen=True, slots=True)
class QuotationReport:
    """A quotation with its complete turn and everything recorded about it."""

    quotation: Quotation
    #: Display name of the project; "" for none.
    project: str
    #: Location of its entry.
    place: EvidencePlace
    history: tuple[Change, ...]
    injections: tuple[Injection, ...]

    @property
    def judgement(self) -> Judgement | None:
        standing = standing_judgements(self.history)
        return judgement_of(standing[-1]) if standing else None

    @property
    def said(self) -> list[tuple[str, str]]:
        """Speaker and text of everything said in the turn."""
        return [(block.role.value, block.text) for block in self.quotation.stored.turn.said]

    def to_json(self) -> dict[str, Any]:
        quoted, turn = self.quotation, self.quotation.stored.turn
        return {
            "id": quoted.quotation_id,
            "kind": "quotation",
            "text": quoted.text,
            "role": quoted.role,
            "asked": quoted.asked,
            "created_at": iso_or_none(quoted.at_ms),
            "project": self.project,
            "session": turn.session_id,
            "branch": turn.branch,
            "evidence": [self.place.to_json()],
            "turn": [{"role": role, "text": text} for role, text in self.said],
            "judgement": self.judgement,
            "history": [_change_to_json(change) for change in self.history],
            "injections": [injection_to_json(injection) for injection in self.injections],
        }


def report_quotation(store: Store, text: str) -> QuotationReport:
    """Return everything known about a quotation. Raises NotFound."""
    quotation = require_quotation(store, text)
    stored = quotation.stored
    project = None if stored.project_id is None else project_by_id(store, stored.project_id)
    return QuotationReport(
        quotation=quotation,
        project=project.name if project else "",
        place=places_of(store, [quotation.source])[0],
        history=tuple(memory_history.history_of(store, text)),
        injections=tuple(injections.injections_of_memory(store, text)),
    )


def turn_text(said: Sequence[tuple[str, str]]) -> str:
    """Return everything said in a turn, each text preceded by its speaker."""
    return "\n".join(f"{role}: {text.strip()}" for role, text in said)


# -- Phrases about a memory's use and judgement.


def describe_uses(uses: Usefulness, episode_id: str) -> str:
    """Describe in how many sessions a memory was shown and used, and the effect on its rank; "" if never shown."""
    parts = []
    if uses.sessions:
        parts.append(f"shown in {number_of(uses.sessions, 'session')}, used in {uses.used or 'none'}")
    if uses.judgement is Judgement.HELPFUL:
        parts.append(f"judged helpful, which makes it {HELPFUL_LIFT:.0%} more relevant")
    elif uses.judgement is not None:
        parts.append(f"judged {uses.judgement}")
    if uses.sink:
        parts.append(
            f"{uses.sink:.0%} less relevant, since {number_of(uses.unused, 'session')} in a row did not use it "
            f"(engram feedback {episode_id} --off resets this)"
        )
    return "; ".join(parts)


# -- Where a memory comes from: the turns that it rests on, with its source sentences marked.

#: Maximum number of a memory's turns to show, starting with the first.
MAX_TURNS = 3
#: Approximate minimum share of a memory's words that a marked sentence must contain.
MIN_SAID_SHARE = 0.25
#: Maximum number of characters shown before and after the marked sentence.
MAX_AROUND_CHARACTERS = 300
#: Maximum number of characters shown of a text without a mark.
MAX_PLAIN_CHARACTERS = 400
#: The first or the last line of a code block.
_FENCE = lazy_regex(r"^[ \t]*(`{3,}|~{3,})([^\n`]*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Span:
    text: str
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class Quote:
    role: Role
    spans: tuple[Span, ...]
    #: True if the memory rests on it.
    is_cited: bool


@dataclass(frozen=True, slots=True)
class SourceTurn:
    turn_id: int
    session_id: str
    at_ms: int
    #: Locations of the cited entries.
    places: tuple[EvidencePlace, ...]
    quotes: tuple[Quote, ...]
    #: Its tool calls that failed or changed something.
    actions: tuple[Action, ...]


def source_turns(store: Reader, memory: Memory) -> list[SourceTurn]:
    """Return the first turns that a memory rests on and that are still stored."""
    evidence = [entry for entry in evidence_of(store, memory.id) if entry.uuid]
    turn_ids = list(dict.fromkeys(entry.turn_id for entry in evidence if entry.turn_id is not None))
    found = []
    for turn_id in turn_ids[:MAX_TURNS]:
        stored = load_turn_row(store, turn_id)
        if stored is not None:
            cited = [entry.uuid for entry in evidence if entry.turn_id == turn_id]
            found.append(_source_turn(store, stored, cited, memory))
    return found


def mark_sentences(text: str, wanted: str) -> list[Span]:
    """Split a text into spans, marking ``wanted`` if it occurs verbatim, else the sentence closest to it."""
    start = text.find(wanted) if wanted.strip() else -1
    if start >= 0:
        return _cut(text, start, start + len(wanted))
    goal = stems(topic_words(wanted))
    best, best_share = None, MIN_SAID_SHARE
    for begin, end in sentence_spans(text):
        said = stems(topic_words(text[begin:end]))
        # Of two sentences that contain the same number of the words, prefer the shorter one.
        share = len(said & goal) / (len(goal) + 0.2 * len(said)) if goal else 0.0
        if share > best_share:
            best, best_share = (begin, end), share
    return [Span(text)] if best is None else _cut(text, *best)


def _cut(text: str, start: int, stop: int) -> list[Span]:
    return [span for span in (Span(text[:start]), Span(text[start:stop], True), Span(text[stop:])) if span.text]


def _source_turn(store: Reader, stored: StoredTurn, cited: Sequence[str], memory: Memory) -> SourceTurn:
    turn = stored.turn
    quotes = []
    for index, block in enumerate(turn.said):
        is_cited = block.uuid in cited
        if is_cited or index == 0:
            spans = mark_sentences(block.text, memory.summary) if is_cited else [Span(block.text)]
            quotes.append(Quote(block.role, tuple(_shorten(spans)), is_cited))
    telling = [action for action in turn.actions if action.is_error or action.commit or action.is_edit]
    return SourceTurn(
        turn_id=stored.id,
        session_id=turn.session_id,
        at_ms=turn.started_at_ms or 0,
        places=tuple(places_of(store, cited)),
        quotes=tuple(quotes),
        actions=tuple(telling[:5]),
    )


def _shorten(spans: Sequence[Span]) -> list[Span]:
    """Shorten the text around the mark; without one, keep the beginning.

    If the text begins in the middle of a code block, the fence of the block is kept.
    """
    if not any(span.is_marked for span in spans):
        text = "".join(span.text for span in spans)
        return [Span(text if len(text) <= MAX_PLAIN_CHARACTERS else text[:MAX_PLAIN_CHARACTERS].rstrip() + " …")]
    kept, is_before = [], True
    for span in spans:
        text = span.text
        if span.is_marked:
            is_before = False
            text = text if len(text) <= 2 * MAX_PLAIN_CHARACTERS else text[: 2 * MAX_PLAIN_CHARACTERS] + " …"
        elif len(text) > MAX_AROUND_CHARACTERS:
            # No word is cut in two.
            near = text[-MAX_AROUND_CHARACTERS:] if is_before else text[:MAX_AROUND_CHARACTERS]
            words = re.split(r"\s", near, maxsplit=1)[-1] if is_before else re.split(r"\s\S*\Z", near)[0]
            text = words or near
            fence = _open_fence(span.text[: -len(text)]) if is_before else ""
            text = f"{fence}\n…\n{text}" if fence else f"… {text}" if is_before else f"{text} …"
        kept.append(Span(text, span.is_marked))
    return kept


def _open_fence(text: str) -> str:
    """Return the fence of the code block in which a text ends; "" if it does not end in one."""
    fence = ""
    for found in _FENCE.finditer(text):
        if not fence:
            fence = found[1]
        elif found[1].startswith(fence) and not found[2].strip(" \t~"):
            fence = ""
    return fence


# -- Ids as people type them: a prefix is enough.

#: Maximum number of candidates that the error about an ambiguous id lists.
MAX_CANDIDATES = 5
_BEGINNING = lazy_regex(r"(?:ep_[0-9a-f]{0,11}|q_[0-9a-f]{0,12})")
#: The digits of a memory's id without ``ep_``. Eight or fewer may be the beginning of a session's id.
_BARE_DIGITS = lazy_regex(r"[0-9a-f]{9,12}")


def whole_id(store: Reader, text: str) -> str:
    """Return the id in a text (``typed_id``), completed if it is abbreviated or lacks its ``ep_``; else the text.

    Raises:
        BadRequest: several ids match, or the text is a prefix of every id.
    """
    text = memory_records.typed_id(text)
    if _BARE_DIGITS.fullmatch(text):
        found = whole_id(store, f"ep_{text}")
        return found if memory_records.find_memory(store, found) is not None else text
    if not _BEGINNING.fullmatch(text):
        return text
    if text.endswith("_"):
        kind, command = ("memory", "timeline") if text == "ep_" else ("quotation", "recall")
        raise BadRequest(
            f"{text} is too short: every id of a {kind} begins with it. Type more of the one that you mean, as "
            f"`engram {command}` prints it"
        )
    if text.startswith("ep_"):
        memories = memory_records.memories_beginning_with(store, text, MAX_CANDIDATES + 1)
        candidates = [(memory.episode_id, memory.shown_title) for memory in memories]
    else:
        quotations = quotations_beginning_with(store, text, MAX_CANDIDATES + 1)
        candidates = [(quotation.quotation_id, quotation.text) for quotation in quotations]
    if len(candidates) <= 1:
        return candidates[0][0] if candidates else text
    raise BadRequest(several_begin(text, candidates))


def several_begin(text: str, candidates: Sequence[tuple[str, str]]) -> str:
    """Return a message that lists the ids beginning with ``text`` and their titles, and says what to do.

    Args:
        candidates: ids with titles; more than ``MAX_CANDIDATES`` add "and more".
    """
    named = [f"{name} “{' '.join(title.split())[:60]}”" for name, title in candidates[:MAX_CANDIDATES]]
    more = "; and more" if len(candidates) > MAX_CANDIDATES else ""
    return f"several ids begin with {text}: {'; '.join(named)}{more}. Type more of the one that you mean"
