"""Reads the daily files of the branches."""


def read_rows(data, branch):
    """Return (name, amount in Rappen) of each line of a branch's file.

    Args:
        data: the bytes of the file.
        branch: name of the branch, such as ``Bern``.
    """
    rows = []
    for line in data.decode("utf-8").splitlines():
        if line:
            name, amount = line.split(";")
            rows.append((name, int(amount)))
    return rows
