"""Tokens and money: what the calls of a run and of its judges have cost, and the check of that account."""
