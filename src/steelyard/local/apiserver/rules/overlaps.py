"""Files of one volume of which one hides another. `pod_warnings.py` warns of them."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

File = tuple[str, str]  # a path, and words for where it comes from


def overlaps(files: list[File]) -> Iterator[tuple[File, File]]:
    """Yield each file with each earlier one that has its path or lies above or below it; every pair once.

    The time grows with the files and the pairs that are asked for, whatever a client has sent.
    """
    files = [(path.rstrip("/"), source) for path, source in files]
    above = _nearest_above({path for path, _ in files if path})
    different: list[File] = []
    at: defaultdict[str, list[int]] = defaultdict(list)  # indexes in `different` of files with a path
    below: defaultdict[str, list[int]] = defaultdict(list)
    compared: dict[File, int] = {}
    for file in files:
        if not file[0]:
            continue
        higher, folder = [], above[file[0]]
        while folder is not None:
            higher.append(folder)
            folder = above[folder]
        related = [*(at[path] for path in higher), at[file[0]], below[file[0]]]
        # Of a file that is there twice the second one is compared with those between them alone.
        first = compared.get(file, 0)
        for index in sorted(index for indexes in related for index in indexes[bisect_left(indexes, first) :]):
            yield file, different[index]
        if file not in compared:
            at[file[0]].append(len(different))
            for path in higher:
                below[path].append(len(different))
            compared[file] = len(different)
            different.append(file)
        else:
            compared[file] = len(different)


def _nearest_above(paths: set[str]) -> dict[str, str | None]:
    """Return of each path the longest other one that is a folder above it."""
    above: dict[str, str | None] = {}
    stack: list[str] = []
    # In this order all that lies below a path follows it at once.
    for path in sorted(paths, key=lambda path: f"{path}/"):
        while stack and not path.startswith(f"{stack[-1]}/"):
            stack.pop()
        above[path] = stack[-1] if stack else None
        stack.append(path)
    return above
