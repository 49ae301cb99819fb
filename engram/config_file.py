"""Change one setting in config.toml, keeping the comments, order and format of everything else."""

from __future__ import annotations

import codecs
import dataclasses
import errno
import re
import stat
from pathlib import Path
from typing import Any

from engram.errors import EngramError, SettingsError
from engram.paths import Home, absolute_path, check_private
from engram.settings import FOLDER_LISTS, Settings, fault_of_format, load, parse_value, read_config
from engram.system.atomic import locked_folder, make_private_folder, write_target
from engram.trust.display import nearest_names

#: The setting that depends on where config.toml is, not on its content.
_PLACE = "home"


def set_value(home: Path, name: str, text: str) -> Any:
    """Write ``name = text`` to the memory folder's config.toml and return the parsed value.

    Args:
        home: the memory folder; it is created if missing.
        text: the value as on the command line; lists are separated by commas.

    Raises:
        SettingsError: there is no such setting, the value is invalid, or config.toml can't be read.
        EngramError: the file can't be written; the old file is unchanged.
    """
    _check_name(name)
    value = parse_value(name, text)
    if fault := fault_of_format(name, value):
        raise SettingsError(fault)
    for folder in folders_of(name, value):
        if folder.exists() and not folder.is_dir():
            raise SettingsError(f"{folder} is a file; {name} takes {'folders' if name in FOLDER_LISTS else 'a folder'}")
    load({_PLACE: str(home), name: text}, environ={})
    plain = str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
    _edit(home, name, plain)
    return value


def folders_of(name: str, value: Any) -> list[Path]:
    """Return the folders that the value of a setting names; none for a setting of another kind."""
    return [value] if isinstance(value, Path) else list(map(absolute_path, value)) if name in FOLDER_LISTS else []


def unset_value(home: Path, name: str) -> bool:
    """Remove a setting, even an unknown one; return False if it was not set. Raises the errors of ``set_value``."""
    has_changed = _edit(home, name, None)
    if not has_changed:
        _check_name(name)
    return has_changed


#: The name of every setting.
SETTINGS = tuple(field.name for field in dataclasses.fields(Settings))


def line_of(path: Path, name: str) -> int:
    """Return the number of the line that assigns a setting in config.toml, counted from 1; 0 if there is none."""
    key = re.compile(rf"""\s*\[*\s*(["']?){re.escape(name)}\1\s*[=.\]]""")
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    return next((number for number, line in enumerate(lines, 1) if key.match(line)), 0)


def no_setting(name: str) -> str:
    """Return a message that there is no such setting, with the most similar name."""
    near = nearest_names(name, SETTINGS)
    meant = f"Did you mean {near[0]}? " if near else ""
    return f"there is no setting {name!r}. {meant}`engram config` lists them"


def _check_name(name: str) -> None:
    if name == _PLACE:
        raise SettingsError("home can't be set in config.toml, which is in that folder. Set ENGRAM_HOME instead")
    if name not in SETTINGS:
        raise SettingsError(no_setting(name))


def _edit(home: Path, name: str, value: object) -> bool:
    """Set a value, or remove the setting if it is None; return True if the file changed."""
    try:
        return _rewrite(home, name, value)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise SettingsError(
                f"{Home(home).config_file} is mounted as a file of its own, as in a container, so it can't be replaced "
                "here. Change it where it comes from"
            ) from error
        raise EngramError(f"Can't write config.toml: {error.strerror or error}.") from error


def _rewrite(home: Path, name: str, value: object) -> bool:
    import tomlkit

    check_private(make_private_folder(home, with_parents=True))
    path = Home(home).config_file
    with locked_folder(home):
        # Raises an error for an unreadable file, so that it is not overwritten.
        read_config(path)
        before = path.read_bytes() if path.exists() else b""
        old = before.decode("utf-8-sig")
        if path.exists() and not path.stat().st_mode & stat.S_IWUSR:
            raise SettingsError(f"{path} is read-only. Make it writable, or change it where it is generated")
        document = tomlkit.parse(old)
        if value is None:
            document.pop(name, None)
        else:
            document[name] = value
        new = tomlkit.dumps(document)
        if "\r\n" in old:
            new = new.replace("\r\n", "\n").replace("\n", "\r\n")
        if new == old:
            return False
        mark = codecs.BOM_UTF8 if before.startswith(codecs.BOM_UTF8) else b""
        write_target(path, mark + new.encode("utf-8"))
    return True
