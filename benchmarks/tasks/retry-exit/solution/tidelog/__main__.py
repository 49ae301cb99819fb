"""Command line: ``python -m tidelog FILE``."""

import argparse
import sys

from tidelog import spool, upload

#: nightwatch starts the program again a while after this status; after any other failure it raises the alarm.
TRY_AGAIN = 93


def main(argv=None):
    parser = argparse.ArgumentParser(prog="tidelog")
    parser.add_argument("file")
    options = parser.parse_args(argv)
    try:
        readings = spool.read(options.file)
    except ValueError as error:
        print(f"tidelog: {error}", file=sys.stderr)
        return 1
    try:
        upload.send(readings)
    except OSError as error:
        print(f"tidelog: the server can't be reached: {error}", file=sys.stderr)
        return TRY_AGAIN
    print(f"sent {len(readings)} readings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
