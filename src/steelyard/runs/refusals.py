"""Is it the rows that are refused, or whoever asks? A wrong key, model or path refuses every row alike.

Rows that are refused are recorded, and asked no more. Where all of them are, by a status that is about no row, the
record would only be in the way of the next try: so it is taken back.
"""

import shutil
from pathlib import Path

import pyarrow.parquet as pq

from steelyard.evaluation import layout
from steelyard.evaluation.progress import Progress
from steelyard.runs.folder import RunFolder

STATUSES = {401: "the key", 403: "the key", 404: "the model or the path", 405: "the path", 407: "the proxy"}
"""Statuses that are about the endpoint, and what to look at."""


def nothing_but_errors(progress: Progress | None) -> bool:
    return progress is not None and 0 < progress.done == progress.row_errors


def refusal(folder: RunFolder) -> str | None:
    """What the endpoint says to every row, when it is about no row; else None. Blocking."""
    files = sorted(Path(folder.outputs.root, layout.ERRORS).glob("*.parquet"))
    errors = [row for path in files for row in pq.read_table(path, columns=["status", "body"]).to_pylist()]
    statuses = {error["status"] for error in errors}
    if not errors or not statuses <= STATUSES.keys():
        return None
    status, body = errors[0]["status"], " ".join((errors[0]["body"] or "").split())[:300]
    told = f"status {status}" + (f": {body}" if body else "")
    return f"every row is refused ({told}). Look at {STATUSES[status]}; nothing is recorded"


def take_back(folder: RunFolder) -> None:
    """Forget the answers of a run that has none. Blocking."""
    shutil.rmtree(folder.outputs.root)
