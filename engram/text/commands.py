"""Recognize what a shell command does."""

from __future__ import annotations

import re

_TEST_COMMAND = re.compile(
    r"\b(?:pytest|py\.test|tox|nox|unittest|jest|vitest|mocha|ava|playwright|cypress|rspec|phpunit|ctest|go test|"
    r"cargo (?:test|nextest)|(?:npm|pnpm|yarn|bun|deno|make|mvn|gradle|gradlew|dotnet|mix|swift|bazel|just|rake) "
    r"(?:run )?(?:\S+:)?(?:test|check|verify)\w*)\b"
)


def is_test_command(command: str) -> bool:
    """Return True for a command that runs tests or checks."""
    return bool(_TEST_COMMAND.search(command))
