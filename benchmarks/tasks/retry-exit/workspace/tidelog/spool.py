"""Files of readings."""


def read(path):
    """Return the readings of a file as (gauge, time, centimetres).

    Raises:
        ValueError: a line has not three fields, or its level is no number.
    """
    readings = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                gauge, time, level = line.split()
                readings.append((gauge, time, int(level)))
            except ValueError:
                raise ValueError(f"{path}, line {number}: {line.strip()!r} is no reading") from None
    return readings
