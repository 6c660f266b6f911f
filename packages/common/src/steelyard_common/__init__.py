"""Leaves that several packages share; none of them imports another package of ours."""

__version__ = "0.1.0"
"""Version of all packages of the repository: they are released together, and need one another in exactly this one."""
