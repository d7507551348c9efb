"""Measurements of the grants store under stress: scripts whose short form is a test.

Each module runs by itself, for example ``python -m tests.stress.contention --seconds 60``, and prints what it
measured. `tests/unit/grants_cli/test_stress.py` runs each for a second or two.
"""
