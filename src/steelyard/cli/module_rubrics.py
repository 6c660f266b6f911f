"""The option `--module` of `report verify` and `audit verify`: folders of modules whose rubrics scored the reports."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ModuleOption = Annotated[
    list[Path] | None,
    typer.Option(
        help="Folder of a module that has the rubric of a report: its code is run, with your rights. May be repeated.",
        metavar="FOLDER",
    ),
]


def find_rubrics(modules: Sequence[Path], reports: Iterable[Path]) -> "tuple[EntryPoint, ...]":
    """Return the installed rubrics, and those of the reports that code of modules has, which is imported.

    `reports` are paths of the files report.json. Raises UsageError for a rubric that is neither installed nor in the
    modules, and for one whose code cannot be imported.
    """
    import sys

    from steelyard_common.errors import UsageError

    for folder in modules:
        if not folder.is_dir():
            raise UsageError(f"--module {folder}: there is no such folder")
        sys.path.insert(0, str(folder.absolute()))
    names = dict.fromkeys(name for report in reports for name in _rubric_names(report))
    return tuple(dict.fromkeys(point for name in names for point in _list_known(name, modules)))


def _rubric_names(report: Path) -> list[str]:
    from steelyard_common.whole_files import TooLarge, parse_json, read_whole

    try:
        names = parse_json(read_whole(report))["scoring"]["rubrics"]
        return [name for name in names if isinstance(name, str)]
    # The checks report what is wrong with the file.
    except (OSError, TooLarge, ValueError, LookupError, TypeError):
        return []


def _list_known(rubric: str, modules: Sequence[Path]) -> "tuple[EntryPoint, ...]":
    """Return the rubrics among which `rubric` is found."""
    from steelyard_common.errors import UsageError
    from steelyard_evaluation.analysis.errors import AnalysisFailed
    from steelyard_evaluation.analysis.rubrics import find_rubrics
    from steelyard_schema.faults import exception_line

    option = f"--module {', '.join(map(str, modules))}"
    name = rubric.partition("?")[0]
    # A report may come from others: it must not choose which of the installed packages are imported.
    if "." in name and not _is_installed(name) and not _is_in(name, modules):
        raise UsageError(f"{option}: rubric {name!r}: there is no module {name.partition('.')[0]!r} in it")
    try:
        return find_rubrics(rubric)
    except AnalysisFailed as error:
        raise UsageError(f"{option}: {error.message}") from error
    # The code of the module may raise anything, and may also end the process.
    except (Exception, SystemExit) as error:
        module = name.rpartition(".")[0]
        line = exception_line(error, [folder.absolute() for folder in modules])
        raise UsageError(f"{option}: importing {module} failed: {line}") from error


def _is_installed(rubric: str) -> bool:
    from steelyard_evaluation.report.rubrics.find import list_installed

    return any(point.name == rubric for point in list_installed())


def _is_in(rubric: str, modules: Sequence[Path]) -> bool:
    """Return whether the outermost package of a rubric would be imported from one of the folders alone."""
    from importlib.util import find_spec

    try:
        spec = find_spec(rubric.partition(".")[0])
    except ValueError:  # an empty name, or a module that was made by hand
        return False
    if spec is None:
        return False
    # A package has folders, of which one without __init__.py may have several.
    places = spec.submodule_search_locations or [spec.origin or ""]
    folders = [folder.absolute() for folder in modules]
    return all(any(Path(place).absolute().is_relative_to(folder) for folder in folders) for place in places)
