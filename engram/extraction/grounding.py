"""Turn proposals of a language model into candidates; whatever the turns do not say is dropped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from engram.enums import Importance, Kind, Scope, Status, Voice
from engram.extraction.answer import (
    MAX_ANSWER_MEMORIES,
    MAX_PASSAGES,
    ModelOutput,
    ProposedMemory,
    cleaned,
    rolling_summary_of,
)
from engram.extraction.candidate import MAX_CANDIDATE_SUMMARY_CHARACTERS, MAX_SUMMARY_WORDS, Candidate
from engram.extraction.protocol import ExtractionContext, NearMemory
from engram.extraction.request_lines import Ids
from engram.extraction.user_rules import lays_down_for_all_projects
from engram.extraction.write_filter import is_log, is_own, repeats
from engram.models.episodes import MAX_CONTENT_CHARACTERS
from engram.redaction import redact
from engram.redaction.suspicion import why_suspect
from engram.redaction.voice import typed_text
from engram.text.content_words import content_words, prefixes
from engram.text.questions import clean_questions
from engram.transcripts.record import Action, Role, TextBlock, Turn

#: Share of the content words of a summary, of a memory or a session, that must occur in the turns it rests on.
MIN_GROUNDED_SHARE = 0.5
#: Confidence in what the user typed, and in anything else.
TYPED_CONFIDENCE, OTHER_CONFIDENCE = 0.9, 0.7
#: Maximum number of entries that a memory rests on.
MAX_EVIDENCE = 8

#: Words of a summary about the speakers themselves.
_ABOUT_THE_SPEAKERS = frozenset(("user", "assistant", "wants", "decision", "decided", "dead", "end"))
#: Roles that speak for the user.
_USERS = (Role.USER, Role.CHOSEN)
_ELLIPSIS = re.compile(r"\s*(?:\[…\]|…|\.\.\.|\[\.\.\.\])\s*")


@dataclass(slots=True)
class _Evidence:
    """The entries of a request that a proposal cites."""

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


def candidates_of(output: ModelOutput, ids: Ids, context: ExtractionContext) -> list[Candidate]:
    """Return the candidates of an output.

    Ids that were not in the request are dropped. So are memories without a valid id, memories whose words do not occur
    in the turns they cite, and memories that repeat Engram's own text, a log, or what is known. An action with a target
    that was not shown counts as new.
    """
    known = [content_words(bite) for bite in context.known]
    known_of_user = [content_words(bite) for bite in context.known_of_user]
    kept: list[Candidate] = []
    for proposed in output.memories[:MAX_ANSWER_MEMORIES]:
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
        elif not summary or not _is_grounded(summary, evidence, target):
            continue
        candidate = _candidate(proposed, action, target, summary, evidence, context)
        # The user's rule is kept, whoever else said the same before.
        is_users_rule = candidate.voice is Voice.USER and candidate.kind in (Kind.PREFERENCE, Kind.DECISION)
        if action == "new" and repeats(summary, known_of_user if is_users_rule else known):
            continue
        if not (is_own(candidate.summary) or is_own(candidate.content) or is_log(candidate.content)):
            kept.append(candidate)
            known.append(content_words(summary))
            if candidate.voice is Voice.USER:
                known_of_user.append(content_words(summary))
    return kept


def session_summary_of(output: ModelOutput, turns: Iterable[Turn], before: str) -> str:
    """Return the summary of the session so far, redacted.

    It stays what it was before if the model gave none, or one whose words occur neither there nor in the turns.
    """
    summary = rolling_summary_of(output)
    return summary if _has_words_of(summary, content_words(before) | _words_of(turns)) else before


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
    is_programs = not is_user and any(said.role is Role.PROGRAM for said in sources)
    is_chosen = not is_user and not is_programs and _is_chosen(said for _, said in evidence.said)
    is_typed = is_user and all(_is_typed(quote, said) for quote, said in quotes or [(s.text, s) for s in sources])
    # Only what the user said or chose is a preference, and only the user's own words for all projects are global.
    kind = Kind.FACT if proposed.kind == Kind.PREFERENCE and not users else proposed.kind
    is_global = (context.is_global and all(turn.is_by_person for turn in evidence.turns if turn.prompt)) or (
        proposed.scope == Scope.GLOBAL
        and is_user
        and any(
            lays_down_for_all_projects(typed_text(said.text), summary, context.project)
            for said in users
            if said.role is Role.USER
        )
    )
    is_assistants = not is_user and all(said.role not in (Role.PROGRAM, Role.CONTEXT) for said in sources)
    voice = Voice.USER if is_user else Voice.CHOSEN if is_chosen else Voice.ASSISTANT
    voice = Voice.PROGRAM if is_programs else voice
    return Candidate(
        kind=kind,
        summary=summary,
        content=redact(content)[:MAX_CONTENT_CHARACTERS],
        evidence=evidence.uuids,
        turn_keys=tuple(turn.key for turn in evidence.turns),
        entities=tuple(dict.fromkeys(e[:80] for raw in proposed.entities[:20] if (e := redact(cleaned(raw)).strip()))),
        # In other words than was said, so that nothing there can confirm them; nobody is shown them for the memory.
        questions=clean_questions(proposed.questions, lambda text: redact(cleaned(text))),
        importance=Importance.NORMAL if is_programs else proposed.importance,
        scope=Scope.GLOBAL if is_global and not is_chosen else Scope.PROJECT,
        voice=voice,
        confidence=TYPED_CONFIDENCE if is_typed else OTHER_CONFIDENCE,
        status=Status.ACTIVE if is_typed else Status.PROVISIONAL,
        suspect=why_suspect(f"{summary}\n{content}", is_typed=is_typed, is_assistant=is_assistants) or "",
        quality=OTHER_CONFIDENCE,
        action=action,
        target=target.reference if target is not None and action != "new" else "",
        rests_on_user=any(_is_users_word(said, summary, target) for said in users),
        said_at_ms=max((said.at_ms or 0 for _, said in evidence.said), default=0),
    )


def _quotes(proposed: ProposedMemory, evidence: _Evidence) -> list[tuple[str, TextBlock]]:
    """Return the passages that really occur in a text, with that text; a quoted text that is not cited becomes
    evidence.
    """
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
    """Return True if every part of a passage (parts are separated by ellipses) occurs in a text, in order."""
    plain, at = _plain(text), 0
    # Runs of blanks are collapsed first, since the pattern would try each of them.
    passage = _plain(passage)
    parts = [part for part in map(_plain, _ELLIPSIS.split(passage)) if part]
    for part in parts:
        at = plain.find(part, at)
        if at < 0:
            return passage in plain
        at += len(part)
    return bool(parts)


def _is_typed(quote: str, said: TextBlock) -> bool:
    """Return True if the user typed the quoted words, and did not paste, quote or relay them."""
    return said.role is Role.USER and _stands_in(quote, typed_text(said.text))


def _is_users_word(said: TextBlock, summary: str, target: NearMemory | None) -> bool:
    """Return True if a text is the user's own statement on a matter; in a text with pasted parts, the typed part
    counts.
    """
    typed = typed_text(said.text)
    if said.role is Role.CHOSEN or _plain(typed) == _plain(said.text):
        return True
    matter = content_words(f"{summary}\n{target.summary if target is not None else ''}") - _ABOUT_THE_SPEAKERS
    return bool(prefixes(content_words(typed)) & prefixes(matter))


def _is_grounded(summary: str, evidence: _Evidence, target: NearMemory | None) -> bool:
    """Return True if enough of the summary's words occur in the cited turns or in its target."""
    return _has_words_of(
        summary, _words_there(evidence) | (content_words(target.summary) if target is not None else frozenset())
    )


def _has_words_of(summary: str, there: frozenset[str]) -> bool:
    words = prefixes(content_words(summary) - _ABOUT_THE_SPEAKERS)
    return bool(words) and len(words & prefixes(there)) >= MIN_GROUNDED_SHARE * len(words)


def _is_chosen(said: Iterable[TextBlock]) -> bool:
    """Return True if the user decided it in a dialog: its evidence is that dialog and words of the user only."""
    roles = {text.role for text in said}
    return Role.CHOSEN in roles and Role.ASSISTANT not in roles


def _says(text: str, summary: str) -> bool:
    """Return True if a text alone says what a summary says; "ok, do it" does not make the assistant's words the
    user's.
    """
    words = prefixes(content_words(summary) - _ABOUT_THE_SPEAKERS)
    return len(words & prefixes(content_words(text))) >= MIN_GROUNDED_SHARE * len(words)


def _is_about(target: NearMemory, summary: str, evidence: _Evidence) -> bool:
    """Return True if a target has any content word in common with what is said about it."""
    return bool(content_words(target.summary) & (content_words(summary) | _words_there(evidence)))


def _words_there(evidence: _Evidence) -> frozenset[str]:
    return _words_of(evidence.turns).union(*(content_words(said.text) for _, said in evidence.said))


def _words_of(turns: Iterable[Turn]) -> frozenset[str]:
    there: set[str] = set()
    for turn in turns:
        for said in turn.said:
            there |= content_words(said.text)
        for action in turn.actions:
            there |= content_words(" ".join((action.command, action.error_line, action.commit, *action.files)))
    return frozenset(there)


def _plain(text: str) -> str:
    return " ".join(text.split())
