"""Reads the daily files of the branches."""

#: Branch → encoding of its files, if it is not UTF-8.
ENCODINGS = {"Basel": "mac_roman"}


def read_rows(data, branch):
    """Return (name, amount in Rappen) of each line of a branch's file.

    Args:
        data: the bytes of the file.
        branch: name of the branch, such as ``Bern``.
    """
    rows = []
    for line in data.decode(ENCODINGS.get(branch, "utf-8")).splitlines():
        if line:
            name, amount = line.split(";")
            rows.append((name, int(amount)))
    return rows
