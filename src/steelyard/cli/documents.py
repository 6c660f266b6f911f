"""Files for `steelyard create` and `steelyard apply`: `kind:` and the fields of the kind's create request.

A later document may refer to an earlier one: `as: NAME` names a document, `$(NAME)` stands for the id that its entity
got.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from steelyard.cli.connection import collection_name
from steelyard.cli.lists import list_items
from steelyard_common.errors import UsageError
from steelyard_common.types import Json

_REFERENCE = re.compile(r"\$\(([A-Za-z0-9_.-]+)\)")
_WITH_OWN = frozenset({"nodes", "runner"})
"""Fields that have `$(…)` of their own: a pipeline's nodes its keywords, a runner's arguments variables."""


@dataclass(frozen=True)
class Document:
    """One entity to make: its collection, its fields, the name that later documents call it by, where it stands."""

    collection: str
    fields: Json
    name: str
    where: str

    def resolve(self, ids: Mapping[str, str]) -> Json:
        """The fields, with ids for references. Raises UsageError for an unknown one."""
        return {
            name: _replace(value, ids, None if name in _WITH_OWN else self.where)
            for name, value in self.fields.items()
        }

    def key(self, fields: Json) -> str:
        """The same document gives the same entity, however often it is applied."""
        # The ids that stand for references are in it: a document that refers to a new entity is a new one
        # itself.
        content = json.dumps([self.collection, fields], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()


def read(paths: Sequence[Path]) -> list[Document]:
    """Every document of the files, and of the folders' YAML and JSON files in the order of their names."""
    documents: list[Document] = []
    for path in _files(paths):
        contents = _contents(path)
        if not contents and path in paths:  # one of a folder may be left empty
            raise UsageError(
                f"--filename {path}: has no document; one has `kind:` and the fields of its create request"
            )
        for number, content in enumerate(contents, 1):
            items = list_items(content, f"{path}, document {number}")
            documents += [_document(item, where) for where, item in items]
    return documents


def check_references(documents: Sequence[Document]) -> None:
    """Raise UsageError for a reference to no earlier document: it should be known before the first entity is made."""
    names: dict[str, str] = {}
    for document in documents:
        document.resolve(names)
        if document.name:
            names[document.name] = document.name


def _files(paths: Sequence[Path]) -> Iterable[Path]:
    for path in paths:
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if file.suffix in {".yaml", ".yml", ".json"})
            if not files:
                raise UsageError(f"--filename {path}: there is no .yaml, .yml or .json file in it")
            yield from files
        elif path.is_file() or str(path) == "-":
            yield path
        else:
            raise UsageError(f"--filename {path}: there is no such file or folder")


def _contents(path: Path) -> list[object]:
    """The contents of the file's documents. Raises UsageError for a file that is not YAML."""
    import sys

    import yaml

    from steelyard_common.bounded_yaml import fault_text, load_all
    from steelyard_common.whole_files import read_whole

    try:
        text = read_whole(sys.stdin.buffer if str(path) == "-" else path).decode()
        # By way of JSON, as the API gets it: YAML's dates and numeric keys become texts, and a mapping that holds
        # itself is met here.
        contents = [
            json.loads(json.dumps(content, default=_time_text))
            for content in load_all(text)
            if content is not None
        ]
    except OSError as error:
        raise UsageError(f"--filename {path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not text in UTF-8: {error.reason} at byte {error.start}") from error
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise UsageError(f"{path}: is not YAML: {fault_text(error)}") from error
    return contents


def _time_text(value: object) -> str:
    """Return a date or time as text. Raises TypeError for anything else that JSON has no form for."""
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"it holds a {type(value).__name__}, which JSON has no form for")


def _document(content: object, where: str) -> Document:
    if not isinstance(content, dict) or not isinstance(content.get("kind"), str):
        raise UsageError(f"{where}: should be a mapping with `kind:` and the fields of its create request")
    api = str(content.get("apiVersion", ""))
    if api:
        hint = "kubectl apply -f takes it" if api.startswith("dyff.io/") else "kubectl may take it"
        raise UsageError(
            f"{where}: apiVersion {api}: this is a Kubernetes manifest, and {hint}; the platform takes `kind:` and the "
            "fields of the create request"
        )
    fields = {key: value for key, value in content.items() if key not in {"kind", "as"}}
    try:
        collection = collection_name(content["kind"])
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    return Document(collection, fields, str(content.get("as", "")), where)


def _replace(value: Any, ids: Mapping[str, str], where: str | None) -> Any:
    """Put ids for references. Where `where` is None, a text that names no document stays as it is."""
    match value:
        case dict():
            return {key: _replace(item, ids, where) for key, item in value.items()}
        case list():
            return [_replace(item, ids, where) for item in value]
        case str():
            return _REFERENCE.sub(lambda match: _id(match[1], ids, where), value)
    return value


def _id(name: str, ids: Mapping[str, str], where: str | None) -> str:
    if name not in ids and where is None:
        return f"$({name})"
    if name not in ids:
        known = ", ".join(ids) or "none"
        raise UsageError(f"{where}: $({name}): no earlier document has `as: {name}`; earlier ones: {known}")
    return ids[name]
