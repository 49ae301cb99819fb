"""Decide which memories a briefing shows, in which section and with which wording, within its budget."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from engram.enums import Kind, Scope, Source, Status, Voice
from engram.extraction.user_rules import is_rule
from engram.models.engine.transaction import Store
from engram.models.memories.branches import MAX_BRANCH_CHARACTERS
from engram.models.memories.memory_records import Memory
from engram.models.sessions.recent_work import CitedText, calls_of_evidence, texts_of_evidence
from engram.recollection.render_bites import FENCE, MAX_BITE_CHARACTERS, MAX_OUTPUT_CHARACTERS, branch_note, shown_text
from engram.system.clock import day_of
from engram.system.lazy_regex import lazy_regex
from engram.text.shell import is_test_command, part_with_known_status
from engram.text.splitting import is_of_the_moment, standing_part, whole_sentences
from engram.text.subject import agrees
from engram.text.words import content_words, prefixes, same_words, stems, topic_words
from engram.transcripts.turns import Role
from engram.trust.display import capitalised
from engram.trust.voice import typed_text

# -- Decide whether the user's statements back a memory that a language model worded.

#: Minimum number of a summary's content words that the user's statements must contain; a single one may be just the
#: project's name.
MIN_COMMON_WORDS = 2
#: Words for the speakers, which don't count as content.
_ABOUT_THE_SPEAKERS = frozenset(("user", "assistant"))
_SENTENCE = lazy_regex(r"[^.!?\n]*(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?\n]?")


def is_backed_by_user(summary: str, cited: Sequence[CitedText]) -> bool:
    """Return True if the user chose the content of a memory, typed a statement about it, or agreed with the assistant.

    Questions do not count, nor does text that was pasted, quoted or relayed.
    """
    if any(text.role is Role.CHOSEN for text in cited):
        return True
    has_proposal = any(text.role is Role.ASSISTANT for text in cited)
    matter = prefixes(content_words(summary) - _ABOUT_THE_SPEAKERS)
    for text in cited:
        if text.role is not Role.USER:
            continue
        typed = typed_text(text.text)
        if has_proposal and agrees(typed):
            return True
        sentences = (sentence for sentence in _SENTENCE.findall(typed) if not sentence.rstrip(" \n\"')").endswith("?"))
        if len(matter & prefixes(content_words(" ".join(sentences)))) >= MIN_COMMON_WORDS:
            return True
    return False


def may_be_pasted(cited: Sequence[CitedText]) -> bool:
    """Return True if a memory has no evidence text, or if some of it was not typed in full by the user."""
    return not cited or any(
        text.role is Role.USER and typed_text(text.text).split() != text.text.split() for text in cited
    )


# -- Choose the section and the wording of a memory. Text that is unclear on its own is left out.

#: Maximum length of a line's text, in characters, unless a language model worded it: the length of its sentences is
#: limited when they are made. Sentences are never cut.
MAX_TEXT_CHARACTERS = 300
#: Maximum age of a state to show, in milliseconds; an older state says nothing about the present.
MAX_STATE_AGE_MS = 30 * 86_400_000
#: Provisional memories below this confidence are not shown.
MIN_CONFIDENCE = 0.5
#: Kinds of memories that a commit or a passing test can confirm.
_VERIFIABLE_KINDS = (Kind.DECISION, Kind.FIX, Kind.DEAD_END)
#: Kinds that may mention tests and commits without merely reporting a moment.
_LASTING_KINDS = (Kind.PREFERENCE, Kind.DECISION, Kind.FIX, Kind.DEAD_END)
#: Phrases that mark a state as unsettled.
_OPEN = lazy_regex(
    r"\b(?:open|unresolved|unsolved|unclear|undecided|todo|pending|blocked|remains?|remaining|missing|still|waiting|"
    r"left|"
    r"not (?:yet|done|fixed|solved|merged|implemented|reproduced|finished|decided)|fails?|failing|broken|yet to)\b",
    re.IGNORECASE,
)
#: Filler words at the beginning of a reply.
_FILLER = lazy_regex(
    r"^(?:(?:yes|yeah|ok(?:ay)?|sure|right|also|and|but|so|please|oh|well|hmm)\b[,.!:]?\s*)+", re.IGNORECASE
)
#: What the user said when refusing a tool call. It concerns only that call unless it states a rule.
_REFUSED = lazy_regex(r"When the user refused .+?, they said: “?(?P<said>.+?)”?$", re.DOTALL)
#: A choice about what to do next, which is of no lasting use.
_PASSING_CHOICE = lazy_regex(
    r"^The user (?:approved|rejected) the plan\b|"
    r"\b(?:how (?:should|do|would|shall) (?:i|we|you)(?: \w+)* (?:proceed|continue|go on)|"
    r"what(?: should (?:i|we) do)? next|(?:should|shall|can|may) i (?:proceed|continue|commit|push|start|go)|"
    r"ready to|which (?:one|task|issue) (?:first|next))\b",
    re.IGNORECASE,
)


class Section(StrEnum):
    RULES = "Rules and preferences:"
    OPEN = "Open problems:"
    DECISIONS = "Decisions in force:"
    DEAD_ENDS = "Dead ends:"
    SAVED = "Saved by the user:"
    UNCONFIRMED = "From the assistant, not confirmed:"


_SECTIONS = {
    Kind.PREFERENCE: Section.RULES,
    Kind.STATE: Section.OPEN,
    Kind.DECISION: Section.DECISIONS,
    Kind.DEAD_END: Section.DEAD_ENDS,
}


def section_of(memory: Memory, now_ms: int) -> Section | None:
    """Return the section of a memory; None if a briefing doesn't show it.

    Fixes and facts are left for prompts that concern them, except those that the user saved by hand.
    """
    if memory.kind == Kind.STATE and not is_open_problem(memory, now_ms):
        return None
    return _SECTIONS.get(memory.kind, Section.SAVED if is_saved_by_user(memory) else None)


def is_saved_by_user(memory: Memory) -> bool:
    """Return True if this machine's user saved the memory by hand."""
    return memory.source == Source.MANUAL and memory.voice == Voice.USER and not memory.origin


def is_about(memory: Memory, files: Collection[str]) -> bool:
    """Return True if a memory mentions one of the files, given as file names in lower case."""
    return any(name.replace("\\", "/").rpartition("/")[2].lower() in files for name in memory.entities)


def is_open_problem(memory: Memory, now_ms: int) -> bool:
    """Return True for a state that is recent, in force and unsettled."""
    is_late = now_ms - memory.created_at_ms <= MAX_STATE_AGE_MS
    is_trusted = memory.status == Status.ACTIVE or not memory.is_by_rules
    return memory.kind == Kind.STATE and is_late and is_trusted and bool(_OPEN.search(memory.summary))


def is_in_force(memory: Memory) -> bool:
    """Return True for a current, sufficiently confident memory that is not suspect, superseded or lowered."""
    is_over = memory.suspect or memory.superseded_by or memory.is_lowered
    return memory.is_current and not is_over and memory.confidence >= MIN_CONFIDENCE


def is_confirmed(store: Store, memory: Memory) -> bool:
    """Return True if a person stated, backed or confirmed a memory, or if a commit or passing test confirms it.

    An open problem counts as confirmed if a language model recorded it, since nothing can confirm it. A memory worded
    by a model counts if the user typed a statement about it or agreed.
    """
    if memory.status == Status.ACTIVE or memory.voice in (Voice.USER, Voice.CHOSEN):
        return True
    if memory.kind == Kind.STATE:
        return not memory.is_by_rules
    if _is_models_word(memory) and is_backed_by_user(memory.summary, texts_of_evidence(store, memory.id)):
        return True
    if memory.kind not in _VERIFIABLE_KINDS:
        return False
    calls = calls_of_evidence(store, memory.id)
    return any(
        call.commit or (call.is_error is False and is_test_command(part_with_known_status(call.command)))
        for call in calls
    )


def may_fill_room(store: Store, memory: Memory) -> bool:
    """Return True for an unconfirmed decision or dead end that may fill the room that is left.

    A language model must have written it for this project, from evidence without pasted text.
    """
    is_lasting = memory.kind in (Kind.DECISION, Kind.DEAD_END) and not is_of_the_moment(memory.summary)
    return is_lasting and _is_models_word(memory) and not may_be_pasted(texts_of_evidence(store, memory.id))


def text_of(memory: Memory) -> str:
    """Return the text that a briefing shows for a memory, in whole sentences.

    Return "" if the text is unclear on its own or only describes a passing moment.
    """
    summary = " ".join(memory.summary.split())
    if memory.source == Source.MANUAL or memory.is_pinned:
        return whole_sentences(summary, MAX_TEXT_CHARACTERS) or summary[:MAX_TEXT_CHARACTERS]
    if not memory.is_by_rules:
        # The prompt for language models requires a sentence that is clear on its own.
        whole = whole_sentences(summary, MAX_BITE_CHARACTERS)
        return "" if memory.kind not in _LASTING_KINDS and is_of_the_moment(whole) else whole
    if memory.voice == Voice.CHOSEN:
        if (refused := _REFUSED.match(summary)) and not is_rule(refused["said"]):
            return ""
        is_passing = _PASSING_CHOICE.search(summary) or is_of_the_moment(summary) or "…" in summary
        return "" if is_passing or len(summary) > MAX_TEXT_CHARACTERS else summary
    if memory.voice == Voice.USER:
        rule = whole_sentences(_FILLER.sub("", summary), MAX_TEXT_CHARACTERS)
        # A rule may name what a report names: "never merge unless the tests pass".
        return capitalised(rule) if is_rule(rule) and "…" not in rule else ""
    # A commit message reads like a task, although the work is done.
    return "" if _tells_a_commit(memory) else standing_part(summary, MAX_TEXT_CHARACTERS)


#: A fact taken from a commit: hash and subject, without a prefix such as ``feat(cli):``.
_COMMIT = lazy_regex(r"[0-9a-f]{7,64} (?:[a-z]+(?P<scope>\([^)]*\))?!?: )?(?P<subject>.+)", re.DOTALL)


def _tells_a_commit(memory: Memory) -> bool:
    """Return True if a memory's summary still contains the words of the commit message from which it was created."""
    commits = (found["subject"] for fact in memory.facts if (found := _COMMIT.fullmatch(fact)))
    return any(stems(topic_words(subject)) <= stems(topic_words(memory.summary)) for subject in commits)


def _is_models_word(memory: Memory) -> bool:
    """Return True for a memory of a lasting kind, about a project, that a language model worded."""
    is_own = memory.source == Source.AUTO and not memory.is_by_rules and memory.scope == Scope.PROJECT
    return is_own and memory.kind in _LASTING_KINDS


# -- Fit the lines of a briefing into the budget that the sections share.

_TITLE = lazy_regex(r"^- \[(ep_[0-9a-f]{12})\]", re.MULTILINE)


class Lines:
    """Collects lines up to a budget in characters. A line that does not fit is left out entirely."""

    def __init__(self, budget: int) -> None:
        """``budget`` is the maximum number of characters, including the fence."""
        self.kept: list[str] = []
        self._left = min(budget - 8, MAX_OUTPUT_CHARACTERS - 200) - 2 * len(FENCE)

    def add(self, *lines: str) -> None:
        """Add all lines, or none if they don't fit."""
        size = sum(len(line) + 1 for line in lines)
        if size <= self._left:
            self.kept += lines
            self._left -= size

    @property
    def left(self) -> int:
        return max(0, self._left)


def ids_in_briefing(briefing: str) -> list[str]:
    """Return the ids of the memories that a briefing shows, ignoring ids that their texts mention."""
    return _TITLE.findall(briefing)


def title_line(memory: Memory, text: str, branch: str = "", against: str = "") -> str:
    """Return the line of a memory, such as ``- [ep_…] 2026-02-20: text``; it names the owner if that is somebody else.

    Args:
        branch: the memory's unmerged branch, if the session is on another one.
        against: the id of a memory that contradicts it, if the user has not decided between the two; "" for none.
    """
    disputed = f", contradicts {against}, undecided" if against else ""
    stale = ", may no longer hold" if memory.stale_reason else ""
    whose = f", {shown_text(memory.told_by, MAX_BRANCH_CHARACTERS)}" if memory.told_by else ""
    head = f"[{memory.episode_id}] {day_of(memory.created_at_ms)}{whose}{stale}{disputed}{branch_note(branch)}"
    return f"- {head}: {shown_text(text, MAX_BITE_CHARACTERS)}"


@dataclass(frozen=True, slots=True)
class SectionLines:
    """The lines of a section, most important first."""

    heading: str
    lines: Sequence[str]
    #: Share of the budget that is reserved for the section.
    share: float


def fit_sections(sections: Sequence[SectionLines], budget: int) -> list[str]:
    """Return headings and lines that fit a budget in characters; a line that does not fit is left out entirely.

    Every section first gets its share; what remains goes to the sections in order.
    """
    chosen: list[set[int]] = [set() for _ in sections]
    left = budget
    for share_of in (lambda section: section.share, lambda section: 1.0):
        for section, picked in zip(sections, chosen, strict=True):
            room = min(left, int(share_of(section) * budget))
            for index, line in enumerate(section.lines):
                cost = len(line) + 1 + (0 if picked else len(section.heading) + 1)
                if index in picked or cost > room:
                    continue
                picked.add(index)
                room -= cost
                left -= cost
    lines: list[str] = []
    for section, picked in zip(sections, chosen, strict=True):
        if picked:
            lines += [section.heading, *(section.lines[index] for index in sorted(picked))]
    return lines


class SaidWords:
    """The words of texts already shown, used to leave out repetitions."""

    def __init__(self) -> None:
        self._texts: list[frozenset[str]] = []

    def add(self, text: str) -> bool:
        """Record a text; return False if an earlier text already says the same."""
        words = stems(topic_words(text))
        if any(same_words(words, other) for other in self._texts):
            return False
        self._texts.append(words)
        return True
