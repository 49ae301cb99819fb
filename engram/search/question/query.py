"""A question to the search, with its filters and its context."""

from __future__ import annotations

from dataclasses import dataclass

#: Maximum number of hits of one answer, whoever asks.
MAX_HITS = 1_000


@dataclass(frozen=True, slots=True)
class Query:
    """One question to the memory."""

    text: str
    #: Search only this project; None searches all.
    project_id: int | None = None
    #: With a project: also return memories of global scope.
    with_global: bool = True
    #: Maximum number of hits; of an answer that holds more than memories, of these.
    limit: int = 5
    #: Maximum number of hits of an answer, whatever they are; None where its budget of words decides.
    max_hits: int | None = None
    #: When the question is asked, in milliseconds since 1970; None is now. "Yesterday" counts from here.
    now_ms: int | None = None
    #: Paths of the files being worked on, as written.
    files: tuple[str, ...] = ()
    #: Claude Code's session that asks; "" for none.
    session_id: str = ""
    #: The branch that the asker works on; "" if it is not known. Memories of other branches that were not merged sink.
    branch: str = ""
    #: A command that was run, and the first line of its error; "" for none.
    command: str = ""
    error: str = ""
    #: Show only texts that have all of these, as they stand; for a search of passages and notes.
    phrases: tuple[str, ...] = ()
    #: Also return weak matches, up to ``limit``: for a caller that weighs hits itself.
    thorough: bool = False
