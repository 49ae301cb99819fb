"""The key of the language model: from the environment, or from ``.env`` in the memory folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from engram.errors import SettingsError
from engram.system.atomic import read_regular

#: Names that may hold the key, the first that is set counts.
NAMES = ("ENGRAM_OPENAI_API_KEY", "OPENAI_API_KEY")
#: Longest ``.env`` that is read, in bytes.
_ENV_BYTES = 100_000


def find_api_key(env_file: Path, environ: Mapping[str, str] | None = None) -> str:
    """The key; "" where there is none.

    Raises:
        SettingsError: ``.env`` can be read by others.
    """
    environ = os.environ if environ is None else environ
    values = {**read_env(env_file), **{name: environ[name] for name in NAMES if environ.get(name)}}
    return next((values[name] for name in NAMES if values.get(name)), "")


def read_env(path: Path) -> dict[str, str]:
    """The ``KEY=VALUE`` lines of a file; nothing is expanded or run. {} where there is no such file.

    Raises:
        SettingsError: others than the owner may read it, or it belongs to somebody else.
    """
    try:
        facts = path.lstat()
    except OSError:
        return {}
    if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        raise SettingsError(f"{path} must be yours alone: chmod 600 {path}")
    variables = {}
    for line in (read_regular(path, _ENV_BYTES) or b"").decode("utf-8", "replace").splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            value = value.strip()
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            variables[name.strip()] = value[1:-1] if is_quoted else value
    return variables
