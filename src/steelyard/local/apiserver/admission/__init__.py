"""Admission: what a write must pass, and what is added to it, besides its kind's own rules.

`server.py` asks the other modules, each of which decides on one matter.
"""
