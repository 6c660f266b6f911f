"""`python -m steelyard_evaluation.runs.prompts.confined_process`: renders one template for its parent process."""

import json
import pickle
import resource
import sys
from pathlib import Path
from typing import Any, BinaryIO

from steelyard_common.errors import UsageError
from steelyard_evaluation.runs.prompts.compiled import CompiledTemplate, TemplateFault


def main() -> None:
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    _say(answers, "ready", "")
    template: CompiledTemplate | None = None
    while (question := _next(questions)) is not None:
        try:
            if template is None:
                text, name, line, room = question
                _limit_memory(room)
                template = CompiledTemplate(text, name, line)
                _say(answers, "ready", "")
            else:
                _say(answers, "text", template(question))
        except (TemplateFault, UsageError) as error:
            memory = isinstance(error.__cause__, MemoryError)
            _say(answers, "fault", f"{error}: there is no more memory for it" if memory else str(error))
        except MemoryError:
            _say(answers, "fault", "the template needs more memory than it may take")
        except RecursionError:
            _say(answers, "fault", "the template is nested too deep")


def _next(questions: BinaryIO) -> Any:
    length = questions.read(8)
    return pickle.loads(questions.read(int.from_bytes(length, "big"))) if length else None


def _say(answers: BinaryIO, status: str, text: str) -> None:
    answers.write(json.dumps([status, text]).encode() + b"\n")
    answers.flush()


def _limit_memory(room: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + room
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
