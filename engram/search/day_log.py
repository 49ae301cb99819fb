"""What was committed on the days that a question names: "what was the last thing committed on 23 February?".

The ranking weighs how close a time is, but no passage says what came first, what last, and how many there were.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from engram.clock import day_of
from engram.models.commits import Commit, commits_between
from engram.models.transaction import Reader
from engram.redaction.suspicion import why_suspect
from engram.search.answer_text import count_words
from engram.search.hit_lines import COMMIT_CHARACTERS
from engram.search.hits import Hit
from engram.search.public_hits import PublicHit
from engram.search.question.dates import parse_date_range
from engram.search.question.query import Query

#: A question about a longer time is not answered by a list of commits, in days.
MAX_RANGE_DAYS = 10
#: Days that are told, each of one project: the latest ones with commits.
MAX_DAYS = 3
#: Words of one day; the earliest commits are left out.
MAX_DAY_WORDS = 60

_DAY_MS = 86_400_000
_START = "committed, in this order: "
_LEFT_OUT = "… "
#: Stands behind a subject that was read from the command alone: what it printed is not stored.
_UNNAMED = "(no hash seen)"


def day_logs(store: Reader, query: Query) -> list[PublicHit]:
    """Return the commits of the days that a question names, a hit for each day and project, the earliest day first."""
    now_ms = store.now_ms() if query.now_ms is None else query.now_ms
    date_range = parse_date_range(query.text, now_ms)
    if date_range is None or date_range.stop_ms - date_range.start_ms > MAX_RANGE_DAYS * _DAY_MS:
        return []
    for start_ms, stop_ms in date_range.occurrences(now_ms):
        commits = [
            commit
            for commit in commits_between(store, query.project_id, start_ms, stop_ms)
            # The subject is what a command printed; the assistant wrote it.
            if commit.subject and why_suspect(commit.subject, is_typed=False, is_assistant=True) is None
        ]
        if commits:
            commits.sort(key=lambda commit: (*_day_and_project(commit), commit.turn_at_ms))
            days = [(of_day, list(made)) for of_day, made in groupby(commits, _day_and_project)]
            return [_hit(day, project, made) for (day, project), made in days[-MAX_DAYS:]]
    return []


def _day_and_project(commit: Commit) -> tuple[str, str]:
    return day_of(commit.turn_at_ms), commit.project


def _hit(day: str, project: str, commits: Sequence[Commit]) -> PublicHit:
    told = list(_told(commits))
    words, kept = count_words(_START, _LEFT_OUT), 0
    while kept < len(told) and words + count_words(told[-kept - 1]) <= MAX_DAY_WORDS:
        kept += 1
        words += count_words(told[-kept])
    # One subject alone is never too long: it is stored cut.
    kept = max(kept, 1)
    text = _START + (_LEFT_OUT if kept < len(told) else "") + "; ".join(told[-kept:])
    return PublicHit.of(
        Hit(
            id=f"commits#{day}",
            kind="commits",
            text=text,
            score=0.0,
            parts={},
            project=project,
            created_at_ms=commits[-1].turn_at_ms,
        )
    )


def _told(commits: Sequence[Commit]) -> Iterable[str]:
    """Yield a line for each subject, at the place of its last commit; a commit that is made anew repeats it."""
    last = {commit.subject: commit for commit in commits}
    counts = {subject: sum(commit.subject == subject and bool(commit.sha) for commit in commits) for subject in last}
    for commit in commits:
        if commit is last[commit.subject]:
            again = f" ({counts[commit.subject]} times)" if counts[commit.subject] > 1 else ""
            sha = commit.sha[:COMMIT_CHARACTERS]
            named = f"{sha} {commit.subject}" if sha else f"{commit.subject} {_UNNAMED}"
            yield f"{named}{again}"
