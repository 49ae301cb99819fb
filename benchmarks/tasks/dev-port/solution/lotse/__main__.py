"""Starts the server."""

import argparse

from lotse import server

#: The port that the tablets' network lets through.
DEFAULT_PORT = 8473


def main(argv=None):
    parser = argparse.ArgumentParser(prog="lotse")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT)
    options = parser.parse_args(argv)
    server.serve("0.0.0.0", options.port)


if __name__ == "__main__":
    main()
