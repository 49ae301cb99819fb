"""Propose what a session leaves open: unfinished todos, the last failing command, and unfulfilled requests."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engram.enums import Kind
from engram.extraction import rule_words
from engram.extraction.candidate import Candidate
from engram.extraction.local.proven_fixes import short_command
from engram.extraction.local.sentences import ended, fitting, quoted, sure
from engram.extraction.user_rules import rules
from engram.system.lazy_regex import lazy_regex
from engram.text import languages
from engram.transcripts.calls import open_failure, open_todos
from engram.transcripts.turns import Action, Role, Turn
from engram.trust.voice import typed_text, unmarked

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
