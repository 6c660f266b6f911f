"""Comparison of answers: values that the clock or chance decides do not count."""

from steelyard_common.types import Json
from tests.kubernetes_differential.case import Case, get
from tests.kubernetes_differential.compare import differences

CASE = Case("two managers", get("/api/v1/namespaces/NS/configmaps/a"), managed=True)


def _answer(*managers: tuple[str, str]) -> list[Json]:
    entries: list[Json] = [{"manager": name, "fieldsV1": {fields: {}}} for name, fields in managers]
    return [{"status": 200, "body": {"metadata": {"managedFields": entries}}}]


def test_managers_of_one_object_may_be_in_another_order() -> None:
    assert not differences(
        CASE, _answer(("one", "f:a"), ("two", "f:b")), _answer(("two", "f:b"), ("one", "f:a"))
    )


def test_managers_of_other_fields_differ() -> None:
    rows = differences(CASE, _answer(("one", "f:a"), ("two", "f:b")), _answer(("two", "f:a"), ("one", "f:b")))
    assert [row.path.rpartition(".")[2] for row in rows] == ["f:a", "f:b"] * 2


def _refusal(*fields: str) -> list[Json]:
    causes = [
        {"field": field, "message": "Forbidden: no", "reason": "FieldValueForbidden"} for field in fields
    ]
    text = ", ".join(f"{cause['field']}: {cause['message']}" for cause in causes)
    return [{"status": 422, "body": {"message": f"invalid: [{text}]", "details": {"causes": causes}}}]


REFUSED = Case("a refusal", get("/api/v1/namespaces/NS/configmaps/a"))
ONE, TWO = (f"spec.validation.openAPIV3Schema.properties[{name}].type" for name in "ab")


def test_causes_of_properties_may_be_in_another_order() -> None:
    assert not differences(REFUSED, _refusal("spec.group", ONE, TWO), _refusal("spec.group", TWO, ONE))


def test_other_causes_in_another_order_differ() -> None:
    assert differences(REFUSED, _refusal("spec.group", ONE), _refusal(ONE, "spec.group"))
    assert differences(REFUSED, _refusal(ONE), _refusal(TWO))
    assert differences(REFUSED, _refusal(ONE), _refusal(ONE, ONE))
