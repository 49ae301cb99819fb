"""SKIZZE_LABS is a list of names; export-svg switches the export on."""

import os
import subprocess
import sys

CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from skizze.export import FeatureDisabled, export_svg
try:
    print(export_svg([(0, 0, 1, 2)]))
except FeatureDisabled:
    print("disabled")
"""


def run(value):
    environment = {name: text for name, text in os.environ.items() if name != "SKIZZE_LABS"}
    if value is not None:
        environment["SKIZZE_LABS"] = value
    command = [sys.executable, "-I", "-c", CODE, sys.argv[1]]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30).stdout.strip()


for value in (None, "", "other-thing", "export-txt"):
    assert run(value) == "disabled", f"SKIZZE_LABS={value!r}: {run(value)!r}"
for value in ("export-svg", "other-thing,export-svg"):
    assert run(value).startswith("<svg"), f"SKIZZE_LABS={value!r}: {run(value)!r}"
