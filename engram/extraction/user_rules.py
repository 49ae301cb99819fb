"""Find the user's rules: which sentences of a prompt state a rule for later, and why the others do not. Pure.

A sentence is a rule only if it is unmistakably meant to last (always, never, from now on, we use, our convention is),
was typed by the user, and is about all of a project or all of their work. People word rules, and sentences that only
resemble them, in more ways than anyone can list. Therefore a linear model of a sentence's words decides; it was fitted
by ``benchmarks/user_rules.py`` on prompts from many writers, and docs/extraction.md gives the figures. This module
handles everything that depends on other sentences: questions, lists, corrections. An order without a word such as
"always" may be meant only for the moment, so it remains a sentence in a transcript until the user says it again in
another session.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path

from engram.enums import Kind, Scope
from engram.extraction import rule_words as words
from engram.extraction.candidate import MAX_CANDIDATE_SUMMARY_CHARACTERS
from engram.system.cached import cached_by_text, lru_cache_by_text
from engram.text import languages, withdrawals
from engram.text.linear_model import LinearModel, features, load_model
from engram.text.replacements import ended_in, replacement_in
from engram.text.splitting import Block, Statement, plain, split
from engram.text.splitting import sentences as sentences_of
from engram.text.withdrawals import (
    ANNOUNCES,
    DISAGREES,
    QUESTIONED,
    correction_in,
    subject_words,
    takes_all_back,
    takes_back,
    withdrawal_in,
    withdrawn_subject,
)
from engram.text.words import content_words, is_unspaced, prefixes
from engram.transcripts.turns import Turn
from engram.trust.voice import LEFT_OUT, typed_text

WEIGHTS = Path(__file__).with_name("rule_weights.json")
#: Minimum and maximum length of a rule, in words. A longer sentence is a description, and memories are never cut short.
MIN_WORDS = 3
MAX_WORDS = 40
#: Maximum length of a sentence that is searched, in characters. Some patterns of rules take more than linear time.
LONGEST = 600
#: Minimum share of all words in two sentences that must be common for the sentences to say the same.
SAME_SHARE = 0.6
#: Maximum number of sentences in a prompt and the next one that withdraw or correct something.
MOST_WITHDRAWALS = 12


class RuleRefusal(StrEnum):
    """Why a sentence that sounds like a rule is not kept as one."""

    QUESTION = "it is a question, or you asked what to think of it"
    LIST = "it is a point of a list that is not a list of rules"
    TAKEN_BACK = "it was withdrawn, corrected or contradicted"
    PART = "it belongs to a role that the assistant was given, or is about an agent that you make"
    PRODUCT = "it says how a program must behave; with “we” or “remember that” it becomes a rule"
    LENGTH = "it is too long or too short for a rule"
    ORDER = (
        "it is an order, which may be meant only for now; it becomes a rule when you say it again in another session, "
        "or with “from now on”"
    )
    MOMENT = "it holds only for a moment or a task"
    ELSEWHERE = "it is about another project"
    TEXT = "it is part of a text that you asked for"
    DANGLING = "it does not say on its own what it is about (“that”, “this way”, “never on Fridays”)"
    JOKE = "it reads like a joke"
    UNWORDED = "it has no word for later, such as always or never; with “from now on” it becomes a rule"
    UNSURE = (
        "it may describe how something is, or be a guess or someone else's opinion; with “from now on” in front, it "
        "mostly becomes a rule"
    )


#: Refusals of sentences that may nevertheless be rules if their neighbours explain them.
_OPEN = frozenset(
    {RuleRefusal.MOMENT, RuleRefusal.DANGLING, RuleRefusal.JOKE, RuleRefusal.UNWORDED, RuleRefusal.UNSURE}
)


#: Beginnings, in any of the languages, of sentences that are nearly always rules.
_SURE = (
    words.SURE,
    words.REMEMBERS,
    languages.REMEMBERS,
    languages.ALWAYS_DO,
    languages.NEVER_DO,
    languages.FROM_NOW_ON,
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A sentence that sounds like one of the user's rules, and the judgement on it."""

    #: The user's sentence, as one line.
    sentence: str
    kind: Kind = Kind.PREFERENCE
    scope: Scope = Scope.PROJECT
    #: True if its wording is permanent; False for an order that was repeated.
    is_lasting: bool = True
    #: Why it is not kept; None for a rule.
    refusal: RuleRefusal | None = None


def judge(
    typed: str,
    *,
    project: str = "",
    following: str = "",
    said_before: Collection[str] = (),
    model: LinearModel | None = None,
) -> list[Judgement]:
    """Judge every sentence of a prompt that sounds like a rule, in order.

    Args:
        typed: the text that the user typed, without anything pasted, quoted or relayed.
        project: display name of the project; a sentence that mentions it applies only to this project.
        following: the text that the user typed in the next prompt of the session; "" for none.
        said_before: sentences of this prompt that the user also said in another session, as returned by ``orders``.
        model: a model of rules to evaluate; None for the shipped one.
    """
    model = model or shipped_model()
    command = words.COMMAND.match(typed)
    begin = command or words.HASH.match(typed)
    sentences = list(sentences_in(typed[begin.end() :] if begin else typed))
    enumerated = _enumerated(sentences)
    judged: list[tuple[int, Judgement]] = []
    lead = ""
    first = sentences[0][0] if sentences else ""
    is_dictated = bool(words.PART.search(first) or words.DICTATES.search(first))
    built = -1  # The paragraph that asks to make something.
    asked = ""  # The sentence that asks to make something; the lists below it may be its specification.
    asks_for_lists = any(
        statement.block is Block.PROSE and _asks_for(sentence) and words.THESE_RULES.search(sentence)
        for sentence, statement in sentences
    )
    dictated = -1  # The paragraph that contains a text to write or translate.
    required: set[int] = set()
    for place, (sentence, statement) in enumerate(sentences):
        if statement.block is Block.PROSE:
            lead = sentence
        if words.BESIDES.search(sentence):
            is_dictated, built, asked = False, -1, ""
        before = sentences[place - 1][0] if place else ""
        after = sentences[place + 1][0] if place + 1 < len(sentences) else ""
        if words.TEXT_FOLLOWS.match(sentence):
            dictated = statement.group
        found = _judge(sentence, statement, after, project, model)
        if found is not None and statement.group == dictated and found.refusal in (None, RuleRefusal.ORDER):
            found = replace(found, refusal=RuleRefusal.TEXT)
        is_asked = ANNOUNCES.search(before) or QUESTIONED.search(after) or words.OFFERS_ANOTHER.match(after)
        if found is not None and is_asked:
            found = replace(found, refusal=RuleRefusal.QUESTION)
        is_option = statement.block is Block.BULLET and words.OPTIONS_HEADING.search(lead)
        if found is not None and found.refusal is None and (is_option or statement.group in enumerated):
            found = replace(found, refusal=RuleRefusal.LIST)
        if found is not None and found.refusal is None and languages.EXCEPTS.match(after):
            found = _with_exception(found, after)
        if found is not None:
            if is_dictated and found.refusal in (None, RuleRefusal.ORDER):
                found = replace(found, refusal=RuleRefusal.PART)
            is_item = statement.block is Block.BULLET
            is_specified = is_item and (asks_for_lists or (asked and not _is_about_the_work(statement)))
            is_part = is_specified or statement.group == built or words.BUILDS.search(sentence)
            # "The rules" in a specification are those of the thing to make.
            said = words.RULE_NOUN.sub("", sentence) if is_specified else sentence
            if is_part and found.refusal is None and not _is_wider(said):
                required.add(place)
            is_next = place > 0 and sentences[place - 1][1].group == statement.group and words.REQUIRES.search(before)
            is_from_now_on = words.FROM_NOW_ON.search(sentence) and not words.OF_THE_WORK.search(sentence)
            if is_next and is_from_now_on and not _is_wider(words.FROM_NOW_ON.sub("", sentence)):
                required.add(place)
            is_for_run = command is not None and not words.KEEPS.search(command[0])
            if place == 0 and found.refusal is None and is_for_run and not words.FROM_NOW_ON.search(sentence):
                # The first words after a command concern only this run of the command, until they are said again.
                found = replace(found, refusal=RuleRefusal.ORDER)
            if found.refusal is RuleRefusal.ORDER and sentence in said_before:
                found = replace(found, refusal=None, is_lasting=False)
            judged.append((place, found))
        if statement.block is Block.PROSE and _asks_for(sentence):
            built, asked = statement.group, sentence
    _take_back(judged, [sentence for sentence, _ in sentences], following)
    # This comes last, because a withdrawal that follows such a requirement means the requirement, not an earlier rule.
    return [
        replace(found, refusal=RuleRefusal.MOMENT) if place in required and found.refusal is None else found
        for place, found in judged
    ]


@cached_by_text
def rules(
    typed: str, *, project: str = "", following: str = "", said_before: frozenset[str] = frozenset()
) -> Sequence[Judgement]:
    """Return the sentences of a prompt that are rules; the arguments are those of ``judge``."""
    judged = judge(typed, project=project, following=following, said_before=said_before)
    return [found for found in judged if found.refusal is None]


@cached_by_text
def orders(typed: str) -> Sequence[str]:
    """Return the sentences of a prompt that become rules if the user says them again."""
    return [found.sentence for found in judge(typed) if found.refusal is RuleRefusal.ORDER]


def is_same_order(first: str, second: str) -> bool:
    """Return True if two orders say the same in nearly the same words."""
    (mine, denies), (theirs, also) = _content(first), _content(second)
    return denies == also and bool(mine and theirs) and len(mine & theirs) >= SAME_SHARE * len(mine | theirs)


@lru_cache_by_text(4096)  # Each rule is compared with many others.
def _content(order: str) -> tuple[frozenset[str], bool]:
    """Return the prefixes of an order's content words, and whether it contains a negation."""
    return prefixes(content_words(order)), bool(words.NEGATION.search(order))


def without_questions(text: str) -> str:
    """Return the sentences in ``text`` that state something, leaving out questions."""
    said = (part for sentence in sentences_of(plain(text)) for part in _parts_of(sentence))
    return " ".join(part for part in said if not words.QUESTION.search(part))


def only_asks(text: str) -> bool:
    """Return True if every sentence in ``text`` is a question."""
    return bool(text.strip()) and not without_questions(text)


def typed_texts(turn: Turn) -> list[str]:
    """Return the texts that the user typed in a turn; [] for a prompt that was never sent."""
    return [] if turn.is_unsent else [typed_text(said.text) for said in turn.users_texts]


def typed_prompt(turn: Turn | None) -> str:
    """Return what the user typed in a turn's prompt; "" if there is none."""
    return "" if turn is None else typed_text(turn.users_prompt)


def is_rule(sentence: str) -> bool:
    """Return True if a sentence is a rule on its own, or an order that may have been given more than once."""
    return any(found.refusal in (None, RuleRefusal.ORDER) for found in judge(sentence))


def lays_down_for_all_projects(typed: str, summary: str, project: str = "") -> bool:
    """Return True if a rule in a prompt applies to all projects and is about the subject of a language model's summary.

    A rule that is explained only by its neighbours ("that's how all my programs should behave") counts, because the
    summary says what it is about.
    """
    said = prefixes(content_words(summary))
    return any(
        rule.scope is Scope.GLOBAL
        and (rule.refusal is None or rule.refusal in _OPEN)
        and said & prefixes(content_words(rule.sentence))
        for rule in judge(typed, project=project)
    )


def is_for_all_projects(text: str) -> bool:
    """Return True if the text says that something applies to all projects."""
    return bool(words.UNIVERSAL.search(text) or languages.UNIVERSAL.search(text)) and not words.NOT_UNIVERSAL.search(
        text
    )


def scope_of(sentence: str, project: str = "") -> Scope:
    """Return global for a rule with words for all projects that mentions nothing in this project; otherwise project."""
    if not is_for_all_projects(sentence) or (project and _names(sentence, project)):
        return Scope.PROJECT
    # A tool in backticks may belong to any project; a path, a file or a symbol belongs to this one.
    rest = words.NOT_ONLY_HERE.sub(" ", languages.UNIVERSAL.sub(" ", words.UNIVERSAL.sub(" ", sentence)))
    rest = words.CASES.sub(" ", rest.replace("`", ""))
    return Scope.PROJECT if words.LOCAL.search(rest) or languages.LOCAL.search(rest) else Scope.GLOBAL


def _names(sentence: str, project: str) -> bool:
    """Return True if a sentence contains a project's name; in scripts with spaces between words, as a whole word."""
    if is_unspaced(project):
        return project.lower() in sentence.lower()
    # It may also be the beginning or end of a symbol's or package's name: acme_client, AcmeClient, acme2.
    name = rf"(?<![^\W\d_]){re.escape(project)}(?:(?![^\W\d_])|(?-i:(?=[A-Z])))"
    return re.search(name, sentence, re.IGNORECASE) is not None


def _judge(sentence: str, statement: Statement, after: str, project: str, model: LinearModel) -> Judgement | None:
    """Judge a sentence by itself and the following one; return None if it does not sound like a rule."""
    wording = _without_politeness(sentence)
    score, floors = model.score(features(wording)), model.floors
    is_swap = bool(words.SWAPS.match(sentence))
    is_order = bool(is_swap or words.ORDER.search(sentence) or languages.ORDER.search(sentence))
    is_said_again = is_order and (is_swap or score >= floors["order"])
    beginning = _beginning(wording, after)
    if beginning == "sure" and not sentence.startswith(wording) and not words.FROM_NOW_ON.search(wording):
        beginning = "unmistakable"  # A polite request may be about the program: "can you please always show the date?".
    is_listed = statement.block is Block.BULLET and words.PROJECT_RULES.match(statement.lead or statement.topic)
    if not is_listed and beginning == "rule" and score < floors["unsure"] and not is_said_again:
        return None
    refusal = _refusal(wording, statement, after)
    is_worded_so = beginning != "rule" or _has_lasting_word(sentence)
    if refusal is None and _is_remembered_for_now(sentence, after):
        refusal = RuleRefusal.MOMENT
    if refusal is None and not is_listed and not (is_worded_so and score >= floors[beginning]):
        by_words = RuleRefusal.UNSURE if is_worded_so else RuleRefusal.UNWORDED
        refusal = RuleRefusal.ORDER if is_said_again else by_words
    is_decision = words.TEAM.search(sentence) or languages.DECIDES.search(sentence)
    return Judgement(
        sentence,
        kind=Kind.DECISION if is_decision else Kind.PREFERENCE,
        scope=scope_of(sentence, project),
        refusal=refusal,
    )


def _beginning(sentence: str, after: str) -> str:
    """Return the name of the floor for a sentence with this beginning that is followed by ``after``."""
    both = f"{sentence} {after}"
    if words.DOUBTFUL.search(both) or languages.DOUBTFUL.search(both):
        return "rule"
    if words.REMIND_OF_IT.search(after) and (words.STATES.search(sentence) or words.SAYS_WHEN.search(sentence)):
        return "sure"
    lead = words.LEAD.match(sentence)
    if lead and words.OPENS.match(lead["lead"]):
        return _beginning(sentence[lead.end() :], after)
    everywhere = words.UNIVERSAL.match(sentence) or languages.UNIVERSAL.match(sentence)
    if everywhere and (rest := sentence[everywhere.end() :].lstrip(" ,:;–—-")):
        return _beginning(rest, after)
    is_team = languages.TEAM.search(sentence) and languages.LASTING.search(sentence)
    is_new = (replaced := replacement_in(sentence)) and replaced.new and replaced.is_lasting
    if is_team or is_new or any(pattern.search(sentence) for pattern in _SURE):
        return "sure"
    begins = (words.UNMISTAKABLE, languages.UNMISTAKABLE, languages.TEAM)
    return "unmistakable" if any(pattern.search(sentence) for pattern in begins) else "rule"


def _without_politeness(sentence: str) -> str:
    """Return the order in a request that is worded as a question, such as "could you make sure to always …?"."""
    lead = words.POLITE.match(sentence)
    if lead:
        return sentence[lead.end() :].rstrip(" ?")
    consent = words.CONSENT.search(sentence)
    return sentence[: consent.start()] if consent and _beginning(sentence, "") != "rule" else sentence


def _is_remembered_for_now(sentence: str, after: str) -> bool:
    """Return True for a statement to remember that is only true at the moment, in any of the languages.

    Args:
        after: the next sentence, which may be the one that asks to remember it.
    """
    reminds = words.REMINDS.search(sentence) or words.REMIND_OF_IT.search(after)
    is_now = reminds and words.NOW.search(sentence)
    return bool(is_now or languages.REMINDS_FOR_NOW.search(sentence))


def _has_lasting_word(sentence: str) -> bool:
    """Return True if a sentence contains a word for something that lasts, in any of the languages."""
    lasting = (words.LASTING, languages.LASTING, languages.DECIDES)
    return is_for_all_projects(sentence) or any(pattern.search(sentence) for pattern in lasting)


def _is_wider(sentence: str) -> bool:
    """Return True if a sentence after a request to make something is about more than that thing."""
    return bool(words.WIDER.search(sentence) or languages.WIDER.search(sentence)) or is_for_all_projects(sentence)


def _is_about_the_work(statement: Statement) -> bool:
    """Return True for an item of a list whose heading says that its rules are about the work, not the thing to make."""
    heading = f"{statement.topic} {statement.lead}"
    of_the_work = (words.WORK_HEADING, words.FROM_NOW_ON, languages.LOCAL)
    return is_for_all_projects(heading) or any(pattern.search(heading) for pattern in of_the_work)


def _asks_for(sentence: str) -> bool:
    """Return True if a sentence asks to make something, in any of the languages."""
    return bool(words.BUILDS.search(sentence) or languages.BUILDS.search(sentence))


@cache
def shipped_model() -> LinearModel:
    """Return the model of rules.

    Its floors are "rule" for rules; "unmistakable" and "sure" for sentences that begin like a rule; "order" for an
    order that becomes a rule when it is said again; "unsure" for sentences that sound like a rule.
    """
    return load_model(WEIGHTS)


def _refusal(sentence: str, statement: Statement, after: str) -> RuleRefusal | None:
    """Return the reason that disqualifies a sentence, however lasting it sounds; None if there is none."""
    if words.QUESTION.search(words.PARENTHESIS.sub("", sentence).strip()):
        return RuleRefusal.QUESTION
    if statement.block is Block.ROW or (statement.block is Block.BULLET and not _is_in_rules(statement)):
        return RuleRefusal.LIST
    if words.CHOICE.search(sentence):
        return RuleRefusal.LIST
    if words.LAUGHS.search(sentence) or words.LAUGHS.search(after):
        return RuleRefusal.JOKE
    # Words in quotation marks are only named: “never write "for now" in the docs”.
    unquoted = words.NOT_ONLY.sub("", words.QUOTED.sub("", sentence))
    if words.MOMENT.search(unquoted) or languages.is_for_the_moment(unquoted):
        return RuleRefusal.MOMENT
    if _limits(after):
        return RuleRefusal.MOMENT
    if words.ELSEWHERE.search(sentence) and not is_for_all_projects(sentence):
        return RuleRefusal.ELSEWHERE
    if words.ABOUT_A_TEXT.match(sentence) or words.TEXT_TO.match(sentence) or words.IN_BACKTICKS.match(sentence):
        return RuleRefusal.TEXT
    is_fact = words.REMINDS.search(sentence) or words.REMIND_OF_IT.search(after)
    if words.OF_THE_PROGRAM.match(sentence) and not (is_fact or words.PERSONAL.search(sentence)):
        return RuleRefusal.PRODUCT
    lead = words.LEAD.match(sentence)
    if lead and words.ATTRIBUTES.match(lead["lead"]):
        return RuleRefusal.UNSURE
    if languages.PERHAPS.match(sentence) or languages.CONSIDERS.search(sentence):
        return RuleRefusal.UNSURE
    if words.REPORTS.search(sentence) or words.EXAMPLE.search(sentence):
        return RuleRefusal.UNSURE
    if words.DANGLING.search(sentence) or LEFT_OUT in sentence or sentence.endswith((":", "：")):
        return RuleRefusal.DANGLING
    ends = (withdrawals.OVER, withdrawals.RULE_OVER, withdrawals.ALLOWED_AGAIN, withdrawals.DISMISSES)
    if any(over.search(sentence) for over in ends) or ended_in(sentence):
        return RuleRefusal.TAKEN_BACK
    if DISAGREES.search(sentence) or DISAGREES.search(after):
        return RuleRefusal.TAKEN_BACK
    if len(sentence) > MAX_CANDIDATE_SUMMARY_CHARACTERS or not MIN_WORDS <= languages.word_count(sentence) <= MAX_WORDS:
        return RuleRefusal.LENGTH
    return None


def _with_exception(rule: Judgement, exception: str) -> Judgement:
    """Return a rule with the exception that the next sentence makes, because a rule is never kept without it."""
    whole = f"{rule.sentence} {exception}"
    is_whole = LEFT_OUT not in exception and len(whole) <= MAX_CANDIDATE_SUMMARY_CHARACTERS
    return replace(rule, sentence=whole) if is_whole else replace(rule, refusal=RuleRefusal.LENGTH)


def _limits(sentence: str) -> bool:
    """Return True if a sentence only limits the one before it, in any of the languages."""
    return bool(withdrawals.LIMITS.match(sentence) or languages.LIMITS.match(sentence))


def _enumerated(sentences: Sequence[tuple[str, Statement]]) -> frozenset[int]:
    """Return the groups of statements that count "1. … 2. …" within a paragraph."""
    texts: dict[int, list[str]] = {}
    for sentence, statement in sentences:
        if statement.block is Block.PROSE:
            texts.setdefault(statement.group, []).append(sentence)
    return frozenset(group for group, parts in texts.items() if words.ENUMERATION.search(" ".join(parts)))


def _is_in_rules(statement: Statement) -> bool:
    """Return True for an item of a list whose heading says that it contains rules."""
    heading = f"{statement.topic} {statement.lead}".strip()
    if words.OPTIONS_HEADING.search(heading):
        return False
    return bool(words.RULES_HEADING.search(heading)) and not (
        words.JUDGES.search(heading) or words.MOMENT.search(heading)
    )


def _take_back(judged: list[tuple[int, Judgement]], sentences: Sequence[str], following: str) -> None:
    """Refuse rules that are withdrawn by a later sentence in the prompt, or by the next prompt.

    If there are more than ``MOST_WITHDRAWALS`` withdrawals and corrections, all rules are refused, to bound the time.
    """
    after = [sentence for sentence, _ in sentences_in(following)]
    count = sum(takes_back(said) or correction_in(said) is not None for said in (*sentences, *after))
    if count > MOST_WITHDRAWALS:
        judged[:] = [
            (
                at,
                replace(found, refusal=RuleRefusal.TAKEN_BACK) if found.refusal in (None, RuleRefusal.ORDER) else found,
            )
            for at, found in judged
        ]
        return
    for at, sentence in enumerate(sentences):
        if takes_back(sentence):
            _refuse(judged, at, sentence, within=at)
        elif correction := correction_in(sentence):
            # A correction refers to the sentence just before it, or to the beginning of its own sentence.
            is_own = bool(sentence[: correction.start()].strip())
            _refuse(judged, at, sentence, within=1, with_own=is_own)
    last = len(sentences) - 1
    for number, sentence in enumerate(after):
        objects = number == 0 and (
            DISAGREES.search(sentence) or withdrawals.OBJECTS.match(sentence) or _limits(sentence)
        )
        if takes_back(sentence) or objects:
            _refuse(judged, last + 1, sentence, within=last + 1)
        elif number == 0 and (correction := correction_in(sentence)) and not correction.start():
            _refuse(judged, last + 1, sentence, within=1)
            _refuse(judged, last + 1, sentence, within=last + 1, only_shared=True)
        elif number == 0 and withdrawals.LIFTS.search(sentence):
            _refuse(judged, last + 1, sentence, within=last + 1, only_shared=True)
        elif number == 0 and (permits := withdrawals.PERMITS.search(sentence)):
            _refuse(judged, last + 1, permits["about"], within=last + 1, only_shared=True, forbids=True)
        elif number == 0 and (
            better := withdrawals.WAS_BETTER.search(sentence) or withdrawals.IS_BETTER.search(sentence)
        ):
            _refuse(judged, last + 1, better["about"], within=last + 1, only_shared=True, forbids=False)


def _forbids(rule: str) -> bool:
    """Return True if a rule forbids something. "Never … without …" is a demand instead."""
    return bool(withdrawals.DENIES.search(rule)) and not withdrawals.DEMANDS.search(rule)


def _refuse(
    judged: list[tuple[int, Judgement]],
    at: int,
    sentence: str,
    *,
    within: int,
    only_shared: bool = False,
    with_own: bool = True,
    forbids: bool | None = None,
) -> None:
    """Refuse the rules that a sentence withdraws: those that share words with it, otherwise the last one before it.

    Args:
        judged: every judgement, with the position of its sentence.
        within: how many sentences before it to consider.
        only_shared: refuse only rules with common words.
        with_own: also refuse the sentence itself.
        forbids: True to refuse only rules that forbid something, False to refuse only others; None for any rule.
    """
    rules_before = [
        n
        for n, (place, found) in enumerate(judged)
        if at - within <= place < at + with_own
        and found.refusal in (None, RuleRefusal.ORDER)
        and forbids in (None, _forbids(found.sentence))
    ]
    said = prefixes(subject_words(sentence))
    shared = [n for n in rules_before if judged[n][0] != at and said & prefixes(content_words(judged[n][1].sentence))]
    if takes_all_back(sentence):
        chosen = rules_before
    elif only_shared or shared or withdrawn_subject(sentence):
        chosen = shared
    else:
        chosen = [n for n in rules_before if judged[n][0] != at][-1:]
    own = [n for n in rules_before if judged[n][0] == at]
    for n in {*chosen, *own}:
        place, found = judged[n]
        judged[n] = (place, replace(found, refusal=RuleRefusal.TAKEN_BACK))


def sentences_in(typed: str) -> Iterator[tuple[str, Statement]]:
    """Yield the sentences of a prompt, each with the statement that contains it; a separate line is a statement, too.

    The middle of a very long sentence is left out.
    """
    lines = [line for line in words.STRUCK.sub("", typed).splitlines() if not words.TO_DO.match(line)]
    for at in range(len(lines) - 1):
        if words.PLAIN_LINE.match(lines[at]) and lines[at + 1][:1].isupper():
            lines[at] += "."
    for statement in split("\n".join(lines)):
        for part in _parts_of(statement.text):
            yield from ((sentence, statement) for sentence in _withdrawal_first(part))


def _parts_of(text: str) -> Iterator[str]:
    """Yield the sentences of a statement, including those that don't begin with a capital letter."""
    for sentence in languages.sentences_of(text):
        start = 0
        for end in words.SOFT_END.finditer(sentence):
            last = sentence[max(start, end.start() - words.LONGEST_ABBREVIATION) : end.start()]
            is_in_code = sentence.count("`", start, end.start()) % 2
            if not (is_in_code or words.ABBREVIATION.search(last)):
                yield sentence[start : end.start()].strip()
                start = end.end()
        if sentence[start:].strip():
            yield sentence[start:].strip()


def _withdrawal_first(sentence: str) -> Iterator[str]:
    """Yield a sentence; in two parts if a rule follows what it withdraws: "scratch that, always use pnpm"."""
    if len(sentence) > LONGEST:
        yield f"{sentence[: LONGEST // 2]} … {sentence[-(LONGEST // 2) :]}"
        return
    taking = withdrawal_in(sentence)
    comma = words.CLAUSE_END.search(sentence, taking.end()) if taking else None
    if comma and _beginning(sentence[comma.end() :], "") != "rule":
        yield sentence[: comma.start()]
        sentence = sentence[comma.end() :]
    yield sentence
