"""Score an answer by its text alone, in the same way for every program, whatever ids it reports.

A piece of evidence (an entry of a transcript) counts as shown if 60 consecutive characters of the answer occur in it,
ignoring white space, punctuation and case, or if the answer contains the whole of a shorter entry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Number of consecutive characters that show an entry.
WINDOW = 60
#: Numbers of words that an agent might read.
WORDS = (200, 400)
#: Share of a gold memory's words that a line must contain to count as stating the memory.
TELLING_SHARE = 0.4
_ESCAPES = re.compile(r"\\[nrt\"]")
#: Number of hexadecimal digits at the beginning of a session's id that suffice to name the session.
_ID_DIGITS = 8
_STOP = set(
    "that this these those when where which with from have been were what does into than then they them their there "
    "your after before because about would could should will must only also more most some such over under each "
    "other".split()
)


@dataclass(frozen=True)
class Corpus:
    """The entries to which gold labels refer."""

    #: uuid of an entry → its text, as returned by ``plain``.
    texts: Mapping[str, str]
    #: uuid of an entry → the sessions that contain it (copies of a session contain the same entries).
    sessions: Mapping[str, frozenset[str]]


def read_corpus(folder: Path, wanted: Iterable[str]) -> Corpus:
    """Read the wanted entries of all transcripts below a folder."""
    texts: dict[str, str] = {}
    sessions: dict[str, set[str]] = {uuid: set() for uuid in wanted}
    for path in sorted(folder.rglob("*.jsonl")):
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                if not isinstance(entry, dict) or entry.get("uuid") not in sessions:
                    continue
                content = (entry.get("message") or {}).get("content") or []
                blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
                said = "\n".join(block.get("text", "") for block in blocks if block.get("type") == "text")
                texts.setdefault(entry["uuid"], plain(said))
                sessions[entry["uuid"]].add(path.stem)
    return Corpus(texts, {uuid: frozenset(names) for uuid, names in sessions.items()})


def plain(text: str) -> str:
    """Return the words of a text in lower case with single spaces."""
    return " ".join(re.findall(r"\w+", _ESCAPES.sub(" ", text).lower()))


def first_words(text: str, number: int) -> str:
    """Return the first words of a text, as read by an agent with room for this number."""
    return " ".join(text.split()[:number])


def shown_evidence(answer: str, wanted: Iterable[str], corpus: Corpus) -> set[str]:
    """Return the uuids of the wanted entries that an answer shows."""
    shown = plain(answer)
    starts = [0] + [at + 1 for at, letter in enumerate(shown) if letter == " "]
    windows = [shown[start : start + WINDOW] for start in starts if len(shown) - start >= WINDOW]
    found = set()
    for uuid in wanted:
        entry = corpus.texts.get(uuid, "")
        if entry and (entry in shown if len(entry) <= WINDOW else any(window in entry for window in windows)):
            found.add(uuid)
    return found


def evidence_share(answer: str, wanted: Sequence[str], corpus: Corpus, words: int) -> float:
    """Return the share of the wanted evidence that the first words of an answer show, from 0 to 1."""
    return len(shown_evidence(first_words(answer, words), wanted, corpus)) / len(wanted)


def names_session(answer: str, wanted: Iterable[str], corpus: Corpus, words: int) -> bool:
    """Return whether the first words of an answer name a session that contains a wanted entry."""
    text = first_words(answer, words)
    return any(name[:_ID_DIGITS] in text for uuid in wanted for name in corpus.sessions.get(uuid, ()))


def content_words(text: str) -> set[str]:
    """Return the informative words of a text: those with four or more letters, without stop words."""
    return {word for word in re.findall(r"[a-z0-9_]{4,}", text.lower()) if word not in _STOP}


def reference_share(answer: str, question: str, reference: str, words: int) -> float:
    """Return the share of the reference answer's words, except those in the question, in the first words of an answer.

    This replaces a reader: it distinguishes right answers from wrong ones with an AUC of 0.89 (docs/benchmarks.md).
    Unlike ``evidence_share``, it also counts statements in other words than the transcript's.
    """
    wanted = content_words(reference) - content_words(question)
    return len(wanted & content_words(first_words(answer, words))) / len(wanted) if wanted else 0.0


def tells_memory(text: str, summaries: Iterable[str], evidence: Iterable[str], corpus: Corpus) -> bool:
    """Return whether a text states one of the gold memories, in its own words or by quoting what it rests on."""
    said = content_words(text)
    for summary in summaries:
        wanted = content_words(summary)
        if wanted and len(wanted & said) >= TELLING_SHARE * len(wanted):
            return True
    return bool(shown_evidence(text, evidence, corpus))
