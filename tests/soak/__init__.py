"""A mixed load under constant faults, and its balance sheet: ``python -m tests.soak``."""
