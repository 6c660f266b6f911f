"""Simulations of the operator in memory, for tests; they are not in the wheel."""
