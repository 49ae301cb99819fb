"""The settings, from config.toml beside the package."""

import tomllib
from pathlib import Path

CONFIG = Path(__file__).resolve().parent.parent / "config.toml"


def setting(section, name, default):
    """Return a setting, or the default if it is not there."""
    values = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    return values.get(section, {}).get(name, default)
