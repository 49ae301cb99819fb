"""Whole lines only, in bounded memory, and a rewritten file is noticed."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.errors import TranscriptError
from engram.transcripts.growing_file import Chunk, Position, _fingerprint_of, _opened, holds_prefix, read_chunk

START = Position()


def read_all(path: Path, position: Position = START, **limits: int) -> tuple[list[bytes], Position]:
    lines: list[bytes] = []
    while True:
        chunk = read_chunk(path, position, **limits)
        lines += [line.data for line in chunk.lines]
        position = chunk.position
        if not chunk.has_more:
            return lines, position


def test_an_unfinished_last_line_waits_until_its_newline_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\ntwo\nthr")

    first, position = read_all(path)
    path.write_bytes(b"one\ntwo\nthree\n")
    second, _ = read_all(path, position)

    assert (first, second) == ([b"one", b"two"], [b"three"])


def test_a_line_written_byte_by_byte_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.touch()
    seen: list[bytes] = []
    position = Position()

    for byte in b"ab\ncd\n":
        with path.open("ab") as file:
            file.write(bytes([byte]))
        lines, position = read_all(path, position)
        seen += lines

    assert seen == [b"ab", b"cd"]


def test_each_line_knows_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"ab\n\ncde\n")

    chunk = read_chunk(path, Position())

    assert [(line.offset, line.length, line.number) for line in chunk.lines] == [(0, 2, 1), (3, 0, 2), (4, 3, 3)]
    assert (chunk.position.offset, chunk.position.lines, chunk.size) == (8, 3, 8)


@settings(max_examples=60, deadline=None)
@given(
    pieces=st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")), max_size=30),
    chunk_bytes=st.integers(1, 64),
)
def test_any_chunk_size_gives_the_same_lines(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], chunk_bytes: int
) -> None:
    path = tmp_path_factory.mktemp("tail") / "a.jsonl"
    path.write_bytes(b"".join(piece + b"\n" for piece in pieces))

    lines, position = read_all(path, chunk_bytes=chunk_bytes)

    assert lines == pieces
    assert position.lines == len(pieces)


@pytest.mark.parametrize("chunk_bytes", [1000, 5000, 8000, 1 << 20])
@pytest.mark.parametrize("last", [b"", b"three\n", b"three\nfour\n"])
def test_a_line_above_the_cap_is_skipped_however_much_is_read_at_once(
    tmp_path: Path, chunk_bytes: int, last: bytes
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\n" + b"x" * 4000 + b"\n" + last)

    position, lines, skipped = Position(), [], []
    has_more = True
    while has_more:
        chunk = read_chunk(path, position, chunk_bytes=chunk_bytes, max_line_bytes=3000)
        position, has_more = chunk.position, chunk.has_more
        lines += [(line.number, line.data) for line in chunk.lines]
        skipped += [(one.offset, one.length) for one in chunk.skipped]

    assert skipped == [(4, 4000)]
    assert lines == [(1, b"one"), *((3 + n, word) for n, word in enumerate(last.split()))]


def test_a_line_above_the_cap_is_skipped_and_named_and_later_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"a\n" + b"x" * 5000 + b"\nb\n")
    position, lines, skipped = Position(), [], []

    for _ in range(10):
        chunk = read_chunk(path, position, chunk_bytes=1000, max_line_bytes=2000)
        lines += [(line.number, line.data) for line in chunk.lines]
        skipped += [(one.offset, one.length) for one in chunk.skipped]
        position = chunk.position

    assert lines == [(1, b"a"), (3, b"b")]
    assert skipped == [(2, 5000)]


def test_a_line_longer_than_a_chunk_and_below_the_cap_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x" * 3_000_000 + b"\nb\n")

    lines, _ = read_all(path, chunk_bytes=1000)

    assert [len(line) for line in lines] == [3_000_000, 1]


def test_an_unfinished_long_line_moves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"a\n" + b"x" * 5000)
    before = read_chunk(path, Position(), chunk_bytes=1000).position

    chunk = read_chunk(path, before, chunk_bytes=1000)

    assert chunk == Chunk((), (), before, 5002, stamp=chunk.stamp)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("truncated", b'{"first": 1}\n'),
        ("another file of the same length", b'{"other": 1}\n{"b": 2}\n{"c": 3}\n'),
        ("another file that is longer", b'{"other": 1}\n' + b'{"b": 2}\n' * 100),
    ],
)
def test_a_rewritten_file_is_noticed(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"first": 1}\n{"b": 2}\n{"c": 3}\n')
    position = read_chunk(path, Position()).position

    path.write_bytes(content)

    assert read_chunk(path, position).is_rewritten, name


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def rename_over(path: Path, content: bytes) -> None:
    """Replace a file by a new one with the same time."""
    facts = path.stat()
    new = written(path.with_suffix(".new"), content)
    os.utime(new, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    new.replace(path)


HEAD = b"".join(b'{"number": %04d}\n' % number for number in range(1000))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("the last line in place", lambda path: written(path, HEAD.replace(b"0999", b"xxxx"))),
        ("the last line, and grown", lambda path: written(path, HEAD.replace(b"0999", b"xxxx") + b'{"a": 1}\n')),
        ("a late line removed, and grown", lambda path: written(path, HEAD.replace(b'{"number": 0998}\n', b"") * 2)),
        ("a line in the middle in place", lambda path: written(path, HEAD.replace(b"0100", b"xxxx"))),
        ("a new file with another middle", lambda path: rename_over(path, HEAD.replace(b"0100", b"x" * 4))),
        ("a new file that is longer", lambda path: rename_over(path, HEAD.replace(b"0100", b"xxxx") + b'{"a": 1}\n')),
        ("an older file", lambda path: os.utime(written(path, HEAD.replace(b"0100", b"xxxx") + b"{}\n"), ns=(1, 1))),
        ("cut in the middle of a line", lambda path: written(path, HEAD[:-5])),
        ("emptied", lambda path: written(path, b"")),
    ],
)
def test_whatever_was_written_before_the_cursor_is_noticed(
    tmp_path: Path, name: str, change: Callable[[Path], object]
) -> None:
    path = written(tmp_path / "a.jsonl", HEAD)
    os.utime(path, ns=(10**18, 10**18))
    position = read_chunk(path, Position()).position

    change(path)

    assert read_chunk(path, position).is_rewritten, name


def test_the_middle_of_a_file_that_grew_as_usual_is_compared_by_whoever_doubts(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", HEAD)
    position = read_chunk(path, Position()).position
    written(path, HEAD.replace(b"0100", b"xxxx") + b'{"a": 1}\n')

    assert not read_chunk(path, position).is_rewritten
    assert read_chunk(path, position, is_doubtful=True).is_rewritten
    assert not holds_prefix(path, position)


@pytest.mark.parametrize("chunk_bytes", [7, 100, 5000, 1_000_000])
def test_a_file_that_only_grew_or_was_copied_is_never_read_again(tmp_path: Path, chunk_bytes: int) -> None:
    path = tmp_path / "a.jsonl"
    content, position = b"", Position()

    for number in range(12):
        content += b'{"number": %04d}\n' % number * (number * 50 + 1)
        written(path, content) if number % 2 else rename_over(written(path, content[:-1]), content)
        while True:
            chunk = read_chunk(path, position, chunk_bytes=chunk_bytes, is_doubtful=True)
            assert not chunk.is_rewritten
            position = chunk.position
            if not chunk.has_more:
                break

    assert position.offset == len(content)
    assert position.prefix_crc == zlib.crc32(content)
    assert holds_prefix(path, position)


def test_a_position_survives_its_way_through_a_cursor(tmp_path: Path) -> None:
    position = read_chunk(written(tmp_path / "a.jsonl", HEAD), Position()).position

    assert Position.from_json(json.loads(json.dumps(position.to_json()))) == position


def fingerprint(path: Path) -> bytes:
    with _opened(path) as file:
        return _fingerprint_of(file)


def test_growing_changes_no_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"a" * 3000)
    before = fingerprint(path)
    path.write_bytes(b"a" * 3000 + b"\nb\n")

    assert fingerprint(path) == before != b""


def test_a_file_without_a_whole_first_line_has_no_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"begin")

    assert fingerprint(path) == b""


def test_pipes_devices_and_folders_are_not_opened_by_name_or_by_link(tmp_path: Path) -> None:
    pipe, folder = tmp_path / "pipe.jsonl", tmp_path / "folder.jsonl"
    os.mkfifo(pipe)
    folder.mkdir()
    links = [tmp_path / f"link{number}.jsonl" for number in range(5)]
    for link, target in zip(links, (pipe, folder, "/dev/zero", "/etc/hostname", links[4]), strict=True):
        link.symlink_to(target)

    for path in (pipe, folder, *links, tmp_path / "missing.jsonl", tmp_path / "nul\0.jsonl"):
        with pytest.raises(TranscriptError):
            read_chunk(path, Position())


def test_a_link_is_followed_only_to_the_users_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    real.write_bytes(b"a\n")
    link.symlink_to(real)

    lines, _ = read_all(link)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    assert lines == [b"a"]
    with pytest.raises(TranscriptError, match="another user"):
        read_chunk(link, Position())
    assert read_all(real)[0] == [b"a"]


def test_no_file_stays_open(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"a\n")
    count_before = len(os.listdir("/dev/fd"))

    for _ in range(50):
        read_chunk(path, Position())

    assert len(os.listdir("/dev/fd")) <= count_before


def test_a_last_line_without_newline_is_whole_where_it_is_a_complete_object(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": 2}')

    first = read_chunk(path, Position())
    path.write_bytes(b'{"a": 1}\n{"b": 2}\n{"c": 3}\n')
    second = read_chunk(path, first.position)

    assert [(line.number, line.data) for line in first.lines] == [(1, b'{"a": 1}'), (2, b'{"b": 2}')]
    assert not first.has_more
    assert [(line.number, line.data) for line in second.lines] == [(2, b""), (3, b'{"c": 3}')]


def test_a_long_last_line_without_newline_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": "' + b"x" * 5000 + b'"}')

    lines, position = read_all(path, chunk_bytes=1000)

    assert [len(line) for line in lines] == [5009]
    assert position.offset == 5009


@pytest.mark.parametrize("rest", [b'{"b": ', b"12", b"null", b"[1]", b'{"b": "}', b"{" * 5000 + b"}"])
def test_other_unfinished_ends_wait(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n' + rest)

    lines, _ = read_all(path)

    assert lines == [b'{"a": 1}']
