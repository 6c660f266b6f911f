"""Runs of an evaluation on one machine: what `steelyard eval` does, without a platform.

Above the engine and the reports, below the command line.
"""
