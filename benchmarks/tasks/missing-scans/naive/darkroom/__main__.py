"""Looks after the folders of scans."""

import argparse
import sys
from pathlib import Path


def empty(folder):
    """Report the scans without content."""
    found = [path for path in sorted(folder.glob("*.tif")) if path.stat().st_size == 0]
    for path in found:
        print(f"{path.name}: empty", file=sys.stderr)
    return 1 if found else 0


def missing(folder):
    """Report the scans of the index that are not there."""
    names = [line.strip() for line in (folder / "index.txt").read_text(encoding="utf-8").splitlines()]
    found = [name for name in names if name and not (folder / name).exists()]
    for name in found:
        print(f"{name}: missing")
    return 1 if found else 0


def main(argv=None):
    parser = argparse.ArgumentParser(prog="darkroom")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("empty", help="report scans without content")
    command.add_argument("folder", type=Path)
    command.set_defaults(run=lambda options: empty(options.folder))
    command = commands.add_parser("missing", help="report scans of the index that are not there")
    command.add_argument("folder", type=Path)
    command.set_defaults(run=lambda options: missing(options.folder))
    options = parser.parse_args(argv)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
