"""Scores and curves of an analysis: how a method records them, and how the step checks the record.

Both files have the form in which dyff-audit writes them: `{"scores": […]}` and `{"curves": […]}`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import orjson
from pydantic import ValidationError

from steelyard_common.types import Json
from steelyard_evaluation.analysis.errors import output_invalid
from steelyard_evaluation.analysis.workspace import CURVES, SCORES
from steelyard_schema.analysis import AnalysisFields
from steelyard_schema.base import SchemaModel
from steelyard_schema.curve import CurveData, CurveSpec
from steelyard_schema.faults import faults_text
from steelyard_schema.score import ScoreData, ScoreMetadata, ScoreMetadataRefs, ScoreSpec

MOST_BYTES = 16 << 20
"""Largest file of scores or curves."""
_LISTS = {SCORES: "scores", CURVES: "curves"}
Item = TypeVar("Item", ScoreData, CurveData)


def score_data(id: str, fields: AnalysisFields, name: str, quantity: float, text: str) -> ScoreData:
    """Return a score in the form in which it is stored. Raises ValueError, which names the field."""
    spec = _find_spec(fields, name, ScoreSpec)
    value = float(quantity)
    _check_finite(value, f"score {name}")
    return _valid(
        ScoreData,
        {
            **spec.dump(),
            "metadata": _metadata(fields).dump(),
            "analysis": id,
            "quantity": value,
            "quantityString": spec.format.format(quantity=value, unit=spec.unit),
            "text": text,
        },
        f"score {name}: ",
    )


def curve_data(
    id: str, fields: AnalysisFields, name: str, points: Mapping[str, Sequence[float]]
) -> CurveData:
    """Return a curve in the form in which it is stored. Raises ValueError, which names the field."""
    spec = _find_spec(fields, name, CurveSpec)
    columns = {dimension: [float(value) for value in values] for dimension, values in points.items()}
    _check_points(columns, spec, f"curve {name}")
    return _valid(
        CurveData,
        {**spec.dump(), "metadata": _metadata(fields).dump(), "analysis": id, "points": columns},
        f"curve {name}: ",
    )


def record(output: Path, path: str, item: ScoreData | CurveData) -> None:
    """Add a score or a curve to its file in the output. Raises ValueError for one that is there already."""
    file, name = output / path, _LISTS[path]
    items: list[Json] = orjson.loads(file.read_bytes())[name] if file.exists() else []
    if any(there["name"] == item.name for there in items):
        raise ValueError(f"{name}: {item.name!r} is recorded already")
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch = file.with_suffix(".tmp")
    scratch.write_bytes(orjson.dumps({name: [*items, item.dump()]}))
    scratch.rename(file)


def check_records(output: Path, id: str, fields: AnalysisFields) -> dict[str, bytes]:
    """Return the content of the files of scores and curves to publish. Raises AnalysisFailed.

    Only scores and curves that the method declares are allowed, as it declares them.
    """
    records: dict[str, bytes] = {}
    if (scores := _read(output, SCORES)) is not None:
        kept = [_check_score(item, f"scores.{n}", id, fields) for n, item in enumerate(scores)]
        records[SCORES] = _dump("scores", kept)
    if (curves := _read(output, CURVES)) is not None:
        records[CURVES] = _dump(
            "curves", [_check_curve(item, f"curves.{n}", id, fields) for n, item in enumerate(curves)]
        )
    return records


def _dump(name: str, items: Sequence[SchemaModel]) -> bytes:
    names = [str(getattr(item, "name", "")) for item in items]
    for item in names:
        if names.count(item) > 1:
            raise output_invalid(f"{name}: {item!r} is there twice")
    return orjson.dumps({name: [item.dump() for item in items]})


def _read(output: Path, path: str) -> list[object] | None:
    file, name = output / path, _LISTS[path]
    if not file.exists():
        return None
    if (size := file.stat().st_size) > MOST_BYTES:
        raise output_invalid(f"{path} has {size} bytes; at most {MOST_BYTES} are allowed")
    try:
        content = orjson.loads(file.read_bytes())
    except orjson.JSONDecodeError as error:
        raise output_invalid(f"{path}: should be JSON: {error}") from error
    items = content.get(name) if isinstance(content, dict) else None
    if not isinstance(items, list):
        raise output_invalid(f'{path}: should be {{"{name}": […]}}')
    return items


def _check_score(item: object, field: str, id: str, fields: AnalysisFields) -> ScoreData:
    score = _parse(ScoreData, item, field)
    _as_declared(score, ScoreSpec, field, id, fields)
    if score.quantity is not None:
        try:
            _check_finite(score.quantity, f"{field}.quantity")
        except ValueError as error:
            raise output_invalid(str(error)) from error
    return score


def _check_curve(item: object, field: str, id: str, fields: AnalysisFields) -> CurveData:
    curve = _parse(CurveData, item, field)
    spec = _as_declared(curve, CurveSpec, field, id, fields)
    try:
        _check_points(curve.points, spec, f"{field}.points")
    except ValueError as error:
        raise output_invalid(str(error)) from error
    return curve


Spec = TypeVar("Spec", ScoreSpec, CurveSpec)


def _as_declared(
    item: ScoreData | CurveData, kind: type[Spec], field: str, id: str, fields: AnalysisFields
) -> Spec:
    """Return the description in the method of a score or a curve that repeats it. Raises AnalysisFailed."""
    try:
        spec = _find_spec(fields, item.name, kind)
    except ValueError as error:
        raise output_invalid(f"{field}.name: {error}") from error
    expected: list[tuple[str, object, object]] = [
        (name, getattr(item, name), getattr(spec, name)) for name in kind.model_fields
    ]
    expected.append(("analysis", item.analysis, id))
    expected.append(("metadata.refs", item.metadata.refs.dump(), _metadata(fields).refs.dump()))
    for name, there, wanted in expected:
        if there != wanted:
            raise output_invalid(f"{field}.{name}: {there!r} should be {wanted!r}, as the method declares it")
    return spec


def _parse(model: type[Item], item: object, field: str) -> Item:
    try:
        return model.parse(item)
    except ValidationError as error:
        raise output_invalid(faults_text(error, f"{field}.", model)) from error


def _valid(model: type[Item], content: Json, prefix: str) -> Item:
    try:
        return model.parse(content)
    except ValidationError as error:
        raise ValueError(faults_text(error, prefix)) from error


def _metadata(fields: AnalysisFields) -> ScoreMetadata:
    return ScoreMetadata(refs=ScoreMetadataRefs(method=fields.method.id, **fields.scope.dump()))


def _find_spec(fields: AnalysisFields, name: str, kind: type[Spec]) -> Spec:
    declared = [spec for spec in fields.method.scores if isinstance(spec, kind)]
    for spec in declared:
        if spec.name == name:
            return spec
    what = kind.__name__.removesuffix("Spec").lower()
    there = ", ".join(spec.name for spec in declared) or "none"
    raise ValueError(f"{name!r} is no {what} of the method; it declares {there}")


def _check_finite(value: float, field: str) -> None:
    """Raise ValueError for a value that is not a finite number."""
    if not math.isfinite(value):
        raise ValueError(f"{field}: {value} should be a finite number")


def beyond_bounds(fields: AnalysisFields, records: Mapping[str, bytes]) -> Iterator[str]:
    """Yield a sentence for every score and every dimension of a curve that lies outside of its stated bounds.

    Bounds say where values are expected. As with dyff-audit, a value outside of them is one, too.
    """
    declared = {spec.name: spec for spec in fields.method.scores}
    for score in orjson.loads(records.get(SCORES, b'{"scores": []}'))["scores"]:
        spec = declared[score["name"]]
        if isinstance(spec, ScoreSpec) and score.get("quantity") is not None:
            yield from _beyond([score["quantity"]], spec, f"score {spec.name}")
    for curve in orjson.loads(records.get(CURVES, b'{"curves": []}'))["curves"]:
        spec = declared[curve["name"]]
        if isinstance(spec, CurveSpec):
            for name, values in curve["points"].items():
                yield from _beyond(values, spec.dimensions[name], f"curve {spec.name}.{name}")


def _beyond(values: Sequence[float], spec: ScoreSpec, what: str) -> Iterator[str]:
    if spec.minimum is not None and (least := min(values, default=spec.minimum)) < spec.minimum:
        yield f"{what}: {least} is less than {spec.minimum}, the minimum of {spec.name}"
    if spec.maximum is not None and (most := max(values, default=spec.maximum)) > spec.maximum:
        yield f"{what}: {most} is more than {spec.maximum}, the maximum of {spec.name}"


def _check_points(points: Mapping[str, Sequence[float]], spec: CurveSpec, field: str) -> None:
    for dimension, values in points.items():
        if dimension not in spec.dimensions:
            there = ", ".join(spec.dimensions)
            raise ValueError(f"{field}: {dimension!r} is not a dimension of the curve; it declares {there}")
        for value in values:
            _check_finite(value, f"{field}.{dimension}")
