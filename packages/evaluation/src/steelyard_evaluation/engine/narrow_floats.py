"""Numbers of 16 and 32 bits with the value that they are shown as: 0.1, where Python would make 0.10000000149 of it.

And objects of any keys that are kept as pairs, marked in the metadata of their field: Hugging Face `datasets` and
others read no map of Arrow.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pyarrow as pa

Widen = Callable[[Any], Any]


def is_pairs(field: "pa.Field[Any]") -> bool:
    """Return whether the lists of `key` and `value` of a field are objects, as its metadata say.

    Any field of a stranger's schema may bear the mark: without such lists it says nothing.
    """
    types, kind = pa.types, cast(Any, field.type)
    if (field.metadata or {}).get(b"steelyard.map") != b"1" or not types.is_list(kind):
        return False
    pair = kind.value_type
    return (
        types.is_struct(pair) and pair.names == ["key", "value"] and types.is_string(pair.field("key").type)
    )


def _to_dict(pairs: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    return None if pairs is None else {pair["key"]: pair["value"] for pair in pairs}


def _widening(fields: Any) -> dict[str, Widen]:
    widenings = {field.name: _to_dict if is_pairs(field) else make_widen(field.type) for field in fields}
    return {name: widen for name, widen in widenings.items() if widen is not None}


def make_widen(kind: pa.DataType) -> Widen | None:
    """Return the function for the values of a type; None if they have no narrow floats, or are maps of them."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_float16(kind) or pa.types.is_float32(kind):
        narrow = np.float16 if pa.types.is_float16(kind) else np.float32
        return lambda value: None if value is None else float(str(narrow(value)))
    if pa.types.is_struct(kind):
        return _widen_struct(_widening([kind.field(place) for place in range(kind.num_fields)]))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        if pa.types.is_float32(kind.value_type):
            return _widen_floats
        inner = make_widen(kind.value_type)
        return None if inner is None else lambda values: values and [inner(value) for value in values]
    return None


def _widen_floats(values: list[float | None] | None) -> list[float | None] | None:
    """Widen a list of 32-bit numbers by Arrow, which shows them as numpy does: embeddings have thousands of them."""
    return values and pa.array(values, pa.float32()).cast(pa.string()).cast(pa.float64()).to_pylist()


def _widen_struct(widenings: dict[str, Widen]) -> Widen | None:
    if not widenings:
        return None
    return lambda value: value and value | {name: widen(value[name]) for name, widen in widenings.items()}
