"""Tools for tests of programs that extend Steelyard: contract suites and in-memory systems.

docs/testing.md shows how to use them.
"""
