"""Make candidates from chosen passages: content, evidence, facts, and whether they are confirmed."""

from __future__ import annotations

from collections.abc import Sequence

from engram.enums import Importance, Kind, Scope, Status, Voice
from engram.extraction.candidate import MAX_FACTS, Candidate
from engram.extraction.cues import entities_of, importance_of, kind_of
from engram.extraction.select import Option
from engram.extraction.support import MAX_SUPPORT_CHARACTERS, excerpt, supporting
from engram.models.episodes import MAX_CONTENT_CHARACTERS
from engram.redaction.suspicion import why_suspect
from engram.transcripts.record import Role, TextBlock

#: Maximum length of the passage's own message in a content before other messages, in characters.
MAX_LEAD_CHARACTERS = 600
#: Maximum length of the prompt in a content, in characters.
MAX_PROMPT_CHARACTERS = 200


def candidate(option: Option, *, is_global: bool = False) -> Candidate:
    """Return the candidate of a chosen passage.

    Args:
        option: The passage.
        is_global: Whether the session has no project of its own.
    """
    supports = _supports(option)
    kind = _kind(option)
    status, confidence = _standing(option)
    return Candidate(
        kind=kind,
        summary=option.passage.bite,
        content=_content(option, supports),
        evidence=_evidence(option, supports),
        turn_keys=(option.turn.key,),
        facts=_facts(option),
        entities=entities_of(option.passage.bite, option.turn),
        importance=_importance(option, kind),
        scope=_scope(option, is_global),
        voice=Voice.USER if option.place.is_user and option.is_typed else Voice.ASSISTANT,
        confidence=confidence,
        status=status,
        suspect=why_suspect(option.passage.bite, is_typed=option.is_typed, is_assistant=not option.place.is_user) or "",
        quality=round(option.quality, 3),
    )


def _kind(option: Option) -> Kind:
    if option.rule is not None:
        return option.rule.kind
    if option.episode is not None:
        return Kind.FIX
    return kind_of(option.passage.bite, option.label)


def _importance(option: Option, kind: Kind) -> Importance:
    if option.rule is not None:
        return Importance.HIGH if option.rule.is_lasting else Importance.NORMAL
    return importance_of(kind, option.quality)


def _scope(option: Option, is_global: bool) -> Scope:
    if is_global and (option.turn.is_by_person or not option.turn.prompt):
        return Scope.GLOBAL
    return option.rule.scope if option.rule is not None else Scope.PROJECT


def _standing(option: Option) -> tuple[Status, float]:
    """Return status and confidence; confirmed is what the user typed or agreed to, and a fix whose command passed."""
    if option.is_typed:
        return Status.ACTIVE, 0.9
    if option.episode is not None:
        return Status.ACTIVE, 0.8
    if option.place.is_agreed and option.place.is_closing and not option.place.is_objected:
        return Status.ACTIVE, 0.75
    doubt = 0.2 if option.place.is_objected else 0.0
    return Status.PROVISIONAL, round(0.45 + 0.3 * option.quality - doubt, 3)


def _facts(option: Option) -> tuple[str, ...]:
    """Return error line, command and files of the fix episode, then the commits of the turn."""
    facts: list[str] = []
    if option.episode is not None:
        files = ", ".join(f.replace("\\", "/").rsplit("/", 1)[-1] for f in option.episode.files[:4])
        facts = [option.episode.error_line[:200], option.episode.command[:120], f"changed: {files}"]
    if not option.place.is_user and option.place.is_closing:
        facts.extend(a.commit[:120] for a in option.turn.actions if a.commit)
    return tuple(dict.fromkeys(" ".join(f.split()) for f in facts if f.strip()))[:MAX_FACTS]


def _supports(option: Option) -> list[TextBlock]:
    """Return other messages of the turn that say much of what the passage says, the closest first."""
    own = {id(s) for s in (option.said, *option.others)}
    others = (s for s in option.turn.said if id(s) not in own and s.role is Role.ASSISTANT)
    return supporting(option.passage.bite, others)


def _evidence(option: Option, supports: Sequence[TextBlock]) -> tuple[str, ...]:
    """Return the entry of the passage, the entries that support it, then the prompt that the content quotes."""
    prompts = [s.uuid for s in option.turn.said if s.role in (Role.USER, Role.PROGRAM)]
    own = [option.said.uuid, *(s.uuid for s in (*option.others, *supports)), *prompts]
    calls = [option.episode.failed_uuid, option.episode.passed_uuid] if option.episode is not None else []
    return tuple(dict.fromkeys(u for u in [*own, *calls] if u))


def _content(option: Option, supports: Sequence[TextBlock]) -> str:
    """Return the message from the passage on, supporting messages, the prompt, then the text before the passage."""
    lines = option.said.text.splitlines()
    telling = "\n".join(lines[option.line :]).strip()
    parts = [telling[:MAX_LEAD_CHARACTERS]]
    parts.extend(other.text.strip()[:MAX_SUPPORT_CHARACTERS] for other in option.others)
    parts.extend(excerpt(other, option.passage.bite) for other in supports)
    if option.said.role is Role.ASSISTANT and option.turn.prompt:
        parts.append("[asked] " + option.turn.prompt[:MAX_PROMPT_CHARACTERS])
    if len(telling) > MAX_LEAD_CHARACTERS:
        parts.append("[on] " + telling[MAX_LEAD_CHARACTERS:])
    before = "\n".join(lines[: option.line]).strip()
    if before:
        parts.append("[before it] " + before)
    return "\n\n".join(parts)[:MAX_CONTENT_CHARACTERS]
