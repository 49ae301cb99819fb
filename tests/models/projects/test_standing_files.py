"""Files as they were read: whose they are, and what is never kept of them."""

from __future__ import annotations

from engram.models.engine.transaction import Store
from engram.models.projects.notes import (
    StandingFile,
    drop_standing_file,
    forget_standing_lines,
    list_standing_files,
    put_standing_file,
    standing_files_of,
    standing_watermark,
)
from engram.models.projects.projects import ensure_project


def file(path: str, project_id: int | None, text: str = "a\nb\nc") -> StandingFile:
    return StandingFile(path=path, project_id=project_id, name=path, size=5, changed_at_ns=1, text=text)


def test_a_project_sees_its_own_files_and_those_of_all(store: Store) -> None:
    with store.transaction() as tx:
        one, two = (ensure_project(tx, f"/w/{name}", name, f"/w/{name}") for name in ("one", "two"))
        for made in (file("all", None), file("one", one.id), file("two", two.id)):
            put_standing_file(tx, made)

    assert [seen.path for seen in standing_files_of(store, one.id)] == ["all", "one"]
    assert [seen.path for seen in standing_files_of(store, None)] == ["all"]


def test_a_forgotten_line_is_not_kept_when_the_file_is_read_again(store: Store) -> None:
    with store.transaction() as tx:
        put_standing_file(tx, file("all", None))
        forget_standing_lines(tx, lambda line: line != "b")
        put_standing_file(tx, file("all", None, "a\n  b \nd"))

    (kept,) = list_standing_files(store)
    assert kept.text == "a\nd"
    assert "b" not in kept.text


def test_the_watermark_differs_after_every_change(store: Store) -> None:
    marks = {standing_watermark(store)}
    with store.transaction() as tx:
        put_standing_file(tx, file("all", None))
    marks.add(standing_watermark(store))
    with store.transaction() as tx:
        drop_standing_file(tx, "all")
        put_standing_file(tx, file("other", None))
        put_standing_file(tx, file("third", None))
    marks.add(standing_watermark(store))

    assert len(marks) == 3
