"""Simulations of training jobs in memory, for tests; they are not in the wheel."""
