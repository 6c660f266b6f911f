"""The check of a report's costs against the spending log of its run."""

from collections.abc import Iterator
from pathlib import Path

import orjson

from steelyard.report.evidence.files import Check, fault
from steelyard.runs.folder import RunFolder
from steelyard.runs.request import RunRequest
from steelyard.runs.spending.accounts import accounts, spending
from steelyard.runs.spending.spending_log import FOLDER


def spent_again(folder: RunFolder, request: RunRequest, numbers: Path) -> Iterator[Check]:
    """A line about tokens and cost; none where the report says nothing of them."""
    try:
        said = orjson.loads(numbers.read_bytes()).get("spending")
    except (OSError, orjson.JSONDecodeError, AttributeError):
        return  # a fault that was reported already
    if not said:
        return
    if not (folder.path / FOLDER).is_dir():
        yield Check(f"not here: {FOLDER}/: what the calls cost is not computed again", "unchecked")
        return
    again = orjson.loads(orjson.dumps(spending(accounts(folder, request))))
    if again == said:
        yield Check(f"what the calls cost: {said['tokens']} tokens, as {FOLDER}/ says")
    else:
        yield fault(
            f"what the calls cost: report.json says {said['tokens']} tokens, {FOLDER}/ says {again['tokens']}"
        )
