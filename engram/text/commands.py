"""Recognize what a shell command does."""

from __future__ import annotations

import re

_TEST_COMMAND = re.compile(
    r"\b(?:pytest|py\.test|tox|nox|unittest|jest|vitest|mocha|ava|playwright|cypress|rspec|phpunit|ctest|go test|"
    r"cargo (?:test|nextest)|(?:npm|pnpm|yarn|bun|deno|make|mvn|gradle|gradlew|dotnet|mix|swift|bazel|just|rake) "
    r"(?:run )?(?:\S+:)?(?:test|check|verify)\w*)\b"
)


#: A quoted text, an escaped character, or a comment with what stands before it.
_COMMENT = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|(^|(?<=[\s;&|(]))#[^\n]*", re.MULTILINE | re.DOTALL)


def without_comments(command: str) -> str:
    """Return a shell command without its comments, which say nothing of what it does."""
    bare = _COMMENT.sub(lambda found: "" if found[0].startswith("#") else found[0], command)
    return "\n".join(line.rstrip() for line in bare.splitlines() if line.strip())


def is_test_command(command: str) -> bool:
    """Return True for a command that runs tests or checks."""
    return bool(_TEST_COMMAND.search(command))
