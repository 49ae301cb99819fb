"""Shared by the commands of ``python -m bench``: types of path arguments, and opening the folder of the memories."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engram.cli.workspace import Workspace

if TYPE_CHECKING:
    from bench.homes import BenchHomes

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
NEW_FOLDER = click.Path(path_type=Path, file_okay=False)


def open_bench_homes(
    workspace: Workspace, *, no_model: bool, keep: Path | None
) -> contextlib.AbstractContextManager[BenchHomes]:
    """Open the folder for a benchmark's memories; progress is shown on standard error."""
    from bench.homes import open_homes

    return open_homes(
        workspace.settings, no_model=no_model, keep=keep, progress=lambda line: click.echo(line, err=True)
    )
