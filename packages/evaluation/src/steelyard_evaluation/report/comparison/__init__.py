"""Comparison of reports and of runs over the same rows."""
