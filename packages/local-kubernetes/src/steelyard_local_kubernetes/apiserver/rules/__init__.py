"""Rules of the built-in kinds, one module per family of kinds: how objects are completed and checked, as the
real server does it.
"""
