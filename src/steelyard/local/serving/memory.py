"""Memory of this machine that a further program can have: what is available, within the limit of its control group."""

from pathlib import Path


def available_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return bytes; 0 where nothing can be read."""
    amounts = [_from_meminfo(proc / "meminfo"), _from_group(groups)]
    known = [amount for amount in amounts if amount is not None]
    return max(0, min(known, default=0))


def _from_meminfo(path: Path) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _from_group(folder: Path) -> int | None:
    """Read the limit of a container, which /proc does not know."""
    try:
        limit, used = (folder / "memory.max").read_text(), (folder / "memory.current").read_text()
    except OSError:
        return None
    return None if limit.strip() == "max" else int(limit) - int(used)
