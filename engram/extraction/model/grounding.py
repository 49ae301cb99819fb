"""Turn a language model's proposals into candidates, refusing those that the turns don't support, with a reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from engram.enums import Importance, Kind, Refusal, Scope, Status, Voice
from engram.extraction.candidate import (
    MAX_CANDIDATE_SUMMARY_CHARACTERS,
    Candidate,
    ExtractionContext,
    NearMemory,
    Statements,
    cut_content,
    is_own,
)
from engram.extraction.model.model_answer import (
    MAX_ANSWER_MEMORIES,
    MAX_PASSAGES,
    ModelOutput,
    ProposedMemory,
    cleaned,
    rolling_summary_of,
)
from engram.extraction.model.model_request import Ids
from engram.extraction.user_rules import lays_down_for_all_projects, only_asks, without_questions
from engram.redaction import redact
from engram.system.lazy_regex import lazy_regex
from engram.text.shell import hides_status
from engram.text.splitting import whole_sentences
from engram.text.titles import clean_questions, clean_title
from engram.text.words import content_words, prefixes
from engram.transcripts.turns import Action, Role, TextBlock, Turn
from engram.trust.suspicion import why_suspect
from engram.trust.voice import typed_text

#: Minimum share of the content words in the summary of a memory or session that must occur in the session.
MIN_GROUNDED_SHARE = 0.5
#: Minimum share of these words that must occur in the cited turns. The subject may have been mentioned before those
#: turns.
MIN_CITED_SHARE = 0.25
#: A statement by the user with at most this many words needs only one word in common with the summary; the summary then
#: needs only this share of its words from the session.
MAX_SHORT_WORDS, MIN_SHORT_SHARE = 15, 0.35
#: Confidence in what the user typed, and in anything else.
TYPED_CONFIDENCE, OTHER_CONFIDENCE = 0.9, 0.7
#: Maximum number of entries that a memory rests on.
MAX_EVIDENCE = 8

#: Words about the speakers, and about how something ended. They complete a summary, but state nothing on their own.
_ABOUT_THE_SPEAKERS = frozenset(
    "user users assistant wants wish chose chosen asked reported reports approved rejected decision decided dead end "
    "open session ended failed fails works passes found fixed instead".split()
)
#: Roles that speak for the user.
_USERS = (Role.USER, Role.CHOSEN)
#: Roles of texts that neither the user nor the assistant wrote.
_RELAYED = (Role.CONTEXT, Role.PROGRAM)
#: The short ids in a text such as "[e1], c3".
_SHORTS = lazy_regex(r"[^\s,;\[\]]+")
#: A quotation inside a summary.
_QUOTED = lazy_regex(r"\"[^\"]+\"|“[^”]+”")
_WITH_LEFT_OUT = lazy_regex(r" (?:with|mit|avec|con|com|met) “…”(?=[\s,;:.!)]|$)")
_ELLIPSIS = lazy_regex(r"\s*(?:\[…\]|…|\.\.\.|\[\.\.\.\])\s*")
_LOG_LINE = lazy_regex(
    r"^\s*(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|(?:INFO|DEBUG|WARN(?:ING)?|ERROR|TRACE|FATAL)\b|"
    r"at \S+ ?\(|File \"|Traceback|goroutine \d|--- (?:FAIL|PASS)|=== RUN|[+-]{3} [ab]/|@@ |\$ |> )"
)


def is_log(text: str) -> bool:
    """Return True if most lines belong to a pasted log, stack trace or diff."""
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines) >= 3 and sum(bool(_LOG_LINE.match(line)) for line in lines) * 2 >= len(lines)


@dataclass(slots=True)
class _Evidence:
    """The entries in a request that a proposal cites."""

    said: list[tuple[Turn, TextBlock]]
    actions: list[tuple[Turn, Action]]

    @property
    def turns(self) -> list[Turn]:
        return list({turn.key: turn for turn, _ in (*self.said, *self.actions)}.values())

    @property
    def uuids(self) -> tuple[str, ...]:
        """The entries' uuids, texts before commands."""
        uuids = [said.uuid for _, said in self.said] + [action.uuid for _, action in self.actions]
        return tuple(dict.fromkeys(uuid for uuid in uuids if uuid))[:MAX_EVIDENCE]

    @property
    def at_ms(self) -> int:
        """When the latest part was said, or when its turn ended; 0 if unknown."""
        times = [said.at_ms or 0 for _, said in self.said]
        return max(times or [turn.ended_at_ms or turn.started_at_ms or 0 for turn in self.turns], default=0)

    @property
    def runs(self) -> list[str]:
        """The commands and how they ended, without their output."""
        ends = {True: "failed", False: "ok", None: "no result"}
        return [
            f"{action.command} → {'ended' if _hides_end(action) else ends[action.is_error]}"
            for _, action in self.actions
        ]


@dataclass(slots=True)
class Grounded:
    """The accepted and the refused parts of an output."""

    candidates: list[Candidate] = field(default_factory=list)
    #: The reasons why proposals were refused, one for each.
    refused: list[Refusal] = field(default_factory=list)


def ground(output: ModelOutput, ids: Ids, context: ExtractionContext) -> Grounded:
    """Return the candidates in an output, and the reasons for refusing the other proposals.

    Ids that were not in the request are ignored. Memories are refused if they have no valid id, if their words do not
    occur in the session or have nothing to do with the cited entries, or if they repeat Engram's own text, a log, or a
    known memory. An action with a target that was not shown, or that is about something else, counts as new.
    """
    grounding = _Grounding(ids, context)
    for proposed in output.memories[:MAX_ANSWER_MEMORIES]:
        grounding.add(proposed)
    grounding.found.refused += [Refusal.UNREADABLE] * output.unreadable
    return grounding.found


class _Grounding:
    """Judges the proposals of one output, in order, because each may repeat an earlier one."""

    def __init__(self, ids: Ids, context: ExtractionContext) -> None:
        self.found = Grounded()
        self._ids = ids
        self._context = context
        self._known = Statements(context.known)
        self._known_of_user = Statements(context.known_of_user)
        #: Words of the session so far. They show what a memory is about, but prove nothing on their own. Words of the
        #: memories that were shown don't count, because a model must not repeat them as if they had been said.
        self._session_words = _words_of(turn for turn, _ in (*ids.said.values(), *ids.actions.values()))
        self._session_words |= content_words(f"{context.project} {context.rolling_summary}")

    def add(self, proposed: ProposedMemory) -> None:
        candidate = self._judge(proposed, _evidence(proposed, self._ids))
        if isinstance(candidate, Refusal):
            self.found.refused.append(candidate)
            return
        self.found.candidates.append(candidate)
        self._known.add(candidate.summary)
        if candidate.voice is Voice.USER:
            self._known_of_user.add(candidate.summary)

    def _judge(self, proposed: ProposedMemory, evidence: _Evidence) -> Candidate | Refusal:
        if not evidence.said and not evidence.actions:
            return Refusal.NO_EVIDENCE
        quotes = _quotes(proposed, evidence)
        summary = _fitting(" ".join(redact(cleaned(proposed.summary)).split()))
        if not evidence.said:
            summary = _without_quoted_output(summary, evidence)
        target = self._ids.memories.get(_short(proposed.target or ""))
        if target is not None and not _is_about(target, summary, evidence):
            target = None
        action = proposed.action if target is not None else "new"
        if proposed.action == "retracts":
            if target is None:
                return Refusal.NO_TARGET
            summary = summary or target.summary
        elif not summary:
            return Refusal.NO_SUMMARY
        elif refusal := self._why_not_grounded(summary, evidence, target):
            return refusal
        candidate = _candidate(proposed, action, target, summary, evidence, quotes, self._context)
        # A rule of the user is kept even if someone else said the same before.
        is_users_rule = candidate.voice is Voice.USER and candidate.kind in (Kind.PREFERENCE, Kind.DECISION)
        known = self._known_of_user if is_users_rule else self._known
        if action == "new" and known.has_same(summary):
            return Refusal.REPEATED
        if is_own(candidate.summary) or is_own(candidate.content):
            return Refusal.OWN_TEXT
        return Refusal.LOG if is_log(candidate.content) else candidate

    def _why_not_grounded(self, summary: str, evidence: _Evidence, target: NearMemory | None) -> Refusal | None:
        """Return why a summary is not grounded; None if it is.

        Half of its words must occur in the session, and some of them in the entries that it cites; these are what it
        states, and the others are its subject. A short text by the user supports it with a single common word, unless
        the text only asks, because a question states nothing.
        """
        words = prefixes(content_words(summary) - _ABOUT_THE_SPEAKERS)
        if not evidence.said and (refusal := _why_not_proven(words, evidence)):
            return refusal
        cited = prefixes(
            _words_there(evidence) | (content_words(target.summary) if target is not None else frozenset())
        )
        is_short = any(said.role in _USERS and _says_in_short(said.text) for _, said in evidence.said)
        share = MIN_SHORT_SHARE if is_short else MIN_GROUNDED_SHARE
        if not words or len(words & (cited | prefixes(self._session_words))) < share * len(words):
            return Refusal.NOT_SAID
        if not words & cited or (len(words & cited) < MIN_CITED_SHARE * len(words) and not is_short):
            return Refusal.NOT_CITED
        return None


def _says_in_short(text: str) -> bool:
    """Return True for a short text that does more than ask."""
    return len(text.split()) <= MAX_SHORT_WORDS and not only_asks(text)


def _hides_end(action: Action) -> bool:
    """Return True if the result of a command doesn't show how it ended."""
    return action.is_error is not None and hides_status(action.command, has_failed=action.is_error)


def _why_not_proven(words: frozenset[str], evidence: _Evidence) -> Refusal | None:
    """Return why commands alone do not prove a summary with these words; None if they do.

    Their outcome must be known. Words that occur only in their output don't count, because output never becomes a
    memory.
    """
    if all(action.is_error is None or _hides_end(action) for _, action in evidence.actions):
        return Refusal.UNPROVEN
    return Refusal.OUTPUT if words & _only_printed(evidence) else None


def _only_printed(evidence: _Evidence) -> frozenset[str]:
    """Return the words, as prefixes, that the cited commands printed and nobody said or ran."""
    lines = " ".join(action.error_line for _, action in evidence.actions)
    printed = prefixes(content_words(lines) - _ABOUT_THE_SPEAKERS)
    named = (" ".join((action.command, *action.files)) for _, action in evidence.actions)
    said = (text.text for turn in evidence.turns for text in turn.said)
    return printed - prefixes(content_words("\n".join((*named, *said))))


def _without_quoted_output(summary: str, evidence: _Evidence) -> str:
    """Return a summary with an ellipsis in place of what it quotes from the output of the cited commands.

    After "with", nothing takes its place: "`make check` fails with “…”" is "`make check` fails".
    """
    printed = _only_printed(evidence)
    cut = _QUOTED.sub(lambda quoted: "“…”" if prefixes(content_words(quoted[0])) & printed else quoted[0], summary)
    return summary if cut == summary else _WITH_LEFT_OUT.sub("", cut)


def _fitting(summary: str) -> str:
    """Return a summary or, if it is too long, its first whole sentences or a visibly cut beginning."""
    if len(summary) <= MAX_CANDIDATE_SUMMARY_CHARACTERS:
        return summary
    beginning = summary[: MAX_CANDIDATE_SUMMARY_CHARACTERS - 2]
    return (
        whole_sentences(summary, MAX_CANDIDATE_SUMMARY_CHARACTERS) or f"{beginning.rpartition(' ')[0] or beginning} …"
    )


def session_summary_of(output: ModelOutput, turns: Iterable[Turn], before: str) -> str:
    """Return the summary of the session so far, redacted.

    The earlier summary is kept if the model gave none, or if the words of the new one occur neither in it nor in the
    turns.
    """
    summary = rolling_summary_of(output)
    return summary if _has_words_of(summary, content_words(before) | _words_of(turns)) else before


def _short(text: str) -> str:
    return text.strip("[] \n")


def _evidence(proposed: ProposedMemory, ids: Ids) -> _Evidence:
    shorts = list(dict.fromkeys(short for text in proposed.evidence for short in _SHORTS.findall(text)))
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
    quotes: list[tuple[str, TextBlock]],
    context: ExtractionContext,
) -> Candidate:
    is_relayed = any(said.role in _RELAYED for _, said in evidence.said)
    users = [said for _, said in evidence.said if said.role in _USERS and _claims(said, summary, is_relayed=is_relayed)]
    if proposed.kind == Kind.PREFERENCE and any(said.role in _USERS for _, said in quotes):
        quotes = [(quote, said) for quote, said in quotes if said.role in _USERS]
    sources = [said for _, said in quotes] or [said for _, said in evidence.said]
    content = "\n\n".join([quote for quote, _ in quotes] or [said.text for said in sources] or evidence.runs).strip()
    # "Yes, do it" does not make the assistant's words the user's.
    is_user = bool(sources) and all(said.role is Role.USER for said in sources)
    is_user = is_user and (
        _has_word_of(content, summary)
        if all(said.role is Role.USER for _, said in evidence.said)
        else _says(content, summary)
    )
    is_user = is_user and _is_claimed(summary, quotes, sources)
    is_programs = not is_user and any(said.role is Role.PROGRAM for said in sources)
    is_chosen = not is_user and not is_programs and _is_chosen(said for _, said in evidence.said)
    is_typed = is_user and all(
        _stands_in(quote, typed_text(said.text)) and said.role is Role.USER
        for quote, said in quotes or [(s.text, s) for s in sources]
    )
    # Only words that the user said or chose are a preference, and only the user's own words for all projects are
    # global.
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
    title = clean_title(redact(cleaned(proposed.title)))
    is_printed = not evidence.said and bool(prefixes(content_words(title)) & _only_printed(evidence))
    if is_printed or not _has_words_of(title, content_words(f"{summary}\n{content}")):
        title = ""
    return Candidate(
        kind=kind,
        summary=summary,
        content=cut_content(redact(content)),
        evidence=evidence.uuids,
        turn_keys=tuple(turn.key for turn in evidence.turns),
        entities=tuple(dict.fromkeys(e[:80] for raw in proposed.entities[:20] if (e := redact(cleaned(raw)).strip()))),
        # Questions use words other than those that were said, so nothing can confirm them; they are never shown as the
        # memory.
        questions=clean_questions(proposed.questions, lambda text: redact(cleaned(text))),
        title=title,
        importance=Importance.NORMAL if is_programs else proposed.importance,
        scope=Scope.GLOBAL if is_global and not is_chosen else Scope.PROJECT,
        voice=voice,
        confidence=TYPED_CONFIDENCE if is_typed else OTHER_CONFIDENCE,
        status=Status.ACTIVE if is_typed else Status.PROVISIONAL,
        suspect=why_suspect(f"{title}\n{summary}\n{content}", is_typed=is_typed, is_assistant=is_assistants) or "",
        quality=OTHER_CONFIDENCE,
        action=action,
        target=target.reference if target is not None and action != "new" else "",
        rests_on_user=any(_is_users_word(said, summary, target) for said in users),
        said_at_ms=evidence.at_ms,
    )


def _claims(said: TextBlock, summary: str, *, is_relayed: bool) -> bool:
    """Return False for the user's words if they only ask, or only ask about the content of a summary.

    Args:
        is_relayed: someone else's text is cited too. Then words that have nothing in common with the summary, such as
            "read this", assent to nothing.
    """
    claimed = without_questions(said.text)
    may_assent = _plain(claimed) == _plain(said.text) and not is_relayed
    return said.role is not Role.USER or may_assent or _has_word_of(claimed, summary)


def _is_claimed(summary: str, quotes: list[tuple[str, TextBlock]], sources: list[TextBlock]) -> bool:
    """Return True if the user stated it rather than only asked. A quotation may hide that it comes from a question."""
    claimed = {said.text: without_questions(said.text) for said in sources}
    return _has_word_of(" ".join(claimed.values()), summary) and (
        not quotes or any(_says(claimed[said.text], quote) for quote, said in quotes)
    )


def _quotes(proposed: ProposedMemory, evidence: _Evidence) -> list[tuple[str, TextBlock]]:
    """Return the passages that really occur in a text, each with it; quoted texts not yet cited become evidence."""
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
    """Return True if every part of a passage, as separated by ellipses, occurs in a text, in order."""
    plain, at = _plain(text), 0
    # Runs of white space are collapsed first, because the pattern would try each of them.
    passage = _plain(passage)
    parts = [part for part in map(_plain, _ELLIPSIS.split(passage)) if part]
    for part in parts:
        at = plain.find(part, at)
        if at < 0:
            return passage in plain
        at += len(part)
    return bool(parts)


def _is_users_word(said: TextBlock, summary: str, target: NearMemory | None) -> bool:
    """Return True if a text is the user's own statement on a matter; only the typed parts of the text count."""
    typed = typed_text(said.text)
    if said.role is Role.CHOSEN or _plain(typed) == _plain(said.text):
        return True
    matter = content_words(f"{summary}\n{target.summary if target is not None else ''}") - _ABOUT_THE_SPEAKERS
    return bool(prefixes(content_words(typed)) & prefixes(matter))


def _has_words_of(summary: str, there: frozenset[str]) -> bool:
    words = prefixes(content_words(summary) - _ABOUT_THE_SPEAKERS)
    return bool(words) and len(words & prefixes(there)) >= MIN_GROUNDED_SHARE * len(words)


def _is_chosen(said: Iterable[TextBlock]) -> bool:
    """Return True if the user decided it in a dialog, so that its evidence is only that dialog and the user's words."""
    roles = {text.role for text in said}
    return Role.CHOSEN in roles and Role.ASSISTANT not in roles


def _says(text: str, summary: str) -> bool:
    words = prefixes(content_words(summary) - _ABOUT_THE_SPEAKERS)
    return len(words & prefixes(content_words(text))) >= MIN_GROUNDED_SHARE * len(words)


def _has_word_of(text: str, summary: str) -> bool:
    """Return True if a text and a summary have any content word in common."""
    words = content_words(summary) - _ABOUT_THE_SPEAKERS
    return bool(prefixes(words) & prefixes(content_words(text)))


def _is_about(target: NearMemory, summary: str, evidence: _Evidence) -> bool:
    """Return True if a target and the statement about it have any content word in common."""
    return bool(prefixes(content_words(target.summary)) & prefixes(content_words(summary) | _words_there(evidence)))


def _words_there(evidence: _Evidence) -> frozenset[str]:
    return _words_of(evidence.turns).union(*(content_words(said.text) for _, said in evidence.said))


def _words_of(turns: Iterable[Turn]) -> frozenset[str]:
    """Return the words that were said, run or committed in turns; what a command printed may be anybody's."""
    there: set[str] = set()
    for turn in turns:
        for said in turn.said:
            there |= content_words(said.text)
        for action in turn.actions:
            there |= content_words(" ".join((action.command, action.commit, *action.files)))
    return frozenset(there)


def _plain(text: str) -> str:
    return " ".join(text.split())
