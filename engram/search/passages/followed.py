"""Find what a session said after a passage: what makes it wrong or outdated, and how its turn and session ended.

Any code that quotes a passage must call this first: words that the session itself contradicted or superseded must not
be shown without what followed. Contradictions are recognised by their wording.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from engram.models.engine.transaction import Reader
from engram.models.memories.judgements import judged_of_session
from engram.models.sessions.passage_rows import LaterText, barred_quotations, quotation_id_of, said_after, said_by_user
from engram.models.sessions.sessions import SessionRow, sessions_of
from engram.models.sessions.stored_turns import texts_of_turns
from engram.search.hit_lines import may_be_planted
from engram.search.hits import Hit, PublicHit, are_barred, is_said
from engram.search.passages.passage_search import excerpt
from engram.search.passages.wanted import is_announcement
from engram.search.question import Coverage, Query
from engram.system.cached import cached_by_text
from engram.system.lazy_regex import lazy_regex
from engram.text.splitting import is_lead_in, sentence_texts, split
from engram.text.subject import STATES_PROBLEM, gives_another_value, is_denied, says_opposite
from engram.text.withdrawals import (
    DISAGREES,
    QUESTIONED,
    correction_in,
    subject_words,
    takes_all_back,
    takes_back,
    withdrawn_subject,
)
from engram.text.words import content_words, prefixes, stems, topic_stems, topic_words, words_of
from engram.transcripts.turns import Role, Turn
from engram.trust.suspicion import why_suspect

#: Number of texts after a passage to examine.
MAX_LATER_TEXTS = 80
#: Maximum length of the excerpt of a later text, in characters.
MAX_FOLLOWED_CHARACTERS = 160
#: Minimum share and number of a sentence's informative words that a later sentence on the same subject must contain.
MIN_SAME_SHARE, MIN_SAME_WORDS = 0.5, 2
#: Number of sentences from the beginning of a passage that are compared, and of those after it in its message.
MAX_SENTENCES = 8
#: Number of characters of a sentence that are compared with the shown text, since that may be cut.
COMPARED_CHARACTERS = 60
#: Minimum number of words in a sentence that a withdrawal after it can refer to; not "Hm, wait."
MIN_STATEMENT_WORDS = 4
#: Minimum number of words in a sentence by which a message is recognised as one that the shown text is from.
MIN_OWN_WORDS = 6
#: Number of characters of a later prompt that are searched for a withdrawal; it may begin with pasted text.
MAX_PASTED_CHARACTERS = 600

#: Beginnings of prompts that reject what the assistant just said.
_REJECTS = lazy_regex(
    r"\W*(?:(?:hmm+|ok(?:ay)?|but|yeah|well|sorry|and|so)\b\W*)*(?:no\b(?! (?:problem|worries|need|rush))|nope|nah\b|"
    r"wrong|incorrect|false\b|not (?:true|right|correct|quite|really|what|at all)|nonsense|"
    r"(?:that|this|it|which)(?:['’]s| is| was)? ?(?:still )?(?:not|n['’]t|wrong|incorrect|false|untrue|nonsense|"
    r"isn['’]t|wasn['’]t|doesn['’]t|does not|didn['’]t|did not|can['’]t be|cannot be)\b|"
    r"you(?:['’]re| are| were)? (?:wrong|mistaken|misread|misunderst\w+|forgot|missed)|"
    r"i (?:disagree|don['’]?t (?:think|believe|agree|want))|actually|wait\b|stop\b|revert|undo|are you sure|"
    r"still (?:fails?|failing|broken|not|the same|getting|seeing|see)|(?:doesn['’]?t|didn['’]?t|not) work|"
    r"why (?:did|do|would) you|nein|falsch|stimmt nicht|quatsch|non\b|c['’]est faux|eso no|não|sbagliato)",
    re.IGNORECASE,
)
#: Phrases by which a sentence with the same words supersedes an earlier one.
_REVERSES = lazy_regex(
    r"\b(?:no longer|not any ?more|anymore|instead of|rather than|turn(?:s|ed) out|(?:was|were) (?:wrong|mistaken|"
    r"incorrect|not)|wasn['’]t|weren['’]t|isn['’]t|i was wrong|my mistake|mistaken(?:ly)?|incorrect(?:ly)?|contrary to|"
    r"not actually|actually|revert(?:s|ed|ing)?|undid|undone|rolled back|removed?|dropped|replaced?[sd]?|superseded|"
    r"obsolete|deprecated|on second thoughts?|correction|disproved|ruled out|switched|renamed|changed (?:to|from)|"
    r"moved (?:to|from)|misread|misdiagnosed|red herring|not the (?:cause|problem|reason|issue))\b",
    re.IGNORECASE,
)
#: Wordings of a withdrawal that name what is withdrawn, before or after them.
_DROPS = lazy_regex(
    r"\b(?:scratch|scrap|drop|ditch) that\b|\bforget it, (?:we|i) (?:don['’]?t|no longer)\b|\bchanged my mind\b|"
    r"\btake (?:that|it) back\b",
    re.IGNORECASE,
)
#: Beginnings of a prompt that give another value for what the user said in the one before it.
_CORRECTS_LAST = lazy_regex(
    r"\s*(?:(?:oh|ah|oops|sorry|wait|hold on|no|actually)[,.!:… ]+)+(?:i meant\b(?! (?:to|that|it|the)\b)|no,)|"
    r"\s*correction:|\s*actually,? no,? (?:we )?use\b",
    re.IGNORECASE,
)
#: The number of a list's point, which says nothing without the point.
_POINT = lazy_regex(r"\s*\d{1,3}[.)]")
_CODE_BLOCK = lazy_regex(r"^[ \t]*+(```|~~~).*?(?:^[ \t]*+\1|\Z)", re.MULTILINE | re.DOTALL)
_MARKS = lazy_regex(r"\*\*|^\s*[-*•>]\s+", re.MULTILINE)
_SOLVED = lazy_regex(
    r"\b(?:fix(?:ed|es)|resolved?[sd]?|solved|works? now|now works?|pass(?:es|ed)? now|now pass\w*|done|added|"
    r"implemented|handled|addressed|corrected|in place now|no longer)\b",
    re.IGNORECASE,
)


def what_followed(store: Reader, row_id: int, text: str, role: str) -> LaterText | None:
    """Return what contradicts or supersedes a passage, in the rest of the message or later; None if nothing does.

    Args:
        text: the part of the passage to show.
        role: who says it; the user if there are several speakers.
    """
    if role == Role.USER:
        taken_back = (taken_back_in(text, said) for said in said_by_user(store, row_id))
        if words := next(filter(None, taken_back), ""):
            return LaterText(Role.USER, words)
    return find_later(text, role, said_after(store, row_id, MAX_LATER_TEXTS))


def taken_back_in(shown: str, said: str) -> str:
    """Return the words of a user's message that withdraw, correct or doubt the shown part; "" if none do.

    Pure. Words that are part of what is shown don't count, nor do pasted words.
    """
    text = f" {_plain(shown)}"
    sentences = sentence_texts(said)
    is_shown = [f" {_plain(sentence)[:COMPARED_CHARACTERS]}" in text for sentence in sentences]
    last = max((place for place, shown in enumerate(is_shown) if shown), default=-1)
    for place, sentence in enumerate(sentences[: last + 1 + MAX_SENTENCES]):
        if is_shown[place] or not any(is_shown[:place]):
            continue
        before = place - 1
        while before and not is_shown[before] and len(sentences[before].split()) < MIN_STATEMENT_WORDS:
            before -= 1
        earlier = " ".join(sentence for sentence, shown in zip(sentences[:place], is_shown, strict=False) if shown)
        is_meant = _takes_back(sentence, earlier, is_next=is_shown[before]) or (is_shown[before] and _doubts(sentence))
        if is_meant and _plain(sentence) in _plain(_typed(said)):
            return _beginning("\n".join(sentences[place:]))
    return ""


# Cached, because the passages of an answer are often from one session, and many answers are from the same sessions.
_may_take_back = cached_by_text(takes_back)


def _takes_back(later: str, earlier: str, *, is_next: bool) -> bool:
    """Return True if a sentence withdraws earlier words of its speaker, by naming or directly following them."""
    if not takes_back(later):
        return False
    told = prefixes(content_words(earlier))
    if about := withdrawn_subject(later):
        return bool(about & told)
    names_it = _DROPS.search(later) and prefixes(subject_words(later)) & told
    return is_next or takes_all_back(later) or bool(names_it)


def _doubts(sentence: str) -> bool:
    """Return True if a sentence corrects the one before it, disagrees with it or questions it."""
    correction = correction_in(sentence)
    is_correction = correction is not None and not sentence[: correction.start()].strip()
    return is_correction or bool(DISAGREES.search(sentence) or QUESTIONED.search(sentence))


def _plain(text: str) -> str:
    """Return a text without line breaks, list markers and emphasis."""
    return " ".join(_MARKS.sub("", text).split())


def find_later(text: str, role: str, later: Sequence[LaterText]) -> LaterText | None:
    """Return the first of the later texts that contradicts or supersedes a text, cut to the relevant part. Pure."""
    is_users = role in (Role.USER, Role.CHOSEN)
    next_prompt = next((following for following in later if following.role == Role.USER), None)
    said = {sentence: old for sentence in sentence_texts(text)[:MAX_SENTENCES] if (old := topic_stems(sentence))}
    shown = " ".join(text.split())
    told = [" ".join(sentence.split()) for sentence in sentence_texts(text)]
    told = [sentence for sentence in told if len(sentence.split()) >= MIN_OWN_WORDS]
    for following in later:
        words = following.text
        if following.role != Role.USER and told and _contains_any(words, told):
            # The text is from several messages, and this is one of them.
            continue
        if following.role == Role.USER and (
            following is next_prompt or (is_users and _may_take_back(following.text[:MAX_PASTED_CHARACTERS]))
        ):
            words = _typed(following.text)
            if following is next_prompt and not is_users and _REJECTS.match(words.lstrip(" \n")):
                return replace(following, text=_beginning(words))
            first = words[:MAX_FOLLOWED_CHARACTERS]
            is_next = following is next_prompt
            if is_users and (_takes_back(first, text, is_next=is_next) or (is_next and _CORRECTS_LAST.match(first))):
                return replace(following, text=_beginning(words))
        about = _may_be_about(following.text, said)
        if not about:
            continue
        if following.role == Role.USER and words is following.text:
            words = _typed(following.text)
        for sentence in sentence_texts(_CODE_BLOCK.sub("\n", words)):
            # Text from several entries may contain the later sentence itself.
            is_later = any(_ends(sentence, earlier) for earlier in _may_be_about(sentence, about))
            if is_later and " ".join(sentence.split()) not in shown:
                return replace(following, text=" ".join(sentence.split()))
    return None


def _contains_any(message: str, sentences: Sequence[str]) -> bool:
    plain = " ".join(message.split())
    return any(sentence in plain for sentence in sentences)


def _may_be_about(later: str, earlier: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Return the earlier sentences that share enough words with a text; fast, because stems are matched as substrings.

    Args:
        earlier: sentence → the stems of its informative words.
    """
    words = later.lower()
    found = {stem for stem in set().union(*earlier.values()) if stem in words}
    return {
        sentence: old
        for sentence, old in earlier.items()
        if len(old & found) >= max(MIN_SAME_WORDS, MIN_SAME_SHARE * len(old))
    }


def _typed(text: str) -> str:
    from engram.trust.voice import typed_text, unmarked  # loads in 20 ms; few passages need it

    return unmarked(typed_text(text))


def _ends(later: str, earlier: str) -> bool:
    """Return True if a later sentence supersedes an earlier one on the same subject."""
    old, new = topic_stems(earlier), topic_stems(later)
    shared = len(old & new)
    if shared < MIN_SAME_WORDS or shared < MIN_SAME_SHARE * len(old):
        return False
    if later.strip().endswith("?") or is_lead_in(later):
        return False
    if _REVERSES.search(later) and not _REVERSES.search(earlier):
        return True
    if _SOLVED.search(later) and STATES_PROBLEM.search(earlier) and not _SOLVED.search(earlier):
        return True
    return gives_another_value(later, earlier) or (is_denied(later, earlier) and says_opposite(later, earlier))


def _beginning(text: str) -> str:
    """Return as many whole sentences from the beginning of a text as fit; at least the first."""
    shown = mark = ""
    for sentence in sentence_texts(text):
        if _POINT.fullmatch(sentence):
            mark = f"{sentence} "
            continue
        longer = f"{shown} {mark}{' '.join(sentence.split())}".strip()
        if shown and len(longer) > MAX_FOLLOWED_CHARACTERS:
            break
        shown, mark = longer, ""
    return shown


# -- How the turn of a passage ended: its last message often contains the answer that the passage only leads up to.

#: Number of the best passages for which the end of the turn is shown.
MAX_TURN_ENDS = 5
#: Maximum number of words shown from the end of a turn.
MAX_OUTCOME_WORDS = 80
#: Number of words of the last message in the passage itself that make it unnecessary to show the turn's ending.
MIN_LAST_WORDS = 30
#: Minimum number of informative words in it: "Fixed." is not worth showing.
MIN_TELLING_WORDS = 3


def ends_of_turns(
    store: Reader, hits: Sequence[Hit], wanted: Coverage, answered: Collection[str] = ()
) -> dict[str, str]:
    """Return id → how the turn of a passage ended, for the best passages, leaving out what the passage itself says.

    An ending that contains fewer of the question's words than the passage is left out, because the next passage is more
    likely to answer the question; but a passage that only asks is always shown with the ending that answers it.

    Args:
        answered: ids of passages that contain what the question asks for. If it is from the turn's last message, the
            rest of that message is left out.
    """
    best = {hit.turn_id: hit for hit in reversed(hits[:MAX_TURN_ENDS]) if hit.turn_id is not None}
    _, barred = barred_quotations(store)
    ends: dict[str, str] = {}
    for turn_id, turn in texts_of_turns(store, list(best)).items():
        hit = best[turn_id]
        last = next((block.uuid for block in reversed(turn.said) if block.role is Role.ASSISTANT), "")
        if (
            hit.id in answered
            and sum(len(part.text.split()) for part in hit.parts_of_turn if part.uuid == last) >= MIN_LAST_WORDS
        ):
            continue
        end = end_of_turn(turn, hit.text, wanted, barred)
        # What the user asked or pasted contains most of the question's words, but hardly the answer.
        is_only_asked = hit.role in (Role.USER, Role.CONTEXT, Role.PROGRAM)
        if end and (
            is_only_asked or wanted.share(wanted.stems_in(end.text)) >= wanted.share(wanted.stems_in(hit.text))
        ):
            ends[hit.id] = end.text
    return ends


@dataclass(frozen=True, slots=True)
class TurnEnd:
    #: Statements of the assistant's last message.
    text: str
    #: Id of the passage with the first of them.
    quotation_id: str
    #: When the message was written, in milliseconds since 1970; 0 if unknown.
    at_ms: int


def end_of_turn(turn: Turn, said: str, wanted: Coverage, barred: Collection[str]) -> TurnEnd | None:
    """Return the statements in a turn's last message that cover most of the question and are not in ``said``.

    What only announces the next step is left out.

    None if they don't say enough, or read like an instruction that somebody planted.

    Args:
        barred: the texts that were judged wrong; statements in them are left out.
    """
    number = next((place for place, block in reversed([*enumerate(turn.said)]) if block.role is Role.ASSISTANT), None)
    if number is None:
        return None
    block = turn.said[number]
    message = block.text
    known = [stems(topic_words(said))]
    told = [statement.text for statement in split(message)]
    is_new = [
        not (is_said(text, known) or is_wrong or is_announcement(text))
        for text, is_wrong in zip(told, are_barred(told, barred), strict=True)
    ]
    # A lead-in is left out if what it introduces is.
    statements = [
        text
        for text, is_kept, is_next in zip(told, is_new, (*is_new[1:], False), strict=False)
        if is_kept and (is_next or not is_lead_in(text))
    ]
    kept = excerpt("\n".join(statements), wanted, MAX_OUTCOME_WORDS).splitlines()
    while kept and is_lead_in(kept[-1]):
        # A lead-in, such as "Sources:", is left out, since what it introduces is not shown.
        kept.pop()
    words = _as_sentences(kept).split()
    text = " ".join(words if len(words) <= MAX_OUTCOME_WORDS else [*words[: MAX_OUTCOME_WORDS - 1], "…"])
    if len(topic_words(text)) < MIN_TELLING_WORDS or may_be_planted(text):
        return None
    name = quotation_in(turn, number, kept[0])
    return TurnEnd(text, name, block.at_ms or turn.ended_at_ms or turn.started_at_ms or 0)


def _as_sentences(statements: Sequence[str]) -> str:
    """Return statements on one line; those without a punctuation mark at the end, such as list points, get one."""
    *first, last = statements or [""]
    return " ".join([*(part if part.rstrip('*_`”")')[-1:] in ".!?:;,…" else f"{part};" for part in first), last])


def quotation_in(turn: Turn, number: int, sentence: str) -> str:
    """Return the id of the passage that contains a sentence of a turn's text, or of the text's first passage."""
    block = turn.said[number]
    # The text blocks of an entry count as one, with one character between them.
    before = sum(len(earlier.text) + 1 for earlier in turn.said[:number] if earlier.uuid == block.uuid)
    return quotation_id_of(block.uuid or turn.key, before + max(block.text.find(sentence), 0))


# -- The summaries that a language model keeps of the sessions with the best passages.
#
# A memory states one thing and a passage contains a few sentences; neither says how a session ended and what it left
# open. Sessions that no model has processed have no summary.

#: Maximum number of sessions whose summary is shown.
MAX_SESSIONS = 2
#: A summary repeats a judged memory if it contains at least this share of the memory's words.
MIN_REPEATED_SHARE = 0.6


def session_summaries(store: Reader, query: Query, passages: Sequence[PublicHit]) -> list[PublicHit]:
    """Return the summaries of the sessions with the best passages, best first.

    Args:
        query: the question. Sessions of other projects are left out, as are those whose summary repeats a memory that
            was judged wrong or outdated.
    """
    best: dict[str, PublicHit] = {}
    for passage in passages:
        if passage.session_id:
            best.setdefault(passage.session_id, passage)
    sessions = sessions_of(store, best)
    able = (session_id for session_id in best if session_id in sessions and _may_show(sessions[session_id], query))
    shown = (session_id for session_id in able if not _repeats_judged(store, sessions[session_id]))
    return [_summary_hit(sessions[session_id], best[session_id]) for session_id in islice(shown, MAX_SESSIONS)]


def _repeats_judged(store: Reader, session: SessionRow) -> bool:
    said = words_of(session.rolling_summary)
    judged = (words_of(memory.memory.summary) for memory in judged_of_session(store, session.id))
    return any(len(words & said) >= MIN_REPEATED_SHARE * len(words) for words in judged if words)


def _may_show(session: SessionRow, query: Query) -> bool:
    is_own = query.project_id is None or session.own_project_id == query.project_id
    # A model wrote the summary from the assistant's messages and command output.
    text = session.rolling_summary
    return is_own and bool(text) and why_suspect(text, is_typed=False, is_assistant=True) is None


def _summary_hit(session: SessionRow, passage: PublicHit) -> PublicHit:
    hit = Hit(
        id=f"session#{session.session_id}",
        kind="session",
        text=session.rolling_summary,
        score=0.0,
        parts={},
        project=passage.project,
        created_at_ms=session.last_at_ms,
        session_id=session.session_id,
    )
    return PublicHit.of(hit, replace(passage.origin, commit=""))
