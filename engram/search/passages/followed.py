"""What its own session said after a passage: that it is wrong, was taken back, or is over. Rules on wording.

Whoever quotes a passage asks here first: words that the session itself contradicted or overtook are not told without
what followed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from engram.models.engine.transaction import Reader
from engram.models.sessions.passage_rows import LaterText, said_after
from engram.text.splitting import sentence_spans
from engram.text.subject import gives_another_value, is_denied, says_opposite
from engram.text.words import stems, topic_words
from engram.transcripts.turns import Role

#: Texts of the session after a passage that are looked at.
MAX_LATER_TEXTS = 80
#: Maximum length of what is told of what followed, in characters.
MAX_FOLLOWED_CHARACTERS = 160
#: Share of the telling words of a sentence that a later one must have to be about the same, and how many at least.
MIN_SAME_SHARE, MIN_SAME_WORDS = 0.5, 2
#: A passage with more sentences than this is compared by these.
MAX_SENTENCES = 8

#: A prompt that begins so rejects what the assistant said before it.
_REJECTS = re.compile(
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
#: Somebody takes back what he said himself.
_TAKES_BACK = re.compile(
    r"\b(?:just kidding|kidding|forget (?:it|that|what i)|never ?mind|scratch that|strike that|ignore (?:that|what i)|"
    r"on second thoughts?|changed my mind|i was wrong|my (?:mistake|bad)|i misspoke|take that back|i meant|"
    r"wait,? (?:no|actually)|doch nicht|vergiss (?:es|das))\b",
    re.IGNORECASE,
)
#: A sentence with the same words that says so ends what was said before.
_REVERSES = re.compile(
    r"\b(?:no longer|not any ?more|anymore|instead of|rather than|turn(?:s|ed) out|(?:was|were) (?:wrong|mistaken|"
    r"incorrect|not)|wasn['’]t|weren['’]t|isn['’]t|i was wrong|my mistake|mistaken(?:ly)?|incorrect(?:ly)?|contrary to|"
    r"not actually|actually|revert(?:s|ed|ing)?|undid|undone|rolled back|removed?|dropped|replaced?[sd]?|superseded|"
    r"obsolete|deprecated|on second thoughts?|correction|disproved|ruled out|switched|renamed|changed (?:to|from)|"
    r"moved (?:to|from)|misread|misdiagnosed|red herring|not the (?:cause|problem|reason|issue))\b",
    re.IGNORECASE,
)
_PROBLEM = re.compile(
    r"\b(?:fail(?:s|ed|ing|ure)?|broken|bugs?|errors?|missing|lacks?|crash\w*|hangs?|wrong|todo|pending|open|blocked|"
    r"(?:does|do|is|are|can|was|were|did|has|have)(?:n['’]t| not)|not (?:yet|work\w*)|no(?:t|ne)?|never|without|"
    r"still|problem|issue|flaky|leaks?)\b",
    re.IGNORECASE,
)
_SOLVED = re.compile(
    r"\b(?:fix(?:ed|es)|resolved?[sd]?|solved|works? now|now works?|pass(?:es|ed)? now|now pass\w*|done|added|"
    r"implemented|handled|addressed|corrected|in place now|no longer)\b",
    re.IGNORECASE,
)


def what_followed(store: Reader, row_id: int, text: str, role: str) -> LaterText | None:
    """Return what its session said later that contradicts or overtakes a passage; None if nothing does.

    Args:
        store: the open memory.
        row_id: the passage.
        text: the words of it that are to be told.
        role: who said them.
    """
    return find_later(text, role, said_after(store, row_id, MAX_LATER_TEXTS))


def find_later(text: str, role: str, later: Sequence[LaterText]) -> LaterText | None:
    """Return the part of the later texts, in their order, that contradicts or overtakes a text. Pure."""
    is_users = role in (Role.USER, Role.CHOSEN)
    next_prompt = next((one for one in later if one.role == Role.USER), None)
    said = [sentence for sentence in _sentences(text)[:MAX_SENTENCES] if _telling(sentence)]
    for one in later:
        if one.role == Role.USER and (one is next_prompt or (is_users and _TAKES_BACK.search(one.text))):
            words = _typed(one.text)
            if one is next_prompt and (_TAKES_BACK if is_users else _REJECTS).match(words.lstrip(" \n")):
                return one.with_text(_beginning(words))
            if is_users and _TAKES_BACK.search(words[:MAX_FOLLOWED_CHARACTERS]):
                return one.with_text(_beginning(words))
        about = [sentence for sentence in said if _may_be_about(one.text, sentence)]
        if not about:
            continue
        for sentence in _sentences(_typed(one.text) if one.role == Role.USER else one.text):
            if any(_ends(sentence, earlier) for earlier in about):
                return one.with_text(" ".join(sentence.split()))
    return None


def _may_be_about(later: str, earlier: str) -> bool:
    """Return False for a text without enough of a sentence's words: a stem is a part of its word. It is fast."""
    old, later = _telling(earlier), later.lower()
    shared = sum(stem in later for stem in old)
    return shared >= MIN_SAME_WORDS and shared >= MIN_SAME_SHARE * len(old)


def _typed(text: str) -> str:
    from engram.trust.voice import typed_text  # its patterns take 20 ms, and most passages were followed by no prompt

    return typed_text(text)


def _ends(later: str, earlier: str) -> bool:
    """Return True for a later sentence about the same that says something else."""
    if not _may_be_about(later, earlier):
        return False
    old, new = _telling(earlier), _telling(later)
    shared = len(old & new)
    if shared < MIN_SAME_WORDS or shared < MIN_SAME_SHARE * len(old) or later.strip().endswith("?"):
        return False
    if _REVERSES.search(later) and not _REVERSES.search(earlier):
        return True
    if _SOLVED.search(later) and _PROBLEM.search(earlier) and not _SOLVED.search(earlier):
        return True
    return gives_another_value(later, earlier) or (is_denied(later, earlier) and says_opposite(later, earlier))


def _sentences(text: str) -> list[str]:
    return [text[start:stop] for start, stop in sentence_spans(text)]


@lru_cache(maxsize=4096)
def _telling(sentence: str) -> frozenset[str]:
    return stems(topic_words(sentence))


def _beginning(text: str) -> str:
    """Return the first sentences of a text, whole, as far as there is room; at least the first one."""
    shown = ""
    for sentence in _sentences(text):
        longer = f"{shown} {' '.join(sentence.split())}".strip()
        if shown and len(longer) > MAX_FOLLOWED_CHARACTERS:
            break
        shown = longer
    return shown
