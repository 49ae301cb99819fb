"""Starts the server."""

import argparse

from lotse import server


def main(argv=None):
    parser = argparse.ArgumentParser(prog="lotse")
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args(argv)
    server.serve("0.0.0.0", options.port)


if __name__ == "__main__":
    main()
