"""The command line."""

import argparse
import json
import sys
import tomllib


def main():
    parser = argparse.ArgumentParser(prog="kassa")
    parser.add_argument("file", help="entries as JSON")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    try:
        with open("kassa.toml", "rb") as file:
            tomllib.load(file)
    except FileNotFoundError as error:
        sys.exit(f"kassa: {error.filename} is missing")
    with open(options.file, encoding="utf-8") as file:
        print(len(json.load(file)), "entries")


if __name__ == "__main__":
    main()
