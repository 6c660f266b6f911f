"""Requests as the core sees them."""

import pytest

from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.messages import Request

TESTER = administrator("tester")


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ({}, False),
        ({"watch": "true"}, True),
        ({"watch": "TRUE"}, True),
        ({"watch": "1"}, True),
        ({"watch": ""}, True),
        ({"watch": "false"}, False),
        ({"watch": "False"}, False),
        ({"watch": "0"}, False),
    ],
    ids=str,
)
def test_a_flag_is_read_as_a_real_server_reads_it(query: dict[str, str], holds: bool) -> None:
    assert Request("GET", "/api/v1/pods", query, {}, b"", TESTER).flag("watch") is holds
