"""The order of managers in `metadata.managedFields`."""

from steelyard_local_kubernetes.apiserver.managed.entries import Entry, applier, encode_managers, updater
from steelyard_local_kubernetes.apiserver.managed.fieldset import from_fields

FIELDS = from_fields({"f:data": {}})
EARLIER, LATER = "2024-05-01T10:00:00Z", "2024-05-01T10:00:01Z"


def test_entries_are_by_operation_then_time_then_name() -> None:
    managers = {
        updater("a", "v1", ""): Entry(FIELDS, "v1", EARLIER),
        applier("c", ""): Entry(FIELDS, "v1", EARLIER),
        applier("b", ""): Entry(FIELDS, "v1", EARLIER),
        applier("a", ""): Entry(FIELDS, "v1", LATER),
    }
    entries = [(entry["operation"], entry["manager"]) for entry in encode_managers(managers)]
    assert entries == [("Apply", "b"), ("Apply", "c"), ("Apply", "a"), ("Update", "a")]
