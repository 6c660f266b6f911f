# ruff: noqa: E501 - a table is read by its rows
"""Places at which a real server says that a rule is at fault."""

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.expressions.refusals import rule_causes


@pytest.mark.parametrize(
    ("rule", "schema", "fault"),
    [
        ("self.b > 0", {"type": "integer"}, "<input>:1:5: type 'int' does not support field selection\n | self.b > 0\n | ....^"),
        ("self.b > 0", {"type": "object", "properties": {}}, "<input>:1:5: undefined field 'b'\n | self.b > 0\n | ....^"),
        ("'self.x' == self.y", {"type": "object"}, "<input>:1:17: undefined field 'y'\n | 'self.x' == self.y\n | ................^"),
        ("self == 1 ||\n slef == 2", {"type": "integer"}, "<input>:2:2: undeclared reference to 'slef' (in container '')\n |  slef == 2\n | .^"),
        ("self +", {"type": "integer"}, "\n | self +\n | ......^"),
    ],
    ids=["a number", "an object", "after a text", "a variable of the second line", "a rule that ends early"],
)  # fmt: skip
def test_faults_have_their_place(rule: str, schema: Json, fault: str) -> None:
    causes = list(rule_causes({"rule": rule, "message": "m"}, schema, "r", ""))
    assert fault in causes[0].message
