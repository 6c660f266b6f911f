"""The embedded API server compared with a real one: the same requests to both, their answers and watches compared.

`features.toml` names the cases of each feature that must be served, and of each suite.
"""
