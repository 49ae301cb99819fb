"""Proposals of a language model become candidates: nothing that it invents gets through."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from engram.enums import Kind, Scope, Status, Voice
from engram.extraction.answer import MAX_ANSWER_MEMORIES, MAX_PASSAGES, ModelOutput, ProposedMemory, cleaned
from engram.extraction.candidate import MAX_CANDIDATE_SUMMARY_CHARACTERS, MAX_SUMMARY_WORDS, Candidate
from engram.extraction.protocol import ExtractionContext, NearMemory
from engram.extraction.told import Ids
from engram.extraction.write_filter import is_log, is_own, repeats
from engram.models.episodes import MAX_CONTENT_CHARACTERS
from engram.redaction import redact
from engram.redaction.suspicion import why_suspect
from engram.redaction.voice import typed_text
from engram.text.content_words import content_words, prefixes
from engram.transcripts.record import Action, Role, TextBlock, Turn

#: Share of a summary's content words that must stand in the turns it rests on.
MIN_GROUNDED_SHARE = 0.5
#: Confidence in what the user typed, and in what the assistant said.
TYPED_CONFIDENCE, OTHER_CONFIDENCE = 0.9, 0.7
#: Most entries that a memory rests on.
MAX_EVIDENCE = 8

#: Words that a summary says of the speakers themselves.
_ABOUT_THE_SPEAKERS = frozenset(("user", "assistant", "wants", "decision", "decided", "dead", "end"))
#: Who speaks for the user.
_USERS = (Role.USER, Role.CHOSEN)
_ELLIPSIS = re.compile(r"\s*(?:\[…\]|…|\.\.\.|\[\.\.\.\])\s*")


@dataclass(slots=True)
class _Evidence:
    """The entries of a request that a proposal rests on."""

    said: list[tuple[Turn, TextBlock]]
    actions: list[tuple[Turn, Action]]

    @property
    def turns(self) -> list[Turn]:
        """The turns of these entries, each once."""
        return list({turn.key: turn for turn, _ in (*self.said, *self.actions)}.values())

    @property
    def uuids(self) -> tuple[str, ...]:
        """The entries' uuids, texts before commands."""
        uuids = [said.uuid for _, said in self.said] + [action.uuid for _, action in self.actions]
        return tuple(dict.fromkeys(uuid for uuid in uuids if uuid))[:MAX_EVIDENCE]


def candidates_of(answer: ModelOutput, ids: Ids, context: ExtractionContext) -> list[Candidate]:
    """Candidates of an answer.

    Ids that were not in the request are dropped, and so is a memory without any real one, one whose words do not
    stand in the turns it names, one that repeats Engram's own text, a log, or what is known already. An action whose
    target was not shown counts as new.
    """
    known = [content_words(bite) for bite in context.known]
    kept: list[Candidate] = []
    for proposed in answer.memories[:MAX_ANSWER_MEMORIES]:
        target = ids.memories.get(_short(proposed.target or ""))
        action = proposed.action if target is not None else "new"
        evidence = _evidence(proposed, ids)
        if not evidence.said or (proposed.action == "retracts" and target is None):
            continue
        summary = " ".join(redact(cleaned(proposed.summary)).split()[:MAX_SUMMARY_WORDS])[
            :MAX_CANDIDATE_SUMMARY_CHARACTERS
        ]
        if target is not None and not _is_about(target, summary, evidence):
            continue
        if action == "retracts":
            summary = summary or target.summary if target is not None else summary
        elif (
            not summary or not _is_grounded(summary, evidence, target) or (action == "new" and repeats(summary, known))
        ):
            continue
        candidate = _candidate(proposed, action, target, summary, evidence, context)
        if not (is_own(candidate.summary) or is_own(candidate.content) or is_log(candidate.content)):
            kept.append(candidate)
            known.append(content_words(summary))
    return kept


def _short(text: str) -> str:
    return text.strip("[] \n")


def _evidence(proposed: ProposedMemory, ids: Ids) -> _Evidence:
    shorts = list(dict.fromkeys(map(_short, proposed.evidence)))
    return _Evidence(
        said=[ids.said[short] for short in shorts if short in ids.said],
        actions=[ids.actions[short] for short in shorts if short in ids.actions],
    )


def _candidate(
    proposed: ProposedMemory,
    action: str,
    target: NearMemory | None,
    summary: str,
    evidence: _Evidence,
    context: ExtractionContext,
) -> Candidate:
    quotes = _quotes(proposed, evidence)
    users = [said for _, said in evidence.said if said.role in _USERS]
    if proposed.kind == Kind.PREFERENCE and any(said.role in _USERS for _, said in quotes):
        quotes = [(quote, said) for quote, said in quotes if said.role in _USERS]
    sources = [said for _, said in quotes] or [said for _, said in evidence.said]
    content = "\n\n".join([quote for quote, _ in quotes] or [said.text for said in sources]).strip()
    is_user = all(said.role is Role.USER for said in sources) and (
        all(said.role is Role.USER for _, said in evidence.said) or _says(content, summary)
    )
    is_chosen = not is_user and _is_chosen(said for _, said in evidence.said)
    is_typed = is_user and all(_is_typed(quote, said) for quote, said in quotes or [(s.text, s) for s in sources])
    is_everywhere = context.is_global or not context.project
    # Only what the user said or chose is a wish of theirs, and only their own words hold everywhere.
    kind = Kind.FACT if proposed.kind == Kind.PREFERENCE and not users else proposed.kind
    is_global = is_everywhere or (proposed.scope == Scope.GLOBAL and (is_user or kind is not Kind.PREFERENCE))
    voice = Voice.USER if is_user else Voice.CHOSEN if is_chosen else Voice.ASSISTANT
    return Candidate(
        kind=kind,
        summary=summary,
        content=redact(content)[:MAX_CONTENT_CHARACTERS],
        evidence=evidence.uuids,
        turn_keys=tuple(turn.key for turn in evidence.turns),
        entities=tuple(dict.fromkeys(e[:80] for raw in proposed.entities[:20] if (e := redact(cleaned(raw)).strip()))),
        importance=proposed.importance,
        scope=Scope.GLOBAL if is_global and not is_chosen else Scope.PROJECT,
        voice=voice,
        confidence=TYPED_CONFIDENCE if is_typed else OTHER_CONFIDENCE,
        status=Status.ACTIVE if is_typed else Status.PROVISIONAL,
        suspect=why_suspect(f"{summary}\n{content}", is_typed=is_typed, is_assistant=not is_user) or "",
        quality=OTHER_CONFIDENCE,
        action=action,
        target=target.reference if target is not None and action != "new" else "",
        rests_on_user=any(_is_users_word(said, summary, target) for said in users),
        said_at_ms=max((said.at_ms or 0 for _, said in evidence.said), default=0),
    )


def _quotes(proposed: ProposedMemory, evidence: _Evidence) -> list[tuple[str, TextBlock]]:
    """The passages that really stand in a text, each with it; a text that is quoted and not cited is evidence too."""
    quotes: list[tuple[str, TextBlock]] = []
    others = [(turn, said) for turn in evidence.turns for said in turn.said]
    for passage in proposed.passages[:MAX_PASSAGES]:
        text = cleaned(passage).strip()
        for turn, said in [*evidence.said, *others]:
            if _stands_in(text, said.text):
                quotes.append((text, said))
                if all(said is not cited for _, cited in evidence.said):
                    evidence.said.append((turn, said))
                break
    return quotes


def _stands_in(passage: str, text: str) -> bool:
    """Whether every part of a passage (parts are separated by ellipses) stands in a text, in order."""
    plain, at = _plain(text), 0
    # Runs of blanks go first: the pattern would try each of them anew.
    passage = _plain(passage)
    parts = [part for part in map(_plain, _ELLIPSIS.split(passage)) if part]
    for part in parts:
        at = plain.find(part, at)
        if at < 0:
            return passage in plain
        at += len(part)
    return bool(parts)


def _is_typed(quote: str, said: TextBlock) -> bool:
    """True where the quoted words were typed: nothing of them was pasted, quoted or relayed."""
    return said.role is Role.USER and _stands_in(quote, typed_text(said.text))


def _is_users_word(said: TextBlock, summary: str, target: NearMemory | None) -> bool:
    """Whether a text is the user's own word on a matter: of one with pasted parts, what was typed has to be about it."""
    typed = typed_text(said.text)
    if said.role is Role.CHOSEN or _plain(typed) == _plain(said.text):
        return True
    matter = content_words(f"{summary}\n{target.summary if target is not None else ''}") - _ABOUT_THE_SPEAKERS
    return bool(prefixes(content_words(typed)) & prefixes(matter))


def _is_grounded(summary: str, evidence: _Evidence, target: NearMemory | None) -> bool:
    """Whether enough of the summary's words stand in the turns that it names, or in the memory that it is about."""
    words = prefixes(content_words(summary) - _ABOUT_THE_SPEAKERS)
    there = _words_there(evidence) | (content_words(target.summary) if target is not None else frozenset())
    return bool(words) and len(words & prefixes(there)) >= MIN_GROUNDED_SHARE * len(words)


def _is_chosen(said: Iterable[TextBlock]) -> bool:
    """Whether the user decided it in a dialog: nothing but the dialog, and words of the user, stands behind it."""
    roles = {one.role for one in said}
    return Role.CHOSEN in roles and Role.ASSISTANT not in roles


def _says(text: str, summary: str) -> bool:
    """Whether a text alone says what a summary says: "ok, do it" does not make the assistant's words the user's."""
    words = prefixes(content_words(summary) - _ABOUT_THE_SPEAKERS)
    return len(words & prefixes(content_words(text))) >= MIN_GROUNDED_SHARE * len(words)


def _is_about(target: NearMemory, summary: str, evidence: _Evidence) -> bool:
    """Whether a target has anything to do with what is said about it."""
    return bool(content_words(target.summary) & (content_words(summary) | _words_there(evidence)))


def _words_there(evidence: _Evidence) -> frozenset[str]:
    there: set[str] = set()
    for turn in evidence.turns:
        for said in turn.said:
            there |= content_words(said.text)
        for action in turn.actions:
            there |= content_words(" ".join((action.command, action.error_line, action.commit, *action.files)))
    for _, said in evidence.said:
        there |= content_words(said.text)
    return frozenset(there)


def _plain(text: str) -> str:
    return " ".join(text.split())
