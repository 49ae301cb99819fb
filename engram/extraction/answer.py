"""The language model's answer and how it becomes candidates: nothing that it invents gets through."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from engram.extraction.candidate import (
    CONTENT_CHARS,
    SUMMARY_CHARS,
    SUMMARY_WORDS,
    Candidate,
    Importance,
    Kind,
    Scope,
    Status,
    Voice,
)
from engram.extraction.gate import content_words, is_log, is_own, repeats
from engram.extraction.protocol import ExtractionContext
from engram.redaction.suspicion import why_suspect
from engram.redaction.voice import typed_text
from engram.transcripts.record import Role, Said, Turn

#: Most memories of one answer that are looked at.
MOST_MEMORIES = 60
#: Longest summary of the session, in characters.
ROLLING_CHARS = 1_000
#: Share of a summary's content words that must stand in the turns it rests on.
GROUNDED_SHARE = 0.5
#: Confidence in what the user typed, and in what the assistant said.
TYPED_CONFIDENCE, OTHER_CONFIDENCE = 0.9, 0.7

#: Short id in the request → the turn and the text it stands for.
Ids = Mapping[str, tuple[Turn, Said]]


class ProposedMemory(BaseModel):
    """One memory as the model proposes it."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["decision", "preference", "fix", "fact", "state", "dead-end"]
    summary: str
    content: str
    entities: list[str]
    importance: Literal["high", "normal"]
    scope: Literal["project", "global"]
    evidence: list[str]


class Answer(BaseModel):
    """The whole answer."""

    model_config = ConfigDict(extra="forbid")

    memories: list[ProposedMemory]
    rolling_summary: str


def read_answer(text: str) -> Answer:
    """The answer in a text, also inside a code fence or after the model's thoughts.

    A memory of another shape is left out; what is missing of one is filled in where that does no harm.

    Raises:
        ValueError: there is no answer, or none of its memories can be read.
    """
    found = _object_in(text)
    proposed = found["memories"][:MOST_MEMORIES]
    memories = [one for one in map(_memory, proposed) if one is not None]
    if proposed and not memories:
        raise ValueError("no memory of the answer has the right shape")
    summary = found.get("rolling_summary")
    return Answer(memories=memories, rolling_summary=summary if isinstance(summary, str) else "")


def read_object(text: str) -> list[Any]:
    """What stands under ``memories`` in the answer of a server that holds to no shape. Raises ValueError."""
    return list(_object_in(text)["memories"][:MOST_MEMORIES])


def _object_in(text: str) -> dict[str, Any]:
    text = text.rpartition("</think>")[2]
    start, stop = text.find("{"), text.rfind("}")
    try:
        found = json.loads(text[start : stop + 1])
    except (ValueError, RecursionError) as error:
        raise ValueError("the answer is no JSON") from error
    if not isinstance(found, dict) or not isinstance(found.get("memories"), list):
        raise ValueError("the answer has another shape")
    return found


def _memory(found: Any) -> ProposedMemory | None:
    if not isinstance(found, dict):
        return None
    filled = {"kind": "fact", "content": "", "entities": [], "importance": "normal", "scope": "project", **found}
    try:
        return ProposedMemory.model_validate({name: filled.get(name) for name in ProposedMemory.model_fields})
    except (ValidationError, RecursionError):
        return None


def rolling_summary_of(answer: Answer) -> str:
    """What the session is about so far, fit to be stored; "" where the model did not say."""
    return " ".join(cleaned(answer.rolling_summary).split())[:ROLLING_CHARS]


def candidates_of(answer: Answer, ids: Ids, context: ExtractionContext) -> list[Candidate]:
    """Candidates of an answer.

    Ids that were not in the request are dropped, and so is a memory without any real one, one whose words do not
    stand in the turns it names, one that repeats Engram's own text, a log, or what is known already.
    """
    known = [content_words(one) for one in context.known]
    found = []
    for proposed in answer.memories[:MOST_MEMORIES]:
        real = list(dict.fromkeys(one for raw in proposed.evidence if (one := raw.strip("[] \n")) in ids))
        summary = " ".join(cleaned(proposed.summary).split()[:SUMMARY_WORDS])[:SUMMARY_CHARS]
        rests_on = [ids[one] for one in real]
        if not rests_on or not summary or repeats(summary, known) or not _is_grounded(summary, rests_on):
            continue
        made = _candidate(proposed, summary, rests_on, context)
        if not (is_own(made.summary) or is_own(made.content) or is_log(made.content)):
            found.append(made)
            known.append(content_words(summary))
    return found


def _candidate(
    proposed: ProposedMemory, summary: str, rests_on: Sequence[tuple[Turn, Said]], context: ExtractionContext
) -> Candidate:
    content = (_verbatim(cleaned(proposed.content), rests_on) or "\n\n".join(said.text for _, said in rests_on)).strip()
    is_user = all(said.role is Role.USER for _, said in rests_on)
    is_chosen = not is_user and all(said.role in (Role.USER, Role.CHOSEN, Role.PROPOSED) for _, said in rests_on)
    is_chosen = is_chosen and any(said.role is Role.CHOSEN for _, said in rests_on)
    is_typed = is_user and all(_plain(content) in _plain(said.text) for _, said in rests_on[:1]) and _is_typed(rests_on)
    is_everywhere = context.is_global or not context.project
    return Candidate(
        kind=Kind(proposed.kind),
        summary=summary,
        content=content[:CONTENT_CHARS],
        evidence=tuple(dict.fromkeys(said.uuid for _, said in rests_on if said.uuid)),
        turn_keys=tuple(dict.fromkeys(turn.key for turn, _ in rests_on)),
        entities=tuple(dict.fromkeys(e[:80] for raw in proposed.entities[:20] if (e := cleaned(raw).strip()))),
        importance=Importance(proposed.importance),
        scope=_scope(proposed, is_everywhere=is_everywhere, is_chosen=is_chosen),
        voice=Voice.USER_SAID if is_user else Voice.CHOSEN if is_chosen else Voice.ASSISTANT_SAID,
        confidence=TYPED_CONFIDENCE if is_typed else OTHER_CONFIDENCE,
        status=Status.ACTIVE if is_typed else Status.PROVISIONAL,
        suspect=why_suspect(f"{summary}\n{content}", is_typed=is_typed, is_assistant=not is_user) or "",
        quality=OTHER_CONFIDENCE,
    )


def _scope(proposed: ProposedMemory, *, is_everywhere: bool, is_chosen: bool) -> Scope:
    """Where a memory holds; what was chosen in a dialog never holds everywhere by itself."""
    if is_chosen:
        return Scope.PROJECT
    return Scope.GLOBAL if is_everywhere else Scope(proposed.scope)


def _is_typed(rests_on: Sequence[tuple[Turn, Said]]) -> bool:
    """True where nothing in the texts was pasted, quoted or relayed."""
    return all(_plain(typed_text(said.text)) == _plain(said.text) for _, said in rests_on)


def _is_grounded(summary: str, rests_on: Sequence[tuple[Turn, Said]]) -> bool:
    """Whether enough of the summary's words stand in the turns that it names."""
    words = content_words(summary)
    there: set[str] = set()
    for turn, said in rests_on:
        there |= content_words(said.text)
        for other in turn.said:
            there |= content_words(other.text)
        for action in turn.actions:
            there |= content_words(" ".join((action.command, action.error_line, *action.files)))
    return bool(words) and len(words & there) >= GROUNDED_SHARE * len(words)


def _verbatim(content: str, rests_on: Sequence[tuple[Turn, Said]]) -> str:
    """The content where it really stands in a text; "" where the model reworded it."""
    plain = _plain(content)
    return content if plain and any(plain in _plain(said.text) for _, said in rests_on) else ""


def _plain(text: str) -> str:
    return " ".join(text.split())


def cleaned(text: str) -> str:
    """A text without what no database takes: NULs and halves of surrogate pairs."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
