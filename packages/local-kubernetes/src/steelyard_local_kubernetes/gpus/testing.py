"""GPUs that are a file: what tests see through the double of NVIDIA's library."""

import json
from pathlib import Path
from typing import Protocol

from steelyard_common.types import Json

FAKE = "steelyard_local_kubernetes.gpus.fake_pynvml"


class Environment(Protocol):
    """Interface of pytest's monkeypatch that is needed here."""

    def setenv(self, name: str, value: str) -> None: ...


class FakeGpus:
    """The file that the double reads; `write` changes all GPUs at once."""

    def __init__(self, path: Path, environment: Environment) -> None:
        self.path = path
        environment.setenv("STEELYARD_FAKE_NVML", str(path))
        self.write()

    def write(self, *gpus: Json, **state: object) -> None:
        draft = self.path.with_suffix(".new")
        draft.write_text(json.dumps({"gpus": gpus, **state}))
        draft.replace(self.path)
