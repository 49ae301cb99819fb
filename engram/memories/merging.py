"""How two near-identical memories become one. Pure."""

from __future__ import annotations

from engram.models.episodes import MAX_CONTENT_CHARACTERS, MAX_SUMMARY_CHARACTERS

#: What stands between two summaries.
SUMMARY_JOINT = " | "
#: What stands between two contents.
CONTENT_JOINT = "\n\n---\n\n"


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
    return joined if len(joined) <= MAX_SUMMARY_CHARACTERS else newer


def merged_content(older: str, newer: str) -> str:
    """Join the contents of two memories by a rule; where that grows too long, the oldest parts go (their memories keep them)."""
    if newer.strip() in older:
        return older
    if older.strip() in newer:
        return newer
    parts = [*older.split(CONTENT_JOINT), newer]
    while len(parts) > 1 and len(CONTENT_JOINT.join(parts)) > MAX_CONTENT_CHARACTERS:
        del parts[0]
    return CONTENT_JOINT.join(parts)
