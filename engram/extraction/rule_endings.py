"""Find the sentences with which the user ends an earlier rule, and the rules that they mean. Pure.

``user_rules.py`` handles a rule that is taken back in its own prompt or in the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from engram.extraction import rule_words as words
from engram.extraction.user_rules import is_for_all_projects, sentences_in
from engram.system.cached import cached_by_text
from engram.text import withdrawals
from engram.text.replacements import Replacement, ended_in, is_used_in, replacement_in, says_to_return
from engram.text.withdrawals import subject_words, withdrawn_subjects
from engram.text.words import content_words, coverage_stem, prefixes
from engram.trust.voice import unmarked

#: Share of the words in a sentence such as "we no longer …" that a rule must contain to be ended by it.
MOSTLY = 0.6


@dataclass(frozen=True, slots=True)
class TakingBack:
    """A sentence in which the user withdraws something from an earlier prompt, or says that it no longer applies."""

    sentence: str
    #: Prefixes of the words that specify what is withdrawn.
    about: frozenset[str]
    #: Minimum share of these words that a rule must contain.
    least: float = 0.0
    #: True if the sentence is only about prohibitions, False if it is only about other rules; None for any rule.
    of_prohibitions: bool | None = None
    #: True if these words name a rule ("the squash rule is gone").
    is_name: bool = False
    #: The replacement that the sentence states. It ends only rules to use the old thing that don't mention the new one.
    replaced: Replacement | None = None

    def is_about(self, rule: str) -> bool:
        return self.shared(rule) > 0

    def shared(self, rule: str) -> int:
        """Return how many words a rule has in common with what is withdrawn; 0 if the sentence doesn't mean the rule.

        A name of one word ("the squash rule") means only a rule that says to always or never do just that.
        """
        said = _forms(content_words(rule))
        if self.replaced and (self.replaced.new - self.about & said or not self._leaves(rule, self.replaced)):
            return 0
        shared = len(self.about & said)
        does = withdrawals.WHAT_IT_DOES.search(rule)
        if self.is_name and shared == 1 and not (does and self.about & _forms([does["verb"].lower()])):
            return 0
        is_either = self.of_prohibitions is None or bool(withdrawals.DEMANDS.search(rule))
        is_other = not is_either and self.of_prohibitions != bool(withdrawals.DENIES.search(rule))
        return 0 if is_other or shared < self.least * len(self.about) else shared

    def _leaves(self, rule: str, replaced: Replacement) -> bool:
        """Return True if a rule says to use what is replaced. If it is for all projects, the sentence must be, too."""
        is_here = is_for_all_projects(self.sentence) or not is_for_all_projects(rule)
        everything = not replaced.is_told
        return is_here and any(is_used_in(rule, name, for_everything=everything) for name in replaced.names)


def _forms(words_of_rule: Iterable[str]) -> frozenset[str]:
    """Return the prefixes of words and of their stems, so that "push" matches "pushing"."""
    known = frozenset(words_of_rule)
    return prefixes(known) | prefixes(map(coverage_stem, known))


class _Said(Protocol):
    @property
    def summary(self) -> str:
        """A statement that was made, in one sentence."""


Rule = TypeVar("Rule", bound=_Said)


def meant_by(taking: TakingBack, rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules that a sentence withdraws: those that share the most words with it."""
    shared = [taking.shared(rule.summary) for rule in rules]
    most = max(shared, default=0)
    return [rule for rule, number in zip(rules, shared, strict=True) if most and number == most]


@cached_by_text
def takings_back(typed: str, *, following: str = "") -> Sequence[TakingBack]:
    """Return the sentences that withdraw something specific from an earlier prompt or say that it is over.

    Args:
        following: the text that the user typed in the next prompt, with which they may think better of it.
    """
    found: list[TakingBack] = []
    after = next(sentences_in(unmarked(following)), ("", None))[0]
    is_undone = withdrawals.takes_back(after) or bool(withdrawals.OBJECTS.match(after))
    others = [sentence for sentence, _ in sentences_in(unmarked(typed))]
    for sentence in others:
        is_rule_over = bool(withdrawals.RULE_OVER.search(sentence))
        if subjects := withdrawn_subjects(sentence):
            found += [TakingBack(sentence, about) for about in subjects]
        elif (replaced := None if is_undone else replacement_in(sentence)) and not any(
            says_to_return(other, replaced) for other in others if other != sentence
        ):
            least = 1.0 if len(replaced.names) == 1 else 0.0
            found.append(TakingBack(sentence, replaced.old, least, of_prohibitions=False, replaced=replaced))
        elif about := ended_in(sentence):
            found.append(TakingBack(sentence, about, 1.0))
        elif is_rule_over or withdrawals.OVER.search(sentence) or withdrawals.ALLOWED_AGAIN.search(sentence):
            about = prefixes(map(coverage_stem, subject_words(sentence) - withdrawals.OVER_WORDS))
            if about and not (words.QUESTION.search(sentence) or words.MOMENT.search(sentence)):
                forbids = None if is_rule_over else not withdrawals.OVER.search(sentence)
                found.append(TakingBack(sentence, about, MOSTLY, of_prohibitions=forbids, is_name=is_rule_over))
    return found
