"""How long tests wait for a condition before they give up.

No test is about this time: it only ends a test whose condition never comes true. So it is far more than a busy machine
needs. What must be fast is measured by a benchmark (docs/benchmarks.md).
"""

PATIENCE = 240.0
"""Seconds; less than the longest lease. On an idle machine most conditions come true within one."""
