"""Admission: checks and changes of a write, besides its kind's own rules.

`server.py` asks the other modules; each decides on one matter.
"""
