"""For all tests: nothing is kept in the home of whoever runs them."""

import os

os.environ["MAAR_HISTORY"] = "none"
