"""Room for connections: a process may open so many files, and every call in flight takes one of them."""

import resource

RESERVED = 128
"""Files that are kept for all but calls: the dataset, parts of the output, logs, libraries."""
MOST = 1 << 16


def connection_room() -> int:
    """Raise this process's limit of open files, and return the number of calls that it leaves room for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        # Many systems begin with 1,024 for the sake of programs that use select(); asyncio does not.
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    return max(1, (allowed if soft == resource.RLIM_INFINITY else soft) - RESERVED)
