"""How two near-identical memories become one. Pure."""

from __future__ import annotations

#: What stands between two summaries.
SUMMARY_JOINT = " | "
#: Longest merged summary, in characters; beyond it the newest alone stays.
SUMMARY_LIMIT = 500
#: What stands between two contents.
CONTENT_JOINT = "\n\n---\n\n"
#: Longest merged content, in characters; beyond it nothing is appended (the merged memory keeps its own).
CONTENT_LIMIT = 4000


def plain(text: str) -> str:
    """A text without case, outer punctuation and white space, for comparison."""
    return " ".join(text.lower().split()).strip(" .!;:")


def merged_summary(older: str, newer: str) -> str:
    """The summary of two memories: joined, or the newer alone where both are too long or say the same."""
    if plain(newer) in plain(older):
        return older
    if plain(older) in plain(newer):
        return newer
    joined = older + SUMMARY_JOINT + newer
    return joined if len(joined) <= SUMMARY_LIMIT else newer


def merged_content(older: str, newer: str) -> str:
    """The content of two memories: joined by a rule, or the older alone where that would grow too long."""
    if newer.strip() in older:
        return older
    if older.strip() in newer and len(newer) <= CONTENT_LIMIT:
        return newer
    joined = older + CONTENT_JOINT + newer
    return joined if len(joined) <= CONTENT_LIMIT else older
