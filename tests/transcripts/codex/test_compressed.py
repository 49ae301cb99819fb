"""Rollouts that Codex compressed are read like others, and go on as plain files where they stopped."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engram.models.engine.transaction import Store
from engram.settings import Settings
from engram.transcripts import registry, transcript_files
from engram.transcripts.growing_file import Position, read_chunk
from engram.transcripts.turns import Turn
from tests.rollouts import SESSION, Rollout

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Read = Callable[..., list[Turn]]


def compress(path: Path, **options: Any) -> Path:
    """Replace a rollout by its compressed form, as Codex does."""
    packed = path.with_name(path.name + ".zst")
    packed.write_bytes(zstd.compress(path.read_bytes(), **options))
    path.unlink()
    return packed


def expand(path: Path) -> Path:
    """Write the plain file again, as Codex does when the session is resumed."""
    plain = path.with_suffix("")
    plain.write_bytes(zstd.decompress(path.read_bytes()))
    return plain


def prompts(turns: list[Turn]) -> list[str]:
    return [turn.prompt for turn in turns]


def test_a_compressed_rollout_is_read(rollout: Rollout, read: Read, settings: Settings) -> None:
    rollout.head().user("Weigh the seal.")
    rollout.says("It weighs 40 kg.")
    packed = compress(rollout.path)

    (turn,) = read()

    assert (turn.prompt, turn.reply) == ("Weigh the seal.", "It weighs 40 kg.")
    assert [(source.path, source.session_id) for source in registry.discover(settings)] == [(packed, SESSION)]
    assert registry.sources_at(packed, settings) == list(registry.discover(settings))


@pytest.mark.parametrize("is_removed", [True, False])
def test_it_is_compressed_and_comes_back_and_grows(
    rollout: Rollout, read: Read, store: Store, is_removed: bool
) -> None:
    rollout.head().user("one")
    rollout.says("first")
    read()
    packed = compress(rollout.path)
    in_between = prompts(read())
    expand(packed)
    if is_removed:
        packed.unlink()
    rollout.begin()
    rollout.user("two")

    turns = read()

    assert (in_between, prompts(turns)) == (["one"], ["one", "two"])
    assert turns[0].reply == "first"
    assert store.value("SELECT count(*) FROM transcript") == 1
    assert store.value("SELECT count(*) FROM said") == 3
    assert store.value("SELECT generation FROM transcript") == 0


def test_a_plain_file_that_differs_from_what_was_read_is_read_again(rollout: Rollout, read: Read, store: Store) -> None:
    rollout.head().user("one")
    rollout.says("first")
    packed = compress(rollout.path)
    read()
    plain = expand(packed)
    packed.unlink()
    plain.write_bytes(plain.read_bytes().replace(b"first", b"wurst"))

    (turn,) = read()

    assert "wurst" in turn.reply


def test_many_frames_and_portions_give_the_same(rollout: Rollout, read: Read) -> None:
    rollout.head()
    for number in range(300):
        rollout.begin()
        rollout.user(f"prompt {number} " + "x" * 9000)
    data = rollout.path.read_bytes()
    packed = compress(rollout.path)
    packed.write_bytes(b"".join(zstd.compress(data[at : at + 100_000]) for at in range(0, len(data), 100_000)))

    turns = read(max_bytes=1)

    assert [turn.prompt.partition(" x")[0] for turn in turns] == [f"prompt {number}" for number in range(300)]


@pytest.mark.parametrize("damage", [lambda data: data[:-40], lambda data: data[:-40] + b"garbage" * 9])
def test_a_damaged_one_is_read_as_far_as_it_goes_and_named(
    rollout: Rollout, read: Read, store: Store, damage: Callable[[bytes], bytes]
) -> None:
    rollout.head()
    for number in range(40):
        rollout.begin()
        rollout.user(f"prompt {number} " + os.urandom(4000).hex())
    packed = compress(rollout.path)
    packed.write_bytes(damage(packed.read_bytes()))

    assert len(read()) >= 20
    assert len(read()) >= 20
    assert "damaged" in str(store.value("SELECT reason FROM bad_line"))
    assert store.value("SELECT count(*) FROM bad_line") == 1


def test_one_that_expands_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstd.compress(b'{"a": 1}\n' + b"\0" * 30_000_000))
    monkeypatch.setattr(transcript_files, "MAX_EXPANDED_BYTES", 10_000_000)

    first = read_chunk(path, Position())
    second = read_chunk(path, first.position)

    assert [line.data for line in first.lines] == [b'{"a": 1}']
    assert second.is_damaged
    assert not second.has_more


def test_one_that_asks_for_much_memory_is_not_expanded(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    wide = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.content_size_flag: 0}
    compressor = zstd.ZstdCompressor(options=wide)
    path.write_bytes(compressor.compress(b"x" * 1000) + compressor.flush())

    assert read_chunk(path, Position()).is_damaged


def test_without_the_library_it_is_named(rollout: Rollout, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    rollout.head().user("one")
    packed = compress(rollout.path)
    (rollout.path.parent / f"rollout-2026-06-26T12-00-00-{SESSION}.jsonl.gz").touch()
    monkeypatch.setattr(transcript_files, "_zstd", lambda: None)

    assert list(registry.discover(settings)) == []
    assert {one.path.suffix: one.reason for one in registry.skipped(settings)} == {
        ".zst": "it is compressed, and this Python has no Zstandard support",
        ".gz": "its name is not that of a session file",
    }
    assert packed.exists()
