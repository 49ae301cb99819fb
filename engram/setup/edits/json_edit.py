"""Apply a JsonEdit to JSON text, and revert it; every other character is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from engram.errors import BadRequest
from engram.reports.claude_checks import has_mark
from engram.setup.edits.install_steps import JsonEdit, JsonEntry
from engram.setup.edits.json_document import Member, Node, find_style, insert_part, parse, remove_part, replace_value

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Removed:
    path: Path
    #: Its text, as it was in the file.
    text: str
    is_item: bool
    #: The value that replaced the member's value.
    replacement: Any = None


@dataclass(slots=True)
class AppliedJson:
    """What an edit actually did to a file, as needed to revert it."""

    added: list[JsonEntry] = field(default_factory=list)
    removed: list[Removed] = field(default_factory=list)
    replaced: list[Removed] = field(default_factory=list)
    #: Objects and lists that did not exist before.
    created: list[Path] = field(default_factory=list)
    #: Objects and lists that were empty, each with the white space and comments inside.
    blank: list[tuple[Path, str]] = field(default_factory=list)
    #: The text of a document without a value; None for any other document.
    former: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> AppliedJson:
        return cls(
            added=[JsonEntry(**{**entry, "path": tuple(entry["path"])}) for entry in stored["added"]],
            removed=[Removed(**{**entry, "path": tuple(entry["path"])}) for entry in stored["removed"]],
            replaced=[Removed(**{**entry, "path": tuple(entry["path"])}) for entry in stored["replaced"]],
            created=[tuple(path) for path in stored["created"]],
            blank=[(tuple(path), inner) for path, inner in stored["blank"]],
            former=stored["former"],
        )


def apply_json(text: str, edit: JsonEdit) -> tuple[str, AppliedJson]:
    """Return the edited text and what was done.

    Raises:
        BadRequest: the text is not JSON, or the container of an entry is not an object or a list.
    """
    if not edit.add and parse(text) is None:
        return text, AppliedJson()
    worker = _Applier(text)
    for entry in edit.remove:
        worker.remove(entry)
    for entry in edit.add:
        worker.add(entry)
    # Lists and objects that became empty by the removal are removed, too.
    for old in worker.done.removed:
        worker.text = _remove_emptied(worker.text, _container(old))
    return worker.text, worker.done


def drop_json(text: str, entries: tuple[JsonEntry, ...]) -> str:
    """Return the text without these entries, and without the objects and lists that become empty."""
    for entry in entries:
        while (found := _find(text, entry)) is not None:
            text = _remove_ours(text, *found, entry.marker)
            text = _remove_emptied(text, _container(entry))
    return text


def revert_json(text: str, applied: AppliedJson) -> str:
    """Return the text without what was added, and with what was removed; others' changes are kept.

    Raises:
        BadRequest: the text is no longer JSON.
    """
    for entry in reversed(applied.added):
        while (found := _find(text, entry)) is not None:
            text = _remove_ours(text, *found, entry.marker)
            if not entry.marker:
                break
        text = _remove_empty(text, _container(entry), set(applied.created))
    for old in reversed(applied.replaced):
        member = _member(text, old.path)
        if member is not None and _same(member.node.value, old.replacement):
            text = replace_value(text, member.node, old.text)
    for old in reversed(applied.removed):
        text = _put_back(text, old)
    return _restore_blanks(text, applied)


class _Applier:
    """Makes one change after another, and records them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.done = AppliedJson()
        if parse(text) is None:
            self.done.former = text
            has_comments = bool(text.strip("\ufeff \t\r\n"))
            before = text.rstrip() + "\n" if has_comments else text[: text.startswith("\ufeff")]
            self.text = before + "{}\n"

    def remove(self, entry: JsonEntry) -> None:
        while (found := _find(self.text, entry)) is not None:
            container, part = found
            node = part.node if isinstance(part, Member) else part
            self.done.removed.append(Removed(entry.path, self.text[node.start : node.end], entry.is_item))
            self.text = remove_part(self.text, container, part)

    def add(self, entry: JsonEntry) -> None:
        path = _container(entry)
        root = _root(self.text)
        container, missing = _descend(root, path)
        if missing:
            self._insert(container, path[: len(path) - len(missing)], missing[0], _nest(missing[1:], entry))
            self.done.created += [path[: len(path) - left] for left in range(len(missing))][::-1]
        elif entry.is_item:
            if container.items is None:
                raise BadRequest(f"{_named(path)} is not a list")
            if any(_same(item.value, entry.value) for item in container.items):
                return
            self._insert(container, path, None, entry.value)
        else:
            member = _as_object(container, path).member(entry.path[-1])
            if member is None:
                self._insert(container, path, entry.path[-1], entry.value)
            elif _same(member.node.value, entry.value):
                return
            else:
                old = self.text[member.node.start : member.node.end]
                self.done.replaced.append(Removed(entry.path, old, False, replacement=entry.value))
                self.text = replace_value(self.text, member.node, json.dumps(entry.value, ensure_ascii=False))
                return
        self.done.added.append(entry)

    def _insert(self, container: Node, path: Path, key: str | None, value: Any) -> None:
        if not container.parts and not any(known == path for known, _ in self.done.blank):
            self.done.blank.append((path, self.text[container.start + 1 : container.end - 1]))
        self.text = insert_part(self.text, find_style(self.text, _root(self.text)), container, key, value)


def _container(entry: JsonEntry | Removed) -> Path:
    """Return the path of the list or object that an entry is in."""
    return entry.path if entry.is_item else entry.path[:-1]


def _nest(keys: Path, entry: JsonEntry) -> Any:
    """Return the value to insert, wrapped in the objects and the list that do not exist yet."""
    value: Any = [entry.value] if entry.is_item else {entry.path[-1]: entry.value}
    for key in reversed(keys):
        value = {key: value}
    return value


def _root(text: str) -> Node:
    root = parse(text)
    if root is None or root.members is None:
        raise BadRequest("the document is not an object in braces")
    return root


def _as_object(node: Node, path: Path) -> Node:
    if node.members is None:
        raise BadRequest(f"{_named(path)} is not an object")
    return node


def _descend(root: Node, path: Path) -> tuple[Node, Path]:
    """Return the deepest existing container on the way to ``path``, and the keys that are missing below it."""
    node = root
    for depth, key in enumerate(path):
        member = _as_object(node, path[:depth]).member(key)
        if member is None:
            return node, path[depth:]
        node = member.node
    return node, ()


def _named(path: Path) -> str:
    return repr(".".join(path)) if path else "the document"


def _node_at(text: str, path: Path) -> Node | None:
    """Return the value at a path; None if there is none. Raises BadRequest if the text is not JSON."""
    node = parse(text)
    for key in path:
        member = None if node is None else node.member(key)
        node = None if member is None else member.node
    return node


def _member(text: str, path: Path) -> Member | None:
    node = _node_at(text, path[:-1])
    return None if node is None else node.member(path[-1])


def _find(text: str, entry: JsonEntry) -> tuple[Node, Member | Node] | None:
    """Return the container and the part that matches this entry, by equality or else by its marker."""
    container = _node_at(text, _container(entry))
    if container is None:
        return None
    if not entry.is_item:
        member = container.member(entry.path[-1])
        return (container, member) if member is not None and _is_entry(member.node, entry) else None
    items = container.items or []
    equal = next((item for item in items if _same(item.value, entry.value)), None)
    item = equal or next((item for item in items if _is_entry(item, entry)), None)
    return None if item is None else (container, item)


def _is_entry(node: Node, entry: JsonEntry) -> bool:
    return _same(node.value, entry.value) or bool(entry.marker and has_mark(_text_of(node.value), entry.marker))


def _text_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _same(first: Any, second: Any) -> bool:
    return _text_of(first) == _text_of(second)


def _remove_ours(text: str, container: Node, part: Member | Node, marker: str) -> str:
    """Remove an entry; if others have put items into its list, remove only the items with the marker.

    Claude Code itself adds a hook to the group that has the same matcher.
    """
    node = part.node if isinstance(part, Member) else part
    for member in node.members or []:
        items = member.node.items or []
        ours = [marker != "" and has_mark(_text_of(item.value), marker) for item in items]
        if any(ours) and not all(ours):
            return remove_part(text, member.node, items[ours.index(True)])
    return remove_part(text, container, part)


def _remove_empty(text: str, path: Path, removable: set[Path]) -> str:
    """Remove the container at ``path``, then its ancestors, as long as they are empty and ``removable``."""
    while path in removable:
        member = _member(text, path)
        if member is None or member.node.parts or text[member.node.start + 1 : member.node.end - 1].strip():
            return text
        container, _ = _descend(_root(text), path[:-1])
        text = remove_part(text, container, container.member(path[-1]) or member)
        path = path[:-1]
    return text


def _remove_emptied(text: str, path: Path) -> str:
    """Remove the container at ``path``, then its ancestors, as long as they are empty."""
    return _remove_empty(text, path, {path[:length] for length in range(1, len(path) + 1)})


def _put_back(text: str, old: Removed) -> str:
    """Insert a removed value, with its original text, at the end of its list or object, unless it is already there."""
    value = parse(old.text)
    entry = JsonEntry(old.path, value.value if value else None, old.is_item)
    if _find(text, entry) is not None:
        return text
    worker = _Applier(text)
    worker.add(entry)
    found = _find(worker.text, entry)
    if found is None:
        return text
    part = found[1]
    return replace_value(worker.text, part.node if isinstance(part, Member) else part, old.text)


def _restore_blanks(text: str, applied: AppliedJson) -> str:
    """Restore the white space of containers that are empty again."""
    for path, inner in applied.blank:
        node = _node_at(text, path)
        is_empty = node is not None and not node.parts and (node.members is not None or node.items is not None)
        if node is not None and is_empty and text[node.start + 1 : node.end - 1].strip() == inner.strip():
            text = text[: node.start + 1] + inner + text[node.end - 1 :]
    root = parse(text)
    if applied.former is not None and root is not None and root.members == []:
        return applied.former
    return text
