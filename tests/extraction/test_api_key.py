"""The key comes from the environment or from a private file, which is never run."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.errors import SettingsError
from engram.extraction.model.provider import api_key_of, find_api_key, read_env
from engram.settings import Settings
from engram.vaults import Vault, free_folder, settings_of, write_vault


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_lines_are_read_and_nothing_is_run(tmp_path: Path) -> None:
    text = "# a note\nexport A=1\nB = 'two words'\nC=\"$(touch x)\"\nno line\n=empty\nD=x=y\n"

    found = read_env(write(tmp_path / ".env", text))

    assert {name: found.get(name) for name in "ABCD"} == {"A": "1", "B": "two words", "C": "$(touch x)", "D": "x=y"}
    assert not (tmp_path / "x").exists()


def test_a_vault_has_the_key_of_the_memory_folder_around_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    home = settings.places.prepare()
    write(home.env_file, "OPENAI_API_KEY=k")
    vault = Vault("acme", ("/src/acme",), free_folder(home, "acme"), is_sealed=True)
    write_vault(vault)

    assert api_key_of(settings_of(vault, settings)) == "k"


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="chmod 600"):
        find_api_key(write(tmp_path / ".env", "OPENAI_API_KEY=k", 0o644), {})


def test_a_link_to_a_private_file_is_followed(tmp_path: Path) -> None:
    target = write(tmp_path / "dotfiles.env", "OPENAI_API_KEY=k")
    (tmp_path / ".env").symlink_to(target)

    assert find_api_key(tmp_path / ".env", {}) == "k"
    target.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        find_api_key(tmp_path / ".env", {})


def test_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    env = write(tmp_path / ".env", "OPENAI_API_KEY=file")

    assert find_api_key(env, {"OPENAI_API_KEY": "environment"}) == "environment"
    assert find_api_key(env, {}) == "file"


def test_a_missing_key_is_not_an_error(tmp_path: Path) -> None:
    assert find_api_key(tmp_path / ".env", {}) == ""
