"""Configurations of steps, with defaults: for tests, which show only what matters."""

from pathlib import Path
from typing import Any

from steelyard_schema.egress import EgressPolicy
from steelyard_schema.steps import ResourceRef, StepConfig

LOOPBACK = EgressPolicy(hosts=("http://127.0.0.1",), networks=("127.0.0.0/8",))
"""Policy of a test whose servers are on this machine."""
ID = "0d191750000040008000000000000002"


def make_config(step: str, kind: str, spec: dict[str, Any], egress: EgressPolicy | None = None) -> StepConfig:
    name = f"{kind.lower()}-{ID}"
    return StepConfig(
        step=step,
        attempt=1,
        epoch="1795241700-11111111-0001",
        resource=ResourceRef(
            kind=kind, namespace="default", name=name, uid="11111111-2222-4333-8444-555555555555"
        ),
        spec={"id": ID, "account": "examples", **spec},
        egress=egress,
    )


def make_model_spec(root: Path, source: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A Model whose files come from `root`/source and go to `root`/model."""
    inputs = {"source": f"file://{root}/source"}
    return {
        "name": "a model",
        "artifact": {"kind": "Volume", "volume": {"files": []}},
        "source": source or {"kind": "Upload"},
        "resources": {},
        "storage": {"inputs": inputs, "output": f"file://{root}/model"},
        **changes,
    }
