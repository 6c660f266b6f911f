"""Comparison of a model's files with the digests that a report's evidence has of them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeGuard

from steelyard_common.types import JsonValue
from steelyard_evaluation.report.evidence.files import MOST_NAMED, Check, ReportFolders, fault, read_bytes
from steelyard_evaluation.report.evidence.lone_page import parse_json
from steelyard_evaluation.report.layout import NUMBERS
from steelyard_evaluation.report.page.document import MODEL
from steelyard_evaluation.report.wording import count
from steelyard_evaluation.storage.digest import sha256_of_all
from steelyard_schema.names import OWN_RECORDS
from steelyard_schema.paths import BadFolder, files_below

GGUF = ".gguf"


def check_served_model(folders: ReportFolders) -> Iterator[Check]:
    """Compare the model of these folders, if there is one, with the report's evidence."""
    if folders.model is None:
        return
    numbers = parse_json(read_bytes(folders.report / NUMBERS))
    evidence = numbers.get("evidence") if isinstance(numbers, dict) else None
    if not isinstance(evidence, list):
        yield fault(f"{folders.model}: there is no {NUMBERS} that names the model's files")
        return
    yield from check_model(evidence, folders.model)


def check_model(evidence: Sequence[JsonValue], model: Path) -> Iterator[Check]:
    """Say which files of a model differ from those that were served, are missing, or were not there.

    Every file is read; digests that were kept from earlier commands are not believed.
    """
    served = {
        entry["path"]: entry["sha256"]
        for entry in evidence
        if _names_a_file(entry) and entry["what"] == MODEL and not entry["path"].startswith(OWN_RECORDS)
    }
    if not served:
        yield fault(
            f"{model}: the report does not say which model files were served, so these cannot be compared"
        )
        return
    if not model.exists():
        yield fault(f"{model}: there is no such folder or file")
        return
    try:
        here = {path.relative_to(model).as_posix(): path for path in files_below(model)}
    except BadFolder as error:
        yield fault(str(error))
        return
    if model.is_file():
        here = {model.name: model}
    same = sorted(here.keys() & served.keys())
    try:
        digests = sha256_of_all([here[name] for name in same])
    except OSError as error:
        yield fault(f"{model}: {error.filename}: {error.strerror}")
        return
    differing = [name for name, digest in zip(same, digests, strict=True) if digest != served[name]]
    own = dict(zip(same, digests, strict=True))
    yield from _list_faults(
        [
            f"{name} differs: SHA-256 {own[name][:12]}…, the report has {served[name][:12]}…"
            for name in differing
        ]
    )
    yield from _list_faults([f"{name} is missing" for name in sorted(served.keys() - here.keys())])
    yield from _extra(sorted(here.keys() - served.keys()), served)
    if right := len(same) - len(differing):
        yield Check(
            f"{MODEL}: {count(right)} of {count(len(served))} files have the SHA-256 of what was served"
        )


def _names_a_file(entry: JsonValue) -> TypeGuard[Mapping[str, str]]:
    """Return whether an entry has what a file's has; the report may have been edited."""
    return isinstance(entry, dict) and all(
        isinstance(entry.get(name), str) for name in ("what", "path", "sha256")
    )


def _extra(names: Sequence[str], served: Mapping[str, str]) -> Iterator[Check]:
    """A server of a whole folder may read any file in it; one of GGUF reads the files of its model alone."""
    sentences = [f"{name} is extra: it was not there when the model was served" for name in names]
    if all(name.endswith(GGUF) for name in served):
        if names:
            yield Check(
                f"{MODEL}: {count(len(names))} files other than those of the model were not read", "unchecked"
            )
        return
    yield from _list_faults(sentences)


def _list_faults(sentences: Sequence[str]) -> Iterator[Check]:
    yield from (fault(f"{MODEL}: {sentence}") for sentence in sentences[:MOST_NAMED])
    if len(sentences) > MOST_NAMED:
        yield fault(f"{MODEL}: {count(len(sentences) - MOST_NAMED)} more such files")
