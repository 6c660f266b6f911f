"""The outcome file, by which the process of a method reports to the step how it ended. It is written last.

Where the file is missing, the method has ended the process.
"""

import os
import resource
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from steelyard_common.processes import end_with_parent
from steelyard_evaluation.analysis.errors import METHOD_FAILED, SAID, AnalysisFailed
from steelyard_evaluation.analysis.workspace import OUTCOME_FILE
from steelyard_schema.faults import place_in

DONE = "Done"
_BYTES = 1 << 20
_MESSAGE = 4096


@dataclass(frozen=True)
class Outcome:
    """End of the process: a code, a message for the user, and whether another attempt would end in the same way."""

    code: str
    message: str
    permanent: bool = True

    def check(self) -> None:
        """Raise AnalysisFailed unless all is done."""
        if self.code != DONE:
            raise AnalysisFailed(self.code, self.message, permanent=self.permanent)


def run_program(work: Callable[[], str]) -> int:
    """Do the work of the process, write its outcome, and return the exit status; `work` returns a message."""
    end_with_parent()
    # A crash of the method would fill the disk with its memory.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    outcome = _outcome(work)
    # A name of a file that is no UTF-8 has characters that JSON cannot hold.
    message = outcome.message[:_MESSAGE].encode(errors="replace").decode()
    Path(os.environ[OUTCOME_FILE]).write_bytes(orjson.dumps(asdict(outcome) | {"message": message}))
    if outcome.code == DONE:
        return 0
    print(f"{outcome.code}: {outcome.message}", file=sys.stderr, flush=True)
    return 1


def read_outcome(path: Path) -> Outcome | None:
    """Return what the process has written; None where it has written nothing that can be read."""
    try:
        if path.is_symlink() or path.stat().st_size > _BYTES:
            return None
        content = orjson.loads(path.read_bytes())
        return Outcome(str(content["code"]), str(content["message"])[:_MESSAGE], bool(content["permanent"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _outcome(work: Callable[[], str]) -> Outcome:
    try:
        return Outcome(DONE, work())
    except AnalysisFailed as error:
        return Outcome(error.code, error.message, error.permanent)
    except BaseException as error:  # noqa: BLE001 - whatever the method raises has to reach the condition
        traceback.print_exc()
        # The last line may be long, and of several lines.
        said = traceback.format_exception_only(error)[-1].strip()
        if place := place_in(error, _module_folders()):
            said = f"{said[:SAID]} ({place})"
        return Outcome(METHOD_FAILED, said, permanent=False)


def _module_folders() -> list[Path]:
    return [Path(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
