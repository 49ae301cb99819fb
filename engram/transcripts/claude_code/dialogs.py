"""Read what the user said in Claude Code's own dialogs: answers, decisions about plans, comments on calls.

Only this module decides which words in a tool's result are the user's. A tool can print anything, even a perfect
imitation of these reports, so it relies on the fields that Claude Code itself writes next to the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from engram.system.lazy_regex import any_case, lazy_regex
from engram.transcripts.claude_code.entry import Entry
from engram.transcripts.json_values import object_in, objects_in, storable, storable_text, texts_in
from engram.transcripts.message_elements import judge
from engram.transcripts.speaker import Speaker
from engram.transcripts.turns import ARROW, Action, Role, TextBlock

QUESTION_TOOL = "AskUserQuestion"
PLAN_TOOL = "ExitPlanMode"
#: Claude Code's own tools whose failures contain no foreign text.
_OWN_TOOLS = frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit", PLAN_TOOL})
#: First version that writes ``toolDenialKind``; from this version on, it is the only sign that the user refused a call.
_KIND_SINCE = (2, 1, 205)
#: First version known to begin Bash's failures with ``Exit code``, so that no command can imitate a refusal.
_EXIT_CODE_SINCE = (2, 1, 5)
_VERSION = lazy_regex(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})")

_REFUSED = "The user doesn't want to proceed with this tool use"
_REFUSED_SILENTLY = "User rejected tool use"
_COMMENT = "the user said:"
_AFTER_COMMENT = lazy_regex(r"\n\s*\n(?:Note: The user's next message|IMPORTANT: )")
_APPROVED = "User has approved"
#: Claude Code's text in place of a comment if questions are left open, and the pattern of an answer in it.
_OPEN_QUESTIONS = ("The user wants to clarify these questions", "The user has indicated they have provided enough")
_EARLY_ANSWER = lazy_regex(r"^- \"(.*)\"\n {2}Answer: (.+)$", re.MULTILINE)
#: Key in a dialog's result that shows that the dialog was closed automatically because nobody answered in time.
_TIMED_OUT = "afkTimeoutMs"
_RECOMMENDED = any_case(r"\s*\(recommended\)\s*$")
#: Claude Code's own labels for answering in one's own words.
_OWN_WORDS = ("Something else", "Other")
#: Maximum number of questions read from one dialog; Claude Code allows four.
_MAX_QUESTIONS = 8
#: Maximum length of a plan's title, in characters.
_TITLE_CHARS = 160


class Part(NamedTuple):
    """A piece of text from a dialog."""

    role: Role
    text: str
    #: Links a question to its answer: the id of the call and the number of the question.
    link: str


def proposed_in(block: dict[str, Any]) -> Iterator[Part]:
    """Yield what a ``tool_use`` block asks the user: questions with their options, or a plan to approve."""
    given = object_in(block.get("input"))
    if block.get("name") == QUESTION_TOOL:
        for number, question in enumerate(_questions(given)):
            yield Part(Role.PROPOSED, _question_text(question), f"{block.get('id')}#{number}")
    elif block.get("name") == PLAN_TOOL and _text(given.get("plan")):
        yield Part(Role.PROPOSED, _text(given.get("plan")), f"{block.get('id')}#0")


def results_in(entry: Entry) -> list[dict[str, Any]]:
    return [block for block in objects_in(entry.message.get("content")) if block.get("type") == "tool_result"]


def is_refused(action: Action, block: dict[str, Any], entry: Entry, *, is_alone: bool) -> bool:
    """Return True if the user, not anybody else, refused the call to which this ``tool_result`` block belongs.

    If Claude Code records who denied a call, this record decides. Older versions do not record it; for them, only tools
    with failures that contain no foreign text are trusted, and only if Claude Code repeats the same text as its own
    error.

    Args:
        is_alone: the line contains no other result.
    """
    if block.get("is_error") is not True or not is_alone:
        return False
    data, text = entry.data, "\n".join(texts_in(block.get("content")))
    if "toolDenialKind" in data or _version(data) >= _KIND_SINCE:
        return data.get("toolDenialKind") == "user-rejected"
    is_own = action.tool in _OWN_TOOLS or (action.tool == "Bash" and _version(data) >= _EXIT_CODE_SINCE)
    return is_own and text.startswith(_REFUSED) and data.get("toolUseResult") in (f"Error: {text}", _REFUSED_SILENTLY)


def user_words_in(
    action: Action,
    block: dict[str, Any],
    entry: Entry,
    proposed_by: Callable[[Action], Sequence[TextBlock]],
    *,
    is_refused: bool,
    is_alone: bool,
) -> Iterator[Part]:
    """Yield everything that the user said or decided according to the result of a call.

    Args:
        entry: the line that contains the block.
        proposed_by: returns the questions or plan that a call showed to the user.
        is_refused: the user refused the call.
        is_alone: the line contains no other result.
    """
    link = f"{action.tool_use_id}#0"
    if is_refused:
        yield from _refusal(action, "\n".join(texts_in(block.get("content"))), proposed_by, link)
    elif block.get("is_error") is True or not is_alone:
        return
    elif action.tool == QUESTION_TOOL:
        yield from _answers(action, entry.data.get("toolUseResult"))
    else:
        if action.tool == PLAN_TOOL and "\n".join(texts_in(block.get("content"))).startswith(_APPROVED):
            yield from _approval(entry.data.get("toolUseResult"), proposed_by(action), link)
        if action.tool in _OWN_TOOLS:
            yield from (Part(Role.USER, text, link) for text in _beside(entry))


def _refusal(
    action: Action, text: str, proposed_by: Callable[[Action], Sequence[TextBlock]], link: str
) -> Iterator[Part]:
    comment = _comment(text)
    if action.tool == PLAN_TOOL:
        proposed = proposed_by(action)
        title = _title(proposed[0].text) if proposed else ""
        yield Part(Role.CHOSEN, f"Rejected the plan: {title}" if title else "Rejected the plan", link)
    if comment.startswith(_OPEN_QUESTIONS):
        for answer in _EARLY_ANSWER.finditer(comment):
            yield Part(Role.CHOSEN, f"{answer[1]} {ARROW} {answer[2].strip()}", link)
    elif comment:
        yield Part(Role.USER, comment, link)


def _comment(text: str) -> str:
    """Return what the user typed when they refused a call; "" if they typed nothing."""
    if not text.startswith(_REFUSED):
        return ""
    _, marker, comment = text.partition(_COMMENT)
    end = _AFTER_COMMENT.search(comment)
    return storable(comment[: end.start()] if end else comment).strip() if marker else ""


def _answers(action: Action, report: object) -> Iterator[Part]:
    """Yield the chosen labels, which are the assistant's words, and what the user typed instead or in addition."""
    if not isinstance(report, dict) or _TIMED_OUT in report:
        return
    answers, notes = object_in(report.get("answers")), object_in(report.get("annotations"))
    questions = _questions(report)
    for number, question in enumerate(questions):
        asked = str(question["question"])
        link = f"{action.tool_use_id}#{number}"
        # Answers are keyed by the question's text. If two questions have the same text, the label may belong to either.
        same = [other for other in questions if other["question"] == asked]
        given = answers.get(asked)
        answer = ", ".join(map(_text, given)) if isinstance(given, list) else _text(given)
        labels, typed = _split_answer(answer, _labels(same))
        if labels:
            yield Part(Role.CHOSEN, f"{storable(asked).strip()} {ARROW} {', '.join(labels)}", link)
        note = _text(object_in(notes.get(asked)).get("notes"))
        for text in dict.fromkeys(text for text in (typed, note) if text):
            yield Part(Role.USER, text, link)


def _split_answer(answer: str, labels: Sequence[str]) -> tuple[list[str], str]:
    """Split an answer into the labels that it contains and the text that the user typed.

    Some versions put a comma without a space between labels. The label for answering in one's own words is not itself
    an answer.
    """
    chosen: list[str] = []
    rest = answer
    while rest:
        label = next((label for label in (*labels, *_OWN_WORDS) if f"{rest},".startswith(f"{label},")), None)
        if label is None:
            break
        chosen += [label] if label in labels else []
        rest = rest[len(label) :].removeprefix(",").lstrip()
    plain = {_RECOMMENDED.sub("", label).casefold(): label for label in labels}
    if rest and (label := plain.get(_RECOMMENDED.sub("", rest).casefold())):
        chosen.append(label)
        rest = ""
    return chosen, rest


def _approval(report: object, proposed: Sequence[TextBlock], link: str) -> Iterator[Part]:
    """Yield a plan that the user approved, with their changes to it; never a plan that another agent approved."""
    report = object_in(report)
    if report.get("isAgent") is True:
        return
    plan = _text(report.get("plan"))
    before = proposed[0].text if proposed else ""
    if plan and not before:
        yield Part(Role.PROPOSED, plan, link)
    title = _title(plan or before)
    decision = f"Approved the plan: {title}" if title else "Approved the plan"
    if report.get("planWasEdited") is True and before and plan:
        lines = "\n".join(_new_lines(before, plan))
        decision = f"{decision}\nChanged by the user:\n{lines}" if lines else decision
    yield Part(Role.CHOSEN, decision, link)


def _new_lines(before: str, after: str) -> Iterator[str]:
    old, new = before.splitlines(), after.splitlines()
    for tag, _, _, start, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag in ("insert", "replace"):
            yield from (line for line in new[start:stop] if line.strip())


def _beside(entry: Entry) -> Iterator[str]:
    """Yield what the user typed when they allowed a call, which Claude Code writes as text next to the result."""
    content = entry.message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "text":
            words = judge([_text(block.get("text"))], Speaker.PERSON)
            if words.is_prompt:
                yield words.text


def _title(plan: str) -> str:
    """Return the first line of a plan, without heading characters."""
    first = next((line for line in plan.splitlines() if line.strip(" #\t")), "")
    return first.strip(" #\t")[:_TITLE_CHARS]


def _questions(holder: dict[str, Any]) -> list[dict[str, Any]]:
    questions = holder.get("questions")
    some = questions[:_MAX_QUESTIONS] if isinstance(questions, list) else []
    return [item for item in some if isinstance(item, dict) and isinstance(item.get("question"), str)]


def _labels(questions: Sequence[dict[str, Any]]) -> list[str]:
    """Return the labels of questions, longest first, so that a label does not hide a longer one."""
    options = [option for question in questions for option in objects_in(question.get("options"))]
    return sorted((label for option in options if (label := _text(option.get("label")))), key=len)[::-1]


def _question_text(question: dict[str, Any]) -> str:
    lines = [_text(question["question"])]
    for option in objects_in(question.get("options")):
        lines.append("- " + ": ".join(text for key in ("label", "description") if (text := _text(option.get(key)))))
    return "\n".join(lines)


def _version(data: dict[str, Any]) -> tuple[int, ...]:
    """Return the version of Claude Code that wrote a line; (0, 0, 0) if unknown."""
    match = _VERSION.match(version) if isinstance(version := data.get("version"), str) else None
    return tuple(int(number) for number in match.groups()) if match else (0, 0, 0)


def _text(value: object) -> str:
    return storable_text(value).strip()
