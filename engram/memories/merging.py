"""Merge the texts of two near-identical memories. Pure."""

from __future__ import annotations

from engram.models.episodes import MAX_CONTENT_CHARACTERS, MAX_SUMMARY_CHARACTERS

#: Separator of two summaries.
SUMMARY_JOINT = " | "
#: Separator of two contents.
CONTENT_JOINT = "\n\n---\n\n"


def plain(text: str) -> str:
    """Return a text in lower case, without outer punctuation and white space, for comparison."""
    return " ".join(text.lower().split()).strip(" .!;:")


def merged_summary(older: str, newer: str) -> str:
    """Return the summary of two memories: joined, or just one if they say the same or are too long together."""
    if plain(newer) in plain(older):
        return older
    if plain(older) in plain(newer):
        return newer
    joined = older + SUMMARY_JOINT + newer
    return joined if len(joined) <= MAX_SUMMARY_CHARACTERS else newer


def merged_content(older: str, newer: str) -> str:
    """Return the content of two memories: joined; if that is too long, without the oldest parts, which their
    memories keep.
    """
    if newer.strip() in older:
        return older
    if older.strip() in newer:
        return newer
    parts = [*older.split(CONTENT_JOINT), newer]
    while len(parts) > 1 and len(CONTENT_JOINT.join(parts)) > MAX_CONTENT_CHARACTERS:
        del parts[0]
    return CONTENT_JOINT.join(parts)
