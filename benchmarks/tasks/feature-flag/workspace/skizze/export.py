"""Writes sketches as files."""


class FeatureDisabled(Exception):
    """This feature is not switched on."""


def export_txt(lines):
    """Return a sketch as text: one line for each stroke."""
    return "\n".join(f"{x1},{y1} {x2},{y2}" for x1, y1, x2, y2 in lines)


def export_svg(lines):
    """Return a sketch as SVG. New; not tested by users."""
    strokes = "".join(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>' for x1, y1, x2, y2 in lines)
    return f'<svg xmlns="http://www.w3.org/2000/svg">{strokes}</svg>'
