"""The check of a report's costs against the spending log of its run."""

from collections.abc import Iterator
from pathlib import Path

import orjson

from steelyard_common.whole_files import TooLarge, parse_json, read_whole
from steelyard_evaluation.report.evidence.files import Check, fault
from steelyard_evaluation.runs.folder import RUN_FILE, RunFolder
from steelyard_evaluation.runs.request import RunRequest
from steelyard_evaluation.runs.spending.accounts import MODEL, accounts, spending
from steelyard_evaluation.runs.spending.spending_log import FOLDER, find_damaged_logs


def check_spending(folder: RunFolder, request: RunRequest | None, numbers: Path) -> Iterator[Check]:
    """A line about tokens and cost; none where the report says nothing of them. Without its run there is no request."""
    try:
        said = parse_json(read_whole(numbers)).get("spending")
    except (OSError, TooLarge, orjson.JSONDecodeError, AttributeError):
        return  # a fault that was reported already
    if not said:
        return
    try:
        spenders = [str(account["name"]) for account in said["accounts"]]
    except (LookupError, TypeError):
        yield fault("what the calls cost: report.json does not say it as Steelyard writes it")
        return
    runs = [folder, *(folder.judge(name) for name in spenders if name != MODEL)]
    lost = [run for run in runs if not (run.path / FOLDER).is_dir()]
    if request is None or lost:
        of_judge = f" of the judge {lost[0].path.name}" if lost and lost[0] is not folder else ""
        missing = f"{FOLDER}/{of_judge}" if lost else RUN_FILE
        yield Check(f"not here: {missing}: what the calls cost is not computed again", "unchecked")
        return
    if damaged := [path for run in runs for path in find_damaged_logs(run)]:
        place = damaged[0].relative_to(folder.path)
        yield fault(f"what the calls cost: {place} is not a spending log")
        return
    again = orjson.loads(orjson.dumps(spending(accounts(folder, request))))
    # Runs of earlier versions counted tokens in the answers.
    if not folder.verified and again["tokens"] < said["tokens"]:
        yield Check("not here: outputs/: what the calls cost is not computed again", "unchecked")
    elif again == said:
        yield Check(f"what the calls cost: {said['tokens']} tokens, as {FOLDER}/ says")
    else:
        yield fault(
            f"what the calls cost: report.json says {said['tokens']} tokens, {FOLDER}/ says {again['tokens']}"
        )
