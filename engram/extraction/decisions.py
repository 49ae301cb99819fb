"""Candidates from dialogs: a question that the user answered, a plan that they approved or rejected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from engram.enums import Importance, Kind, Scope, Status, Voice
from engram.extraction.bite import cut
from engram.extraction.candidate import MAX_CANDIDATE_SUMMARY_CHARACTERS, MAX_SUMMARY_WORDS, Candidate
from engram.extraction.cues import entities_of
from engram.extraction.support import excerpt, supporting
from engram.extraction.write_filter import is_own
from engram.models.episodes import MAX_CONTENT_CHARACTERS
from engram.redaction.suspicion import why_suspect
from engram.redaction.voice import typed_text
from engram.text.statements import Block, split
from engram.transcripts.record import ARROW, Role, TextBlock, Turn

#: Maximum length of a question and of an answer in a summary, in words.
MAX_QUESTION_WORDS = 22
ANSWER_WORDS = 14
#: Maximum length of a summary with a plan's first statement, in words, before it is cut.
MAX_PLAN_WORDS = 60
#: Quality of a decision, 0 to 1, compared with passages.
DECISION_QUALITY = 0.9
#: Confidence in a decision, 0 to 1.
DECISION_CONFIDENCE = 0.85


def without_dialogs(turn: Turn) -> Turn:
    """Return the turn with only what user and assistant said in their own words."""
    kept = tuple(said for said in turn.said if said.role in (Role.USER, Role.ASSISTANT))
    return turn if len(kept) == len(turn.said) else replace(turn, said=kept)


def decisions(turn: Turn) -> Iterator[Candidate]:
    """Yield a candidate for each decision of a turn, in order. It says who decided, and is never global.

    A question answered in the user's own words counts too: the answer alone would not say what it is about.
    """
    for said in turn.said:
        if said.role is Role.CHOSEN:
            comment = _of_dialog(turn, said, Role.USER)
            if not said.text.startswith("Rejected") or comment is not None:
                yield _candidate(turn, said, comment)
        elif said.role is Role.USER and said.message_id and _is_answer(turn, said):
            yield _candidate(turn, said, None)


def _is_answer(turn: Turn, said: TextBlock) -> bool:
    """Return True for an answer in the user's own words, without a chosen option."""
    return _of_dialog(turn, said, Role.PROPOSED) is not None and _of_dialog(turn, said, Role.CHOSEN) is None


def _of_dialog(turn: Turn, said: TextBlock, role: Role) -> TextBlock | None:
    """Return the first text of the same question or plan in another role."""
    return next((other for other in turn.said if other.role is role and other.message_id == said.message_id), None)


def _candidate(turn: Turn, said: TextBlock, comment: TextBlock | None) -> Candidate:
    proposed = _of_dialog(turn, said, Role.PROPOSED)
    summary = _summary(said, proposed, comment)
    texts = [text for text in (said, comment, proposed) if text is not None]
    replies = (text for text in turn.said if text.role is Role.ASSISTANT and not is_own(text.text))
    supports = supporting(f"{summary} {said.text}", replies)
    return Candidate(
        kind=Kind.DECISION,
        summary=summary,
        content=_content(said, proposed, comment, [excerpt(text, summary) for text in supports]),
        evidence=tuple(dict.fromkeys(text.uuid for text in (*texts, *supports) if text.uuid)),
        turn_keys=(turn.key,),
        entities=entities_of(summary, turn),
        importance=Importance.HIGH if ARROW in said.text or said.role is Role.USER else Importance.NORMAL,
        scope=Scope.PROJECT,
        voice=Voice.CHOSEN,
        confidence=DECISION_CONFIDENCE,
        status=Status.ACTIVE,
        suspect=_suspect(texts),
        quality=DECISION_QUALITY,
    )


def _summary(said: TextBlock, proposed: TextBlock | None, comment: TextBlock | None) -> str:
    """Return one line that says who decided what."""
    if said.role is Role.USER:
        question = proposed.text.partition("\n")[0] if proposed is not None else ""
        line = f"Asked “{_words(question, MAX_QUESTION_WORDS)}” the user answered: {_words(said.text, ANSWER_WORDS)}"
    elif ARROW in said.text:
        question, _, label = said.text.rpartition(f" {ARROW} ")
        line = f"Asked “{_words(question, MAX_QUESTION_WORDS)}” the user chose: {_words(label, ANSWER_WORDS)}"
    else:
        decision = said.text[:1].lower() + said.text[1:]
        line = f"The user {_words(decision, MAX_QUESTION_WORDS)}"
    if comment is not None and len(line.split()) < MAX_SUMMARY_WORDS - 4:
        line = f"{line}, saying: {_words(comment.text, MAX_SUMMARY_WORDS - len(line.split()) - 1)}"
    elif proposed is not None and said.role is Role.CHOSEN and ARROW not in said.text:
        line = _with_plan(line, proposed.text)
    return line[:MAX_CANDIDATE_SUMMARY_CHARACTERS]


def _with_plan(line: str, plan: str) -> str:
    """Return the line with the first statement of the plan, which says what it is for, if that fits."""
    for statement in split(plan):
        words = [*line.rstrip(".").split(), *statement.text.split()]
        if statement.block is Block.PROSE and not statement.text.endswith(":"):
            return cut(f"{line.rstrip('.')}. {statement.text}") if len(words) <= MAX_PLAN_WORDS else line
    return line


def _content(said: TextBlock, proposed: TextBlock | None, comment: TextBlock | None, excerpts: Sequence[str]) -> str:
    parts = [said.text]
    if comment is not None:
        parts.append(f"[the user] {comment.text}")
    parts.extend(excerpts)
    if proposed is not None:
        parts.append(f"[proposed by the assistant] {proposed.text}")
    return "\n\n".join(parts)[:MAX_CONTENT_CHARACTERS]


def _suspect(texts: Sequence[TextBlock]) -> str:
    """Return why a decision must not be injected, since it may repeat what others wrote; "" if it may be."""
    for said in texts:
        is_typed = said.role is Role.USER and typed_text(said.text).split() == said.text.split()
        reason = why_suspect(said.text, is_typed=is_typed, is_assistant=said.role is not Role.USER)
        if reason:
            return reason
    return ""


def _words(text: str, limit: int) -> str:
    words = text.split()
    return " ".join(words[:limit]) + ("…" if len(words) > limit else "")
