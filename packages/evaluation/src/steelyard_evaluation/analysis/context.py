"""AnalysisContext: what a method reads of its analysis, and how it records scores and curves.

A function or a notebook makes one without arguments; the platform says in the environment where everything lies.
"""

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from steelyard_evaluation.analysis.cards import Card, score_card, title_card
from steelyard_evaluation.analysis.scores import curve_data, record, score_data
from steelyard_evaluation.analysis.workspace import CONFIG_FILE, CURVES, SCORES, STORAGE_ROOT, read_config
from steelyard_schema.base import DocumentationBase

if TYPE_CHECKING:
    import pyarrow.dataset as ds


class AnalysisContext:
    """The analysis that is running: its arguments, its inputs, its output.

    Without arguments it is that of the environment, as the platform sets it. `config` is the file with the analysis,
    and `storage` the folder that has a folder for each entity, by its id.
    """

    def __init__(self, config: Path | str | None = None, storage: Path | str | None = None) -> None:
        config = config or os.environ.get(CONFIG_FILE)
        storage = storage or os.environ.get(STORAGE_ROOT)
        if not config or not storage:
            raise ValueError(f"no analysis is running here: {CONFIG_FILE} and {STORAGE_ROOT} are not set")
        self._id, self._fields = read_config(Path(config))
        self._storage = Path(storage)
        self._inputs = {item.keyword: item.entity for item in self._fields.inputs}

    @property
    def id(self) -> str:
        """Id of the measurement or safety case."""
        return self._id

    @property
    def arguments(self) -> Mapping[str, str]:
        """Arguments by the keyword of their parameter; all of them are text."""
        return {item.keyword: item.value for item in self._fields.arguments}

    @property
    def inputs(self) -> Sequence[str]:
        """Keywords of the inputs."""
        return tuple(self._inputs)

    @property
    def output(self) -> Path:
        """Folder of the output: what lies there when the method has ended is published."""
        return self._storage / self._id

    def argument(self, keyword: str, default: str | None = None) -> str:
        """Return an argument. Raises ValueError where it is not given and has no default."""
        value = self.arguments.get(keyword, default)
        if value is None:
            names = ", ".join(self.arguments) or "none"
            raise ValueError(f"there is no argument {keyword!r}; given: {names}")
        return value

    def folder(self, keyword: str) -> Path:
        """Return the folder with the files of an input. Raises ValueError for an unknown keyword."""
        if keyword not in self._inputs:
            raise ValueError(f"there is no input {keyword!r}; there are {', '.join(self._inputs) or 'none'}")
        return self._storage / self._inputs[keyword]

    def dataset(self, keyword: str) -> "ds.Dataset":
        """Open the rows of an input. Raises ValueError for an unknown keyword."""
        from steelyard_evaluation.analysis.tables import open_dataset

        return open_dataset(self.folder(keyword))

    def data(self, key: str) -> Any:
        """Return other data of the analysis, which is JSON. Raises ValueError for an unknown key."""
        for item in self._fields.data:
            if item.key == key:
                return orjson.loads(base64.b64decode(item.value))
        there = ", ".join(item.key for item in self._fields.data) or "none"
        raise ValueError(f"there is no data {key!r}; there are {there}")

    def documentation(self, key: str) -> DocumentationBase:
        """Return title and summary of the `system` under test, or of the `usecase`, which is the method."""
        documentation = self.data(key).get("documentation", {})
        return DocumentationBase(title=documentation.get("title"), summary=documentation.get("summary"))

    def score(self, name: str, quantity: float, text: str) -> Card:
        """Record a score that the method declares, with a sentence about its meaning, and return its card.

        Raises ValueError for one that is not declared, is recorded already, or is not finite. One that lies outside of
        its minimum and maximum is recorded; the log warns of it.
        """
        score = score_data(self._id, self._fields, name, quantity, text)
        record(self.output, SCORES, score)
        return score_card(score.quantityString, text, score.title)

    def curve(self, name: str, points: Mapping[str, Sequence[float]], text: str = "") -> Card:
        """Record a curve that the method declares, as many values of each dimension, and return its card.

        Raises ValueError for one that is not declared, is recorded already, or has other dimensions.
        """
        curve = curve_data(self._id, self._fields, name, points)
        record(self.output, CURVES, curve)
        count = len(next(iter(curve.points.values())))
        return score_card(f"{count} points", text, curve.title)

    def title(self, headline: str, *, author: str, result: str, summary: str) -> Card:
        """Return the card at the head of a page: headline, author, the result in a few words and in a sentence.

        Title and summary of system and method are those of their documentation.
        """
        about = []
        for kind, key in (("System", "system"), ("Method", "usecase")):
            if any(item.key == key for item in self._fields.data):
                documentation = self.documentation(key)
                about.append((kind, documentation.title or "", documentation.summary or ""))
        return title_card(headline, author=author, result=result, summary=summary, about=tuple(about))
