"""The code is from the range 700 to 799."""

import re
import sys

sys.path.insert(0, sys.argv[1])

from hafen import errors

assert issubclass(errors.QuoteTimeout, errors.HafenError)
assert re.fullmatch(r"HB-7\d\d", errors.QuoteTimeout.code), f"the code is {errors.QuoteTimeout.code}"
