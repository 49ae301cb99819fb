"""Propose decisions by the user in dialogs: answers; approved, changed and rejected plans; comments on calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from engram.enums import Importance, Kind, Voice
from engram.extraction.candidate import MAX_CANDIDATE_SUMMARY_CHARACTERS, Candidate, is_own
from engram.extraction.local.sentences import ended, fitting, last_fitting, quoted, sure
from engram.extraction.user_rules import only_asks
from engram.system.lazy_regex import any_case
from engram.text.splitting import Block, plain, sentences, split
from engram.text.words import has_words
from engram.transcripts.turns import ARROW, Action, Role, TextBlock, Turn
from engram.trust.suspicion import why_suspect
from engram.trust.voice import typed_text

#: Maximum length of a question and of the user's own words in a summary, in characters; longer texts are quoted in the
#: content.
QUESTION_ROOM, ANSWER_ROOM = 240, 180
#: Length to which a question is shortened to make room for its answer, in characters.
MIN_QUESTION_ROOM = 100
#: Maximum number of words in an answer that is explained by the description of its option.
MAX_BARE_WORDS = 4
#: Minimum number of words in a sentence that states the purpose of a plan.
MIN_PURPOSE_WORDS = 6
#: How certain a decision is compared with other memories of a session, from 0 to 1.
QUALITY = 0.9

#: A question about what to do next; the answer means nothing to a later session.
PASSING = any_case(
    r"\b(?:how (?:should|do|would|shall|can) (?:i|we|you)(?: \w+){0,2} (?:proceed|continue|go on|handle this|"
    r"start|begin)|what(?: (?:should|would|do|shall) (?:i|we|you)(?: \w+){0,3})? (?:next|first|update|do now)|"
    r"(?:should|shall|can|may|do you want me to|want me to|would you like me to) (?:i |we )?(?:proceed|continue|commit|"
    r"push|start|go (?:ahead|on)|run|retry|try again|merge|open a pr|create a pr)|ready (?:to|for)|"
    r"which (?:one|task|issue|step|phase|item|part|pr|ticket)s? (?:\w+ ){0,6}(?:first|next|now|work on|start))\b|"
    r"^(?:ready|next steps?|proceed|continue)\b"
)
#: An answer that decides nothing.
_SAYS_NOTHING = any_case(
    r"^\W*(?:(?:you|claude)(?: can| may|'?ll)? (?:decide|choose|pick|tell me|know best)|"
    r"(?:it'?s )?(?:up to you|your (?:call|choice|decision))|"
    r"whatever(?: you .{0,30})?|(?:i )?(?:don'?t|do not) (?:know|care|mind)|no (?:idea|preference|opinion)|not sure|"
    r"either(?: one| is fine| way)?|any(?: of them| is fine)?|other|something else|none of (?:the above|these|them)|"
    r"(?:let'?s )?(?:chat|talk|discuss)(?: about (?:this|it))?|skip(?: (?:it|this|for now))?|later|maybe|"
    r"(?:your|claude'?s) (?:recommendation|suggestion)|as you (?:like|wish|prefer|suggest)|do what you .{0,40}|"
    r"(?:ok(?:ay)?|go on|go ahead|continue|proceed|just do it|do it))\W*$"
)
#: Words about how something should be, rather than what to do now.
_LAYS_DOWN = any_case(
    r"\b(?:(?:i|we) (?:want|prefer|need|expect|don'?t want|would(?: rather| prefer| like)|always|never|use|don'?t use|"
    r"decided)|should(?:n'?t)?|must(?:n'?t)?|(?:needs?|ha(?:ve|s)) to|always|never|instead|rather than|by default|"
    r"don'?t|do not|no need|not allowed|(?:is|are) (?:already|not|only|deprecated|wrong|supposed)|because|so that|"
    r"only)\b"
)
#: Words about what to do now, or about something that is only an idea.
_PASSING = any_case(
    r"\b(?:first|yet|later on|soon|maybe|perhaps|probably|might|i (?:think|guess|wonder)|not sure|until|while|once|"
    r"let'?s|oops|hmm+|wtf|omg|nope?|wait)\b|^please (?!(?:don'?t|do not|never|always|use|keep)\b)\w"
)
#: Words in the lead-in of a list that state a plan's purpose.
_AIM = any_case(r"\b(?:to|for|so that|instead of|rather than|because)\b")
#: A heading that only says that it is a plan, before the plan's own title: "Implementation Plan: …", "Plan – …".
_PLAN_LABEL = any_case(
    r"^(?:(?:the|final|detailed|revised|updated|implementation|development|technical|action|work|project) )*plan"
    r"(?::| [—–-]) (?=\S)"
)
_RECOMMENDED = any_case(r"\s*\(recommended\)")


def without_dialogs(turn: Turn) -> Turn:
    """Return the turn reduced to what the user and the assistant said outside dialogs."""
    kept = tuple(said for said in turn.said if said.role in (Role.USER, Role.ASSISTANT))
    return turn if len(kept) == len(turn.said) else replace(turn, said=kept)


def decisions(turn: Turn) -> Iterator[Candidate]:
    """Yield a candidate for each decision in a turn, in order. A candidate states who decided, and is never global.

    An answer is kept with its question, and a plan with its purpose. Answers that decide nothing ("You decide"),
    answers that are only about the next step, and plans rejected without a comment are left out.
    """
    for said in turn.said:
        if is_own(said.text):
            continue
        proposed = _of_dialog(turn, said, Role.PROPOSED)
        if said.role is Role.CHOSEN and ARROW in said.text:
            yield from _answer(turn, said, proposed, _of_dialog(turn, said, Role.USER))
        elif said.role is Role.CHOSEN:
            yield from _plan(turn, said, proposed, _of_dialog(turn, said, Role.USER))
        elif said.role is Role.USER and said.message_id and _of_dialog(turn, said, Role.CHOSEN) is None:
            if proposed is not None:
                yield from _answer(turn, None, proposed, said)
            else:
                yield from _comment(turn, said)


def _of_dialog(turn: Turn, said: TextBlock, role: Role) -> TextBlock | None:
    """Return the first text of the same question or plan in another role."""
    link = said.message_id
    return next((other for other in turn.said if link and other.role is role and other.message_id == link), None)


def _answer(
    turn: Turn, chosen: TextBlock | None, proposed: TextBlock | None, typed: TextBlock | None
) -> Iterator[Candidate]:
    """Yield the decision in an answered question: a label, the user's own words, or both."""
    question, _, options = proposed.text.partition("\n- ") if proposed is not None else ("", "", "")
    label = ""
    if chosen is not None:
        # An arrow may also be part of the question or of the label.
        is_asked = question and chosen.text.startswith(f"{question} {ARROW} ")
        label = chosen.text[len(f"{question} {ARROW} ") :] if is_asked else chosen.text.rpartition(f" {ARROW} ")[2]
        question = chosen.text.removesuffix(f" {ARROW} {label}")
    words = typed.text.strip() if typed is not None else ""
    # A label may be worded as a question: "What about SQLite?".
    is_chosen = bool(label) and not _SAYS_NOTHING.match(label)
    if not question or PASSING.search(question) or (not is_chosen and _says_nothing(words)):
        return
    note = "" if _says_nothing(words) else quoted(words, ANSWER_ROOM) or _title(words)
    label = _RECOMMENDED.sub("", label)
    verb = "chose" if label else "answered"
    also = f"; and said: “{note}”." if label and note else ""
    answer = label or note
    room = MAX_CANDIDATE_SUMMARY_CHARACTERS - len(f"Asked “” the user {verb}: .{also}")
    asked = _shortened(question, max(MIN_QUESTION_ROOM, room - len(answer)))
    room -= len(asked)
    answer = _cut(answer, room)
    answer += _description(label, options.split("\n- "), min(room - len(answer) - len(" ()"), ANSWER_ROOM))
    summary = ended(f"Asked “{asked}” the user {verb}: {answer}{also}")
    yield _decision(turn, summary, chosen, typed, proposed, is_high=True)


def _plan(turn: Turn, said: TextBlock, proposed: TextBlock | None, typed: TextBlock | None) -> Iterator[Candidate]:
    """Yield the decision about a plan: approved, changed by the user, or rejected with a reason."""
    head, _, changed = said.text.partition("\nChanged by the user:\n")
    is_rejected = head.startswith("Rejected")
    words = typed.text.strip() if typed is not None else ""
    says_why = not _says_nothing(words)
    title = _PLAN_LABEL.sub("", plain(head.partition(": ")[2])).rstrip(". ")
    purpose = _purpose(proposed.text) if proposed is not None else []
    if is_rejected and not says_why:
        return
    name = f" “{title}”" if title else ""
    if is_rejected:
        answer = quoted(words, ANSWER_ROOM) or _title(words)
        lead = f"The user rejected the plan{name} and said: “{answer}”"
    elif changed.strip():
        lines = filter(has_words, (plain(line.strip(" -*#")) for line in changed.splitlines()))
        told = fitting((f"“{line}”," for line in lines), ANSWER_ROOM).removesuffix(",")
        lead = f"The user approved the plan{name} and changed in it: {told}" if told else ""
    else:
        lead = f"The user approved the plan{name}"
    lead = lead or f"The user changed the plan{name} and approved it"
    if says_why and not is_rejected and (note := quoted(words, ANSWER_ROOM)):
        lead += f", saying: “{note}”"
    aim = "" if is_rejected else last_fitting(purpose, MAX_CANDIDATE_SUMMARY_CHARACTERS - len(lead) - 2)
    if not (aim or says_why or changed.strip()):
        return  # a title alone does not say what was decided
    summary = f"{lead}: {aim}" if aim else f"{lead}."
    if len(summary) <= MAX_CANDIDATE_SUMMARY_CHARACTERS:
        is_high = is_rejected or bool(changed.strip())
        yield _decision(turn, summary, said, typed, proposed, is_high=is_high)


def _purpose(plan: str) -> list[str]:
    """Return the complete sentences in which a plan states its purpose: those of its first section with prose."""
    prose = [s for s in split(plan) if s.block is Block.PROSE and len(s.text.split()) >= MIN_PURPOSE_WORDS]
    prose = [s for s in prose if s.topic in ("", prose[0].topic)]
    whole = [s for s in prose if s.text.endswith((".", "!"))]
    whole = whole or [s for s in prose[:1] if s.text.endswith(":") and _AIM.search(s.text)]
    return [ended(s.text) for s in whole if s.topic == whole[0].topic]


def _comment(turn: Turn, said: TextBlock) -> Iterator[Candidate]:
    """Yield what the user stipulated when refusing or allowing a call; momentary orders are left out."""
    action = next((a for a in turn.actions if a.result_uuid and a.result_uuid == said.uuid), None)
    words = said.text.strip()
    text = plain(words)
    if _says_nothing(words) or _PASSING.search(text) or not _LAYS_DOWN.search(text):
        return
    refused = "refused" if action is not None and action.is_refused else "was asked about"
    what = f"When the user {refused} {_call(action)}, they said: " if action is not None else "The user said: "
    summary = f"{what}“{quoted(words, MAX_CANDIDATE_SUMMARY_CHARACTERS - len(what) - 2) or _title(words)}”"
    yield _decision(turn, summary, None, said, None, is_high=False)


def _call(action: Action) -> str:
    """Return what a tool call was about to do, in a few words."""
    if action.command:
        return f"the command `{' '.join(action.command.split()[:4])}`".replace("``", "`")
    names = [file.replace("\\", "/").rsplit("/", 1)[-1] for file in action.files[:2]]
    return f"a change of {' and '.join(names)}" if names else f"a call of {action.tool}"


def _decision(
    turn: Turn,
    summary: str,
    chosen: TextBlock | None,
    typed: TextBlock | None,
    proposed: TextBlock | None,
    *,
    is_high: bool,
) -> Candidate:
    content = [chosen.text if chosen is not None else ""]
    content.append(f"[the user] {typed.text}" if typed is not None else "")
    content.append(f"[proposed by the assistant] {proposed.text}" if proposed is not None else "")
    texts = [text for text in (chosen, typed, proposed) if text is not None]
    candidate = sure(
        Kind.DECISION,
        turn,
        summary,
        content,
        (text.uuid for text in texts),
        voice=Voice.CHOSEN,
        quality=QUALITY,
        said=texts,
        suspect=_suspect(texts),
    )
    return replace(candidate, importance=Importance.HIGH if is_high else Importance.NORMAL)


def _suspect(texts: Sequence[TextBlock]) -> str:
    """Return why a decision must not be injected, such as that it may repeat others' words; "" if it may be."""
    for said in texts:
        is_typed = said.role is Role.USER and typed_text(said.text).split() == said.text.split()
        reason = why_suspect(said.text, is_typed=is_typed, is_assistant=said.role is not Role.USER)
        if reason:
            return reason
    return ""


def _says_nothing(words: str) -> bool:
    """Return True if an answer or comment decides nothing, because it is empty or only asks a question."""
    return not has_words(words) or bool(_SAYS_NOTHING.match(words)) or only_asks(words)


def _shortened(question: str, room: int) -> str:
    """Return at most ``room`` characters of a question: its last sentences if it is too long."""
    asked = sentences(plain(question))
    return last_fitting(asked, min(room, QUESTION_ROOM)) or _cut(" ".join(asked[-1:]), room)


def _cut(text: str, room: int) -> str:
    """Return a text, or its first words and "…" if it is longer than ``room`` characters."""
    if len(text) <= room:
        return text
    start = text[: room - len(" …")]
    return f"{start.rpartition(' ')[0] or start} …"


def _description(label: str, options: Sequence[str], room: int) -> str:
    """Return the first sentence of the description of an option whose label is short; "" if there is no room for it."""
    if not label or len(label.split()) > MAX_BARE_WORDS:
        return ""
    named = (_RECOMMENDED.sub("", option, count=1).partition(f"{label}: ") for option in options)
    told = next((description for before, _, description in named if not before), "")
    first = next(iter(sentences(plain(told))), "").rstrip(". ")
    return f" ({first})" if first and len(first) <= room else ""


def _title(words: str) -> str:
    """Return the first clause of a longer text, which is quoted in the content."""
    first = next(iter(sentences(plain(words))), "")
    clause = re.split(r"(?<=[,;:—–])\s", first)[0].rstrip(",;:—– ")
    return _cut(clause, ANSWER_ROOM)
