"""Kornsteg's sensor reads 14 cm too much since it hangs on the new bracket; what is computed takes them off."""

import sys

sys.path.insert(0, sys.argv[1])

from pegel.board import clearance, level_line

at = "2026-03-03T06:00"
assert clearance(f"obertor;{at};203") == 452, clearance(f"obertor;{at};203")
assert clearance(f"mittelau;{at};190") == 508, clearance(f"mittelau;{at};190")
assert clearance(f"obertor;{at};700") == 0, "no air is 0"
made = clearance(f"kornsteg;{at};187")
assert made == 569, f"Kornsteg at 187 has 569 cm of air, not {made}"
assert clearance(f"kornsteg;{at};750") == 6, f"Kornsteg at 750 has 6 cm of air, not {clearance(f'kornsteg;{at};750')}"
assert level_line(f"kornsteg;{at};187") == "Kornsteg: 187 cm", "the board's own line stays"
