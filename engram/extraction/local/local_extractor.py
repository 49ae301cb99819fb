"""The local extractor, which proposes only what is certain without a language model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from engram.enums import Importance, Kind, Scope, Voice
from engram.extraction import rule_words
from engram.extraction.candidate import (
    MAX_CANDIDATE_SUMMARY_CHARACTERS,
    Candidate,
    ExtractionContext,
    NearMemory,
    Statements,
    is_own,
)
from engram.extraction.local.dialog_decisions import decisions, without_dialogs
from engram.extraction.local.proven_fixes import commits, fixes, short_command
from engram.extraction.local.sentences import ended, fitting, quoted, sure
from engram.extraction.rule_endings import TakingBack, meant_by, takings_back
from engram.extraction.user_rules import (
    Judgement,
    rules,
    typed_prompt,
)
from engram.system import process_limits
from engram.system.lazy_regex import lazy_regex
from engram.text import languages
from engram.text.splitting import as_said
from engram.text.words import content_words, overlap
from engram.transcripts.calls import open_failure, open_todos
from engram.transcripts.turns import Action, Role, TextBlock, Turn, standing_turns
from engram.trust.suspicion import why_suspect
from engram.trust.voice import typed_text, unmarked

#: How certain one of the user's rules is, compared with other memories of a session, from 0 to 1.
RULE_QUALITY = 0.95
#: Share of a stopped prompt's words that the next prompt must contain to count as the same prompt sent again.
RETYPED_SHARE = 0.6
#: Share of the shorter text's words that two memories must have in common for one to repeat the other. It is lower than
#: elsewhere, because an amended commit may be reworded.
REPEATED_SHARE = 0.6


class LocalExtractor:
    """Proposes the user's rules, decisions in dialogs, proven fixes, commits that give reasons, and open work.

    Everything else stays in the transcript, where search finds it; ``docs/extraction.md`` describes what is kept.
    """

    name = "local-4"
    is_repeatable = True

    def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        found: list[Candidate] = []
        # Prompts that the user rewound don't count as the user's words, but the work that was done counts.
        standing = _without_retyped(standing_turns(turns))
        for turn in standing:
            process_limits.pause()
            found.extend(decisions(turn))
        turns, standing = ([without_dialogs(turn) for turn in some] for some in (turns, standing))
        found += users_rules(standing, context)
        found += _unrepeated([*fixes(turns), *commits(turns)], context.known)
        found += filter(None, [open_work(turns)])
        kept = _in_order(found, [turn.key for turn in turns], context.session_cap - context.kept_before)
        return [*kept, *retractions(standing, context)]


def _without_retyped(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns without prompts that the user stopped before any answer and sent again in nearly the same words.

    The two prompts must also start with the same word.
    """
    return [turn for turn, after in zip_longest(turns, turns[1:]) if not _is_retyped(turn, after)]


def _is_retyped(turn: Turn, after: Turn | None) -> bool:
    if after is None or not turn.is_interrupted or turn.reply or turn.actions:
        return False
    first, second = turn.users_prompt.casefold().split(), after.users_prompt.casefold().split()
    said = set(first)
    return bool(said) and first[:1] == second[:1] and len(said & set(second)) >= RETYPED_SHARE * len(said)


def users_rules(turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
    """Return the user's rules in the order of the turns, without rules that a later prompt withdraws."""
    found: list[Candidate] = []
    taken = Statements(context.known_of_user)
    for turn, said, rule in _rules(turns, context.project, context.said_before):
        if not taken.has_same(rule.sentence):
            taken.add(rule.sentence)
            is_global = context.is_global and turn.is_by_person
            found.append(_rule(turn, said, rule, scope=Scope.GLOBAL if is_global else rule.scope))
    return found


def _rules(
    turns: Sequence[Turn], project: str, said_before: frozenset[str]
) -> Iterator[tuple[Turn, TextBlock, Judgement]]:
    later: list[TakingBack] = []
    found: list[list[tuple[Turn, TextBlock, Judgement]]] = []
    for turn, after in reversed(list(zip_longest(turns, turns[1:]))):
        of_turn = []
        for said in users_texts(turn):
            typed = typed_text(said.text)
            for rule in rules(typed, project=project, following=typed_prompt(after), said_before=said_before):
                if not any(taking.is_about(rule.sentence) for taking in later):
                    of_turn.append((turn, said, rule))
            later.extend(takings_back(typed, following=typed_prompt(after)))
        found.append(of_turn)
    for of_turn in reversed(found):
        yield from of_turn


def _rule(turn: Turn, said: TextBlock, rule: Judgement, *, scope: Scope) -> Candidate:
    lines = said.text.splitlines()
    start = next((number for number, line in enumerate(lines) if rule.sentence[:24] in line), 0)
    sentence = as_said(rule.sentence, said.text)
    candidate = sure(
        rule.kind,
        turn,
        sentence,
        ["\n".join(lines[start:]), "[before it] " + "\n".join(lines[:start]) if start else ""],
        (said.uuid,),
        voice=Voice.USER,
        quality=RULE_QUALITY,
        suspect=why_suspect(sentence, is_typed=True) or "",
    )
    importance = Importance.HIGH if rule.is_lasting else Importance.NORMAL
    return replace(candidate, importance=importance, scope=scope, confidence=0.9)


def users_texts(turn: Turn) -> Iterator[TextBlock]:
    """Yield the texts of a turn in which the user may state a rule."""
    for said in () if turn.is_unsent else turn.users_texts:
        if not is_own(said.text):
            yield said


def retractions(turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
    """Return a candidate for each rule from another session that the user withdraws in one of the turns.

    A sentence refers to a rule that was in force when it was said, even if that rule can't end or has ended since. It
    must not end the next best match instead, because the sentences of a growing session are read repeatedly.
    """
    older = [memory for memory in context.near if memory.is_users_rule]
    found = []
    for turn, after in zip_longest(turns, turns[1:]):
        for said in users_texts(turn):
            held = [memory for memory in older if _held(memory, said.at_ms)]
            for taking in takings_back(typed_text(said.text), following=typed_prompt(after)):
                found += [
                    Candidate(
                        kind=rule.kind,
                        summary=as_said(taking.sentence, said.text)[:MAX_CANDIDATE_SUMMARY_CHARACTERS],
                        content=as_said(taking.sentence, said.text),
                        evidence=(said.uuid,) if said.uuid else (),
                        turn_keys=(turn.key,),
                        voice=Voice.USER,
                        quality=RULE_QUALITY,
                        action="retracts",
                        target=rule.reference,
                        rests_on_user=True,
                        said_at_ms=said.at_ms or 0,
                    )
                    for rule in meant_by(taking, held)
                    if not rule.is_fixed
                ]
    return found


def _held(rule: NearMemory, at_ms: int | None) -> bool:
    """Return True if a rule was in force at a time; for None, if it is in force now."""
    if at_ms is None:
        return rule.until_ms is None
    return rule.at_ms <= at_ms and (rule.until_ms is None or at_ms <= rule.until_ms)


def _unrepeated(candidates: Iterable[Candidate], known: Sequence[str]) -> list[Candidate]:
    """Return the candidates without those that repeat a later candidate (an amended commit) or a known memory."""
    kept: list[Candidate] = []
    taken = [content_words(summary) for summary in known]
    for proposed in reversed(list(candidates)):
        words = content_words(proposed.summary)
        if not any(overlap(words, other) >= REPEATED_SHARE for other in taken):
            kept.append(proposed)
            taken.append(words)
    return kept[::-1]


def _in_order(candidates: Sequence[Candidate], turn_keys: Sequence[str], room: int) -> list[Candidate]:
    """Return the most certain candidates in the order of their turns, at most ``room``."""
    surest = sorted(candidates, key=lambda proposed: -proposed.quality)[: max(0, room)]
    place_of = {key: place for place, key in enumerate(turn_keys)}
    return sorted(surest, key=lambda proposed: place_of[proposed.turn_keys[0]])


# -- What a session leaves open: unfinished todos, the last failing command, and unfulfilled requests.

#: The beginning of every summary, by which open work is recognised.
LEAD = "Left open"
#: How certain open work is, compared with other memories of a session, from 0 to 1.
QUALITY = 0.7
#: Minimum number of words in a prompt that states a request; a shorter one is a remark of the moment.
MIN_ASKED_WORDS = 8
#: Maximum length of an unanswered prompt in a summary, in characters; of a longer prompt, the first sentences are
#: quoted.
ASKED_ROOM = 220

#: The address of an issue or a pull request.
_PAGE = lazy_regex(r"https?://\S+/(?P<kind>issues|pulls?|merge_requests)/(?P<number>\d+)\S*")


def open_work(turns: Sequence[Turn]) -> Candidate | None:
    """Return what the session leaves open at the end of its last turn.

    Return None if nothing is open. A commit after the last change to the todo list, or after the last failure, means
    that the work was settled in another way.
    """
    last = turns[-1] if turns else None
    if last is None:
        return None
    parts, content, evidence = [], [], []
    if asked := _unanswered(last):
        prompt = next(said for said in last.users_texts if not said.message_id)
        parts.append(asked)
        content.append(f"[asked] {prompt.text}")
        evidence.append(prompt.uuid)
    actions = [action for turn in turns for action in turn.actions]
    todos, place = _todos(actions)
    if todos:
        parts.append(f"{LEAD}: {'; '.join(todos)}.")
        content.append("[todo list]\n" + "\n".join(f"- {todo}" for todo in todos))
        evidence.append(place)
    failed = open_failure(actions)
    if failed is not None:
        parts.append(f"The last run of `{short_command(failed.command)}` failed.")
        evidence.append(failed.uuid)
    if not todos and not asked:
        return None
    summary = fitting(parts)
    if not summary:
        return None
    return sure(Kind.STATE, last, summary, content, evidence, quality=QUALITY, files=last.files)


def _unanswered(turn: Turn) -> str:
    """Return the user's last request if the user interrupted the answer before anything was changed; otherwise ""."""
    prompt = next((said for said in turn.users_texts if not said.message_id), None)
    typed = " ".join(unmarked(typed_text(prompt.text)).split()) if prompt is not None else ""
    is_answered = turn.has_edits or any(said.role is Role.ASSISTANT and len(said.text) > 400 for said in turn.said)
    is_stopped = turn.is_interrupted or not (turn.reply or turn.actions)
    if prompt is None or not prompt.uuid or not is_stopped or is_answered:
        return ""
    if languages.word_count(typed) < MIN_ASKED_WORDS or typed.startswith("/") or rules(typed):
        return ""
    words = quoted(_PAGE.sub(_named_page, typed), ASKED_ROOM)
    is_question = words.endswith("?") or bool(rule_words.QUESTION.search(words))
    return f"{LEAD}: the user asked “{words}” and stopped before it was done." if words and not is_question else ""


def _named_page(page: re.Match[str]) -> str:
    """Return "issue 12" or "pull request 12", to replace the address in a text."""
    return f"{'issue' if page['kind'] == 'issues' else 'pull request'} {page['number']}:"


def _todos(actions: Sequence[Action]) -> tuple[list[str], str]:
    """Return the open todos and the entry of the call that last changed them; none if a commit came later."""
    changes = [number for number, action in enumerate(actions) if action.todos or action.is_todo_list]
    if not changes or any(action.commit for action in actions[changes[-1] :]):
        return [], ""
    return [ended(todo).rstrip(".") for todo in open_todos(actions)], actions[changes[-1]].uuid
