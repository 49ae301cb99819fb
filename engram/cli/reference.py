"""The reference pages, made from the program itself: ``python -m engram.cli.reference docs/reference .``."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from engram.cli.main import engram
from engram.cli.service_files import example_files
from engram.settings import Settings

_MADE = "<!-- Made by `python -m engram.cli.reference docs/reference`; change the program, not this page. -->\n"


def pages() -> dict[str, str]:
    """File name → text of every reference page."""
    return {
        "commands.md": commands_page(),
        "settings.md": settings_page(),
        "tasks.md": tasks_page(),
        "tools.md": tools_page(),
    }


def commands_page() -> str:
    """Every command with its help and its options."""
    parts = [_MADE, "# Commands\n"]
    parts += [_command_text("engram", engram)]
    parts += [_command_text(f"engram {name}", command) for name, command in subcommands(engram)]
    parts += ["## Exit codes\n", "0: well. 1: an expected failure, one line on stderr says which. 2: the command line cannot "
              "be understood. 70: a fault in Engram, the log has the traceback. 75: the worker asks to be started again. "
              "130: ended by Ctrl-C.\n"]  # fmt: skip
    return "\n".join(parts)


def subcommands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """``(name without engram, command)`` of every command below a group."""
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        yield f"{prefix}{name}", command
        if isinstance(command, click.Group):
            yield from subcommands(command, f"{prefix}{name} ")


def _command_text(name: str, command: click.Command) -> str:
    ctx = click.Context(command, info_name=name)
    lines = [f"## {name}\n", inspect.cleandoc(command.help or ""), ""]
    lines += ["```", " ".join([name, *command.collect_usage_pieces(ctx)]), "```", ""]
    own = [one for one in command.params if one.name != "help"]
    records = [record for one in own if (record := one.get_help_record(ctx)) is not None]
    lines += [f"- `{option}`: {' '.join(text.split())}" for option, text in records]
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """Every setting with its default and what it means, as it stands beside the setting."""
    lines = [_MADE, "# Settings\n", "Each has a flag (`--set name=value`), a variable (`ENGRAM_<NAME>`) and a line in "
             "`config.toml` in the memory folder, in this order; lists are separated by commas. "
             "`engram config` shows what holds and why.\n"]  # fmt: skip
    for kind, name, text in _setting_lines():
        if kind == "section":
            lines += ["", f"## {text}", "", "| setting | default | |", "|---|---|---|"]
        else:
            lines += [f"| `{name}` | {_default(name)} | {text} |"]
    return "\n".join(lines) + "\n"


def _setting_lines() -> Iterator[tuple[str, str, str]]:
    """``(section or setting, name, text)`` in the order of the source."""
    yield "section", "", "Places"
    text: list[str] = []
    for line in inspect.getsource(Settings).splitlines():
        if found := re.match(r"    #: (.*)", line):
            text.append(found[1])
        elif found := re.match(r"    # (.*)", line):
            yield "section", "", found[1]
        elif found := re.match(r"    (\w+): ", line):
            yield "setting", found[1], " ".join(text)
            text = []
        elif "def " in line:
            return


def _default(name: str) -> str:
    places = {"home": "`~/.claude-memory`", "claude_folder": "`CLAUDE_CONFIG_DIR` or `~/.claude`"}
    if name in places:
        return places[name]
    value: Any = next(one.default for one in dataclasses.fields(Settings) if one.name == name)
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return ", ".join(f"`{one}`" for one in value) or "none"
    return f"`{value}`" if value != "" else "none"


def tasks_page() -> str:
    """Every task of the queue."""
    from engram.tasks.queue import huey, import_tasks

    import_tasks()
    lines = [_MADE, "# Tasks\n", "A task carries ids, never text; every task may run twice or never: what is due stands in "
             "memory.db, the queue only rings.\n", "| task | |", "|---|---|"]  # fmt: skip
    tasks = {name: huey._registry.string_to_task(name) for name in huey._registry._registry}
    for name in sorted(tasks):
        lines.append(f"| `{name}` | {_first_line(tasks[name].__doc__)} |")
    huey.storage.close()
    return "\n".join(lines) + "\n"


def tools_page() -> str:
    """Every tool of the MCP server."""
    from engram_mcp.access import Access
    from engram_mcp.server import INSTRUCTIONS, build_server

    server = build_server(Access(Settings(), "/"))
    lines = [_MADE, "# MCP tools\n", f"What the agent is told: {INSTRUCTIONS}\n"]
    for tool in sorted(server.tools.values(), key=lambda one: one.name):
        lines += [f"## {tool.name}\n", str(tool.description), ""]
        needed = tool.input_schema.get("required", [])
        for name, schema in tool.input_schema.get("properties", {}).items():
            about = [schema.get("description", ""), "needed" if name in needed else f"default: {schema.get('default')}"]
            lines.append(f"- `{name}`: {'; '.join(one for one in about if one)}")
        lines.append("")
    return "\n".join(lines)


def _first_line(text: str | None) -> str:
    return " ".join((text or "").strip().split("\n\n")[0].split())


def main(arguments: list[str]) -> int:
    """Write the pages into the folder that is named, and the examples of service files into the second one."""
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, data in example_files().items() if len(arguments) > 1 else ():
        path = Path(arguments[1]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
