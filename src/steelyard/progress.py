"""Progress and results of a training program, written in a form that is read outside: `steelyard train`.

    from steelyard.progress import report, result

    for step, batch in enumerate(batches, 1):
        ...
        report(step=step, total=len(batches), loss=loss)
    result(accuracy=0.97)

Needs Python 3.8 and nothing else: where Steelyard is not installed, copy this file next to the program. Nothing here
raises: a report that cannot be written is dropped, and training goes on.

A report is a line `{"progress": {"step": 120, "total": 1000, "loss": 0.31}}` on standard output, or in the file that
STEELYARD_PROGRESS_FILE names. Any program may print such lines itself. Between two lines pass at least
STEELYARD_PROGRESS_SECONDS (0.5); of the reports in between the newest is kept, and written at the end.
"""

import atexit
import json
import math
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, Optional  # noqa: UP035 - old Pythons train, too

TERMINATION_LOG = "/dev/termination-log"
RESULT_BYTES = 4000
"""A container's last words are cut at 4096 bytes; a message that is cut is not JSON any more."""


def report(step: Optional[int] = None, total: Optional[int] = None, **values: Any) -> None:  # noqa: UP045
    """Say how far the program is: step of total (or epoch of epochs), and any numbers or short texts.

    Values may be numbers, texts, or arrays and tensors of one element.
    """
    try:
        _REPORTER.report({"step": step, "total": total, **values})
    except Exception:  # noqa: BLE001 - nothing that is only said may end what is done
        return


def result(**values: Any) -> None:
    """Say what came of the training. It goes into the job's status, and `steelyard train` shows it.

    Written as the container's last words: called again, it replaces the earlier message. 4000 bytes at most.
    """
    try:
        _write_result(_plain(values))
    except Exception:  # noqa: BLE001
        return


class _Reporter:
    """Writes at most one line in `seconds`, and never loses the newest."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        write: Optional[Callable[[str], None]] = None,  # noqa: UP045
    ) -> None:
        self._clock, self._write = clock, write or _write
        self._lock = threading.Lock()
        self._seconds = _number(os.environ.get("STEELYARD_PROGRESS_SECONDS"), 0.5)
        self._next = float("-inf")
        self._kept: Optional[Dict[str, Any]] = None  # noqa: UP006, UP045

    def report(self, values: Dict[str, Any]) -> None:  # noqa: UP006
        with self._lock:
            self._kept = values
            last = values.get("step") is not None and values.get("step") == values.get("total")
            if last or self._clock() >= self._next:
                self._next = self._clock() + self._seconds
                self._flush()

    def close(self) -> None:
        """The newest report, where it is not written yet."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if self._kept is not None:
            values, self._kept = _plain(self._kept), None
            self._write(json.dumps({"progress": values}))


def _plain(values: Dict[str, Any]) -> Dict[str, Any]:  # noqa: UP006
    """Return the values in a form that JSON can express; values of None are left out."""
    return {name: _value(value) for name, value in values.items() if value is not None}


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value[:1000] if isinstance(value, str) else value
    if isinstance(value, dict):
        return {str(name): _value(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(item) for item in value]
    try:
        return _value(value.item())  # an array or tensor of one element
    except Exception:  # noqa: BLE001 - whatever it is, it has a text
        return str(value)[:1000]


def _write(line: str) -> None:
    path = os.environ.get("STEELYARD_PROGRESS_FILE")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")
        return
    sys.stdout.write(line + "\n")  # in one piece: others write there, too
    sys.stdout.flush()


def _write_result(values: Dict[str, Any]) -> None:  # noqa: UP006
    text = json.dumps(values)
    if len(text.encode()) > RESULT_BYTES:
        sys.stderr.write(
            f"steelyard.progress: the result has more than {RESULT_BYTES} bytes and is dropped\n"
        )
        return
    # Where a machine cannot mount files, its kubelet says in which file the last words really go.
    moved = json.loads(os.environ.get("STEELYARD_MOUNTS") or "{}")
    path = moved.get(TERMINATION_LOG, TERMINATION_LOG)
    if os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        _write(json.dumps({"result": values}))


def _number(text: Optional[str], default: float) -> float:  # noqa: UP045
    try:
        return float(text) if text else default
    except ValueError:
        return default


_REPORTER = _Reporter()
atexit.register(_REPORTER.close)
