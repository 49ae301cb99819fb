"""Change one setting in config.toml; comments, order and formatting of the rest stay as they are."""

from __future__ import annotations

import dataclasses
import stat
from pathlib import Path
from typing import Any

from engram.atomic import locked_folder, make_private_folder, write_atomic
from engram.errors import SettingsError
from engram.paths import Home
from engram.settings import Settings, load, parse_value, read_config

#: Set by where the file lies, not in it.
_PLACE = "home"


def set_value(home: Path, name: str, text: str) -> Any:
    """Write ``name = text`` into the memory folder's config.toml and return the value as it is read.

    Args:
        home: the memory folder; it is made where it is missing.
        name: the setting.
        text: the value as on the command line; lists are separated by commas.

    Raises:
        SettingsError: there is no such setting, the value can't be used, or config.toml can't be read.
        OSError: the file can't be written; the old one is still there.
    """
    _check_name(name)
    value = parse_value(name, text, "the command line")
    load({_PLACE: str(home), name: text}, environ={})
    plain = str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
    _edit(home, name, plain)
    return value


def unset_value(home: Path, name: str) -> bool:
    """Take a setting out of config.toml, one that there is none of too; False where it did not stand there.

    Raises as ``set_value``.
    """
    has_changed = _edit(home, name, None)
    if not has_changed:
        _check_name(name)
    return has_changed


def _check_name(name: str) -> None:
    if name == _PLACE:
        raise SettingsError("home can't stand in config.toml, which lies in it; set ENGRAM_HOME instead")
    if name not in {field.name for field in dataclasses.fields(Settings)}:
        raise SettingsError(f"there is no setting {name!r}; `engram config` lists them")


def _edit(home: Path, name: str, value: object) -> bool:
    """Set the value, or remove it where it is None; True where that changed the file."""
    import tomlkit

    make_private_folder(home)
    path = Home(home).config_file
    with locked_folder(home):
        # Refuses a file that can't be read before it is rewritten.
        read_config(path)
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if path.exists() and not path.stat().st_mode & stat.S_IWUSR:
            raise SettingsError(f"{path} is read-only; allow writing to it, or change it where it comes from")
        document = tomlkit.parse(old)
        if value is None:
            document.pop(name, None)
        else:
            document[name] = value
        new = tomlkit.dumps(document)
        if new == old:
            return False
        write_atomic(path, new.encode("utf-8"))
    return True
