"""Histories of a log with repetitions and crashes, for tests of services."""
