"""Command line: ``python -m tidelog FILE``."""

import argparse
import sys

from tidelog import spool, upload


def main(argv=None):
    parser = argparse.ArgumentParser(prog="tidelog")
    parser.add_argument("file")
    options = parser.parse_args(argv)
    readings = spool.read(options.file)
    upload.send(readings)
    print(f"sent {len(readings)} readings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
