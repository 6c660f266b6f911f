"""Reads a folder of manifests for `steelyard run` and gives every resource in it a fresh id and name."""

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from steelyard.cli.lists import list_items
from steelyard_common.bounded_yaml import fault_text, load_all
from steelyard_common.errors import UsageError
from steelyard_common.types import Json
from steelyard_common.whole_files import read_whole
from steelyard_schema.definitions import find_spec_schema
from steelyard_schema.unknown_fields import unknown_fields


@dataclass(frozen=True)
class Manifest:
    """One document of a file."""

    file: Path
    content: Json

    @property
    def kind(self) -> str:
        return str(self.content["kind"])

    @property
    def name(self) -> str:
        return str(self.content["metadata"]["name"])


def read_manifests(folder: Path) -> list[Manifest]:
    """Every document of the folder's YAML files, in the order of the files' names.

    Raises UsageError, which names the file and the field, for a document that is not a manifest.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; it should hold manifests (*.yaml)")
    files = sorted(path for path in folder.iterdir() if path.suffix in {".yaml", ".yml"})
    manifests = [manifest for file in files for manifest in _documents(file)]
    if not manifests:
        raise UsageError(f"{folder}: holds no manifest (*.yaml)")
    return manifests


def _documents(file: Path) -> list[Manifest]:
    try:
        documents = [document for document in load_all(read_whole(file).decode()) if document is not None]
    # ValueError: text that is not UTF-8, and dates that there are not, which YAML reads as dates.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{file}: is not YAML: {fault_text(error)}") from error
    manifests = []
    for number, document in enumerate(documents, 1):
        for where, item in list_items(document, f"{file} (document {number})"):
            check_manifest(where, item)
            manifests.append(Manifest(file, item))
    return manifests


def check_manifest(where: str, document: object) -> None:
    """Raise UsageError for a document that is not a manifest, and for fields of its spec that its kind does not
    have."""
    if not isinstance(document, dict):
        raise UsageError(
            f"{where}: is a {type(document).__name__}; a manifest is a mapping with apiVersion and kind"
        )
    for field in ("apiVersion", "kind", "metadata"):
        if field not in document:
            raise UsageError(f"{where}: {field} is missing")
    if not isinstance(document["metadata"], dict) or not isinstance(document["metadata"].get("name"), str):
        raise UsageError(f"{where}: metadata.name is missing; it should be a text")
    # The API would drop them in silence.
    for unknown in unknown_fields(find_spec_schema(document), document.get("spec"), "spec"):
        raise UsageError(f"{where}: {unknown}")


def freshen(manifests: list[Manifest], fresh: Callable[[], str] = lambda: uuid.uuid4().hex) -> list[Manifest]:
    """The same manifests with fresh ids and names, also wherever one refers to another.

    A second run of an example must not meet the first one's resources: specs are immutable and names are unique.
    """
    renamed: dict[str, str] = {}
    for manifest in manifests:
        spec = manifest.content.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("id"), str):
            renamed.setdefault(spec["id"], fresh())
    ids = dict(renamed)  # keys of a mapping may be ids too, but never names: those are fields
    for manifest in manifests:
        if not any(old in manifest.name for old in renamed):
            renamed.setdefault(manifest.name, f"{manifest.name}-{fresh()[:6]}")
    if not renamed:
        return manifests
    # A name may be the beginning of another one.
    longest_first = sorted(renamed, key=len, reverse=True)
    word = re.compile(r"(?<![A-Za-z0-9])(?:" + "|".join(map(re.escape, longest_first)) + r")(?![A-Za-z0-9])")

    def replace(value: Any) -> Any:
        match value:
            case str():
                return word.sub(lambda match: renamed[match[0]], value)
            case dict():
                return {
                    # A kind may be the name of a resource as well, such as a Model called `Model`.
                    ids.get(key, key): item if key == "kind" else replace(item)
                    for key, item in value.items()
                }
            case list():
                return [replace(item) for item in value]
            case _:
                return value

    return [Manifest(manifest.file, replace(manifest.content)) for manifest in manifests]
