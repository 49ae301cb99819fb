"""Select whole sentences for memories: no sentence is cut, and sentences that are unclear on their own are left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import dropwhile

from engram.enums import Kind, Status, Voice
from engram.extraction.candidate import MAX_CANDIDATE_SUMMARY_CHARACTERS, Candidate, cut_content
from engram.system.cached import cached_by_text
from engram.system.lazy_regex import any_case, lazy_regex
from engram.text import languages
from engram.text.splitting import Block, as_said, plain, sentences, split, whole_sentences
from engram.text.words import content_words
from engram.transcripts.turns import TextBlock, Turn
from engram.trust.suspicion import why_suspect

#: Maximum number of entities of a memory.
MAX_ENTITIES = 24
#: Sentences with fewer words are not used in a summary.
MIN_WORDS = 5
#: Minimum share of a memory's words that a message must contain to support it; maximum number of such messages used as
#: evidence, and maximum length of the quotation from each, in characters.
MIN_SUPPORT_SHARE, MAX_SUPPORTS, MAX_SUPPORT_CHARACTERS = 0.3, 2, 300

_SYMBOL = lazy_regex(
    r"`([^`\n]{2,60})`|((?:[\w.~-]*[\w~-])?(?:/[\w.@-]+)+|\b(?!(?:e\.g|i\.e)\b)[\w-]+\.[a-z]{1,5}\b|\b[a-z]+[A-Z]\w+|"
    r"\b[A-Z][a-z0-9]+[A-Z]\w*|\b[A-Za-z0-9]+_\w+)"
)
#: First words of a sentence that refer to something outside it.
_POINTS_BACK = any_case(
    r"(?:this|that|these|those|it|its|it's|that's|they|their|he|she|which|such|and|or|but|also|then|thus|otherwise|"
    r"both|all|two|three|most|one|here|the (?:first|second|third|last|former|latter|other|same|rest|above|"
    r"following)|same|\d+[.):]?)\b"
)


@cached_by_text
def quotable_sentences(text: str) -> Sequence[str]:
    """Return the sentences in the prose of a message that can be quoted; no lists, questions or fragments."""
    found = []
    for statement in split(text):
        if statement.block is not Block.PROSE:
            continue
        for sentence in languages.sentences_of(statement.text):
            is_whole = sentence.endswith((".", "!", "。", "`", ")", "”", '"')) and sentence.count("`") % 2 == 0
            if is_whole and languages.word_count(sentence) >= MIN_WORDS:
                found.append(ended(sentence))
    return found


def ended(sentence: str) -> str:
    sentence = sentence.strip().rstrip(":;,—–- ")
    return sentence if sentence.endswith((".", "!", "?", "…", "”", "。", "！", "？")) else f"{sentence}."


def points_back(sentence: str) -> bool:
    """Return True if the first word of a sentence refers to another sentence."""
    return bool(_POINTS_BACK.match(sentence))


def fitting(parts: Iterable[str], room: int = MAX_CANDIDATE_SUMMARY_CHARACTERS) -> str:
    """Return the first parts that together fit into ``room`` characters, as one line; no part is cut."""
    return " ".join(_first_fitting(parts, room))


def last_fitting(parts: Sequence[str], room: int) -> str:
    """Return the last parts that together fit, as one line that does not begin by referring to a part before it."""
    kept = _first_fitting(reversed(parts), room)[::-1]
    return " ".join(kept if len(kept) == len(parts) else dropwhile(points_back, kept))


def _first_fitting(parts: Iterable[str], room: int) -> list[str]:
    kept: list[str] = []
    for part in parts:
        if len(" ".join([*kept, part])) > room:
            break
        kept.append(part)
    return kept


def quoted(text: str, room: int) -> str:
    """Return the sentences from the beginning of a text that fit into ``room`` characters; "" if none does."""
    return fitting(sentences(plain(text)), room)


def entities_of(summary: str, turn: Turn, files: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the symbols and files that a summary mentions, then the given files and the commits of the turn."""
    named = [ticked or bare for ticked, bare in _SYMBOL.findall(summary)]
    names = [file.replace("\\", "/").rsplit("/", 1)[-1] for file in files]
    commits = [action.commit.split(" ", 1)[0] for action in turn.actions if action.commit]
    return tuple(dict.fromkeys(entity for entity in [*named, *names, *commits] if entity))[:MAX_ENTITIES]


def supporting(text: str, messages: Iterable[TextBlock]) -> list[TextBlock]:
    """Return the messages that say much the same as a text, closest first."""
    words = content_words(text)
    shares = [(len(words & content_words(said.text)) / max(1, len(words)), said) for said in messages if said.uuid]
    near = sorted((pair for pair in shares if pair[0] >= MIN_SUPPORT_SHARE), key=lambda pair: -pair[0])
    return [said for _, said in near[:MAX_SUPPORTS]]


def excerpt(said: TextBlock, text: str) -> str:
    """Return the sentences of a supporting message to quote, from the line closest to a text on; "" if none fits."""
    words = content_words(text)
    lines = said.text.splitlines()
    best = max(range(len(lines)), key=lambda number: len(words & content_words(lines[number])), default=0)
    kept = ""
    for line in lines[best:]:
        room = MAX_SUPPORT_CHARACTERS - len(kept)
        kept = f"{kept}\n{line if len(line) < room else whole_sentences(line, room)}".strip()
        if len(line) >= room:
            break
    return f"[also] {kept}" if kept else ""


def sure(
    kind: Kind,
    turn: Turn,
    summary: str,
    content: Iterable[str],
    evidence: Iterable[str],
    *,
    voice: Voice = Voice.ASSISTANT,
    quality: float,
    facts: Iterable[str] = (),
    files: Sequence[str] = (),
    said: Sequence[TextBlock] = (),
    suspect: str | None = None,
) -> Candidate:
    """Return a candidate that needs no confirmation.

    Args:
        turn: the turn from which it is taken.
        summary: whole sentences.
        content: the words on which it is based, most informative first.
        evidence: uuids of the entries with these words, in the same order; empty ones are left out.
        voice: whose words they are.
        quality: how likely it is to be worth keeping, from 0 to 1. If a session has too many candidates, the lowest are
            dropped first.
        facts: short strings for matching, which are never shown.
        files: files that it is about.
        said: texts from which typographic apostrophes are restored in the summary.
        suspect: why it must not be shown, if already known.
    """
    body = "\n\n".join(part.strip() for part in content if part.strip())
    if said:
        summary = as_said(summary, *(block.text for block in said))
    lines = (" ".join(fact.split()) for fact in facts)
    return Candidate(
        kind=kind,
        summary=summary,
        content=cut_content(body),
        evidence=tuple(dict.fromkeys(uuid for uuid in evidence if uuid)),
        turn_keys=(turn.key,),
        facts=tuple(dict.fromkeys(line for line in lines if line))[:5],
        entities=entities_of(summary, turn, files),
        voice=voice,
        confidence=0.85,
        status=Status.ACTIVE,
        suspect=(why_suspect(summary, is_typed=False, is_assistant=True) or "") if suspect is None else suspect,
        quality=quality,
    )
