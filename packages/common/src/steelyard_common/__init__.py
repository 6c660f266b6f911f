"""Leaves that several packages share; none of them imports another package of ours."""
