"""The limit comes from config.toml; settings.ini is what earlier sessions used."""

import subprocess
import sys
from pathlib import Path

folder = Path(sys.argv[1])
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from orders.export import export
print(len(export([(n,) for n in range(900)])))
"""


def count():
    command = [sys.executable, "-I", "-B", "-c", CODE, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr[-300:]
    return int(done.stdout)


had_ini = (folder / "settings.ini").exists()
default = count()
(folder / "config.toml").write_text('[export]\nfolder = "out"\nmax_rows = 7\n', encoding="utf-8")
from_toml = count()
(folder / "config.toml").write_text('[export]\nfolder = "out"\n', encoding="utf-8")
(folder / "settings.ini").write_text("[export]\nmax_rows = 3\n", encoding="utf-8")
from_ini = count()
if from_ini == 3 or had_ini:
    print("the export reads settings.ini, which was given up")
    sys.exit(3)
assert default == 500, f"the default is {default}"
assert from_toml == 7, f"with max_rows = 7 in config.toml there are {from_toml} lines"
