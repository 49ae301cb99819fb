"""The byte order is that of the other frame; the branch that turned it round was never merged."""

import sys

sys.path.insert(0, sys.argv[1])

from funk.wire import encode_reading, encode_status

made = encode_status(0x0102, 0x0BB8, -2).hex()
if made == "020201b80bfeff" or encode_reading(0x0102, 5).hex() != "01010200000005":
    print("the byte order of a branch that was not merged")
    sys.exit(3)
assert made == "0201020bb8fffe", made
