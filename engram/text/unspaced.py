"""Scripts that do not show where a word ends: Chinese, Japanese, Korean, Thai and their like. Pure.

A text index holds such letters as overlapping pairs, so that a word is found inside a run of letters: 唯一索引 is
written as 唯一 一索 索引 引, the last letter by itself. Asked for is the phrase of the pairs of a word: 唯一 一索.
"""

from __future__ import annotations

import re

#: These letters and the marks that go with them, as the inside of a character class of ``re`` and of SQLite's GLOB:
#: Thai, Lao, Myanmar, Khmer, Japanese kana, Chinese, Korean. Signs between sentences are none of them.
UNSPACED_LETTERS = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0eff\u1000-\u1049\u1050-\u109f\u1100-\u11ff\u1780-\u17d3\u17d7"
    "\u17dc-\u17e9\u3005-\u3007\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7fb\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
#: Fewer ranges, with other letters between them.
UNSPACED_RANGES = "\u0e01-\u17ff\u3005-\ud7fb\uf900-\uff9f\U00020000-\U0003ffff"
_RUN = re.compile(f"[{UNSPACED_LETTERS}]+")
_LETTER = re.compile(f"([{UNSPACED_LETTERS}])(?=([{UNSPACED_LETTERS}])?)")
#: A letter behind another one, at the end of a text.
_LAST_OF_RUN = re.compile(f"(?<=[{UNSPACED_LETTERS}])[{UNSPACED_LETTERS}]\\Z")


def is_unspaced(text: str) -> bool:
    """Return whether a text has letters of a script that does not show where a word ends."""
    return _RUN.search(text) is not None


def in_pairs(text: str) -> str:
    """Return a text as a text index holds it: each letter of these scripts with the one behind it, between spaces.

    Any other text is returned as it is. The views of ``engram.models.tables`` do the same in SQL.
    """
    return text if text.isascii() else _LETTER.sub(r" \1\2 ", text)


def asked_in_pairs(text: str) -> tuple[str, bool]:
    """Return what to ask a text index for, and whether its last word is one letter, with which longer ones may begin.

    Letters may follow the last run of a question, so its last letter is not asked for by itself.
    """
    if _LAST_OF_RUN.search(text):
        return in_pairs(text).rstrip().rpartition(" ")[0], False
    return in_pairs(text), is_unspaced(text[-1:])


def split_unspaced(word: str) -> tuple[list[str], list[str]]:
    """Return the parts of a word in other scripts, and its runs of letters of these scripts."""
    runs = _RUN.findall(word)
    return ([part for part in _RUN.split(word) if part] if runs else [word]), runs
