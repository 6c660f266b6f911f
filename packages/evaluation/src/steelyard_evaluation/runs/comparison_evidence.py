"""Checks a saved page of `eval compare` against the runs that it compares. `steelyard report verify` calls it.

It first says what cannot be checked. Digests of the runs' files come before the numbers, which are computed again from
the runs, as the page is drawn again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_common.whole_files import read_whole
from steelyard_evaluation.report.comparison.runs import ComparedRuns, comparison_json
from steelyard_evaluation.report.evidence.files import Check, fault, file_fault, leads_out
from steelyard_evaluation.report.evidence.lone_page import check_scripts, check_shown, parse_json
from steelyard_evaluation.report.page.page import numbers_inside, numbers_json
from steelyard_evaluation.runs.compare import compare_runs, page
from steelyard_evaluation.storage.digest import file_sha256

KIND = "comparison_runs"


def is_comparison(page: bytes) -> bool:
    """Return whether a page was made by `eval compare`."""
    return numbers_inside(page, KIND) is not None


def verify_comparison(path: Path, base: Path) -> Iterator[Check]:
    """Yield every check of the page; its runs are looked for in `base`, by the names that the page has for them.

    A name that is not there is looked for by its last part, as is one that leads out of `base`: the page may come
    from anybody. One that ends with `..` lacks it, and its run is not here.
    """
    content = read_whole(path)
    numbers = parse_json(numbers_inside(content, KIND))
    yield Check(
        "a comparison has no signature: a change of the page and of all its runs together is not noticed",
        "unchecked",
    )
    yield Check("the scores are not made again: that is a check of each run's own report.html", "unchecked")
    if not _is_of_runs(numbers):
        yield fault(f"{path.name}: has no numbers of a comparison in it")
        return
    places = [_folder(name, base) for name in _names(numbers)]
    folders = [folder for folder in places if folder is not None and folder.is_dir()]
    for run, place in zip(numbers["runs"], places, strict=True):
        if place not in folders:
            why = (
                "ends with no name of a folder; compare the runs again by their names"
                if place is None
                else f"the folder of this run is not in {base}; name the folder that it is in with --results DIR"
            )
            yield Check(f"not here: {run['letter']}: {run['name']}: {why}", "unchecked")
    yield from check_scripts(content)
    evidence = [entry for run in numbers["runs"] for entry in run["evidence"]]
    yield from check_shown(content, numbers, evidence)
    faults = False
    digest_of = cache(file_sha256)  # an edited page may name one large file a thousand times
    for run, place in zip(numbers["runs"], places, strict=True):
        if place is not None and place in folders:
            for check in _check_files(run, place, digest_of):
                faults |= check.state == "fault"
                yield check
    if faults or len(folders) < len(places):
        why = "files of the runs were changed" if faults else "not all runs are here"
        yield Check(f"comparing again: is not possible, because {why}", "unchecked")
        return
    yield from _compare_again(path.name, content, numbers, folders)


def _folder(name: str, base: Path) -> Path | None:
    """Return where the run of this name is looked for; None for a name whose last part leads out of `base`, too."""
    last = Path(name).name
    if not leads_out(name) and ((base / name).is_dir() or not last):
        return base / name
    return None if last in {"", ".."} else base / last


def _check_files(run: JsonValue, folder: Path, digest_of: Callable[[Path], str]) -> Iterator[Check]:
    for entry in run["evidence"]:
        what = f"{run['letter']}: {entry['what']}"
        wrong = file_fault(entry, folder / entry["path"], digest_of)
        yield (
            fault(f"{what}: {wrong}")
            if wrong
            else Check(f"{what}: {entry['path']}, SHA-256 {entry['sha256'][:12]}…")
        )


def _compare_again(name: str, content: bytes, numbers: JsonValue, folders: Sequence[Path]) -> Iterator[Check]:
    try:
        compared = compare_runs(folders, numbers["rubric"])
        # The column of the clusters is the first run's own, or was named.
        if compared.cluster != numbers["clusterBy"]:
            compared = compare_runs(folders, numbers["rubric"], numbers["clusterBy"])
    except UsageError as error:
        yield fault(f"comparing again: {error}")
        return
    compared = _rename(compared, _names(numbers))
    again = parse_json(numbers_json(comparison_json(compared)))
    yield (
        Check(f"{name}: its numbers computed again are the same")
        if again == numbers
        else fault(f"{name}: holds other numbers than those computed again from the runs")
    )
    yield (
        Check(f"{name}: drawn again, is the same byte for byte")
        if page(compared, folders[0]) == content
        else fault(f"{name}: is not the page that these runs give")
    )


def _rename(compared: ComparedRuns, names: Sequence[str]) -> ComparedRuns:
    """Return the comparison with the names that the page has for the runs."""
    first, *others = names
    return replace(
        compared,
        first=replace(compared.first, name=first),
        others=tuple(
            replace(run, side=replace(run.side, name=name))
            for run, name in zip(compared.others, others, strict=True)
        ),
    )


def _names(numbers: JsonValue) -> list[str]:
    return [run["name"] for run in numbers["runs"]]


def _is_of_runs(numbers: JsonValue) -> bool:
    """Return whether the numbers are shaped as a comparison's."""
    return (
        isinstance(numbers, dict)
        and {"rubric", "clusterBy", "runs"} <= numbers.keys()
        and isinstance(numbers["rubric"], str)
        and isinstance(numbers["clusterBy"], str | None)
        and isinstance(numbers["runs"], list)
        and len(numbers["runs"]) > 1
        and all(
            isinstance(run, dict)
            and all(isinstance(run.get(name), str) for name in ("letter", "name"))
            and isinstance(run.get("evidence"), list)
            and all(
                isinstance(entry, dict)
                and all(isinstance(entry.get(name), str) for name in ("what", "path", "sha256"))
                for entry in run["evidence"]
            )
            for run in numbers["runs"]
        )
    )
