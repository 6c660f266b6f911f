"""The working folder of an analysis: where inputs, modules and the output lie, and what the method's process is given.

The names of the environment and the layout below `storage` are those of dyff-audit, so that methods written for it find
their files.
"""

import base64
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from steelyard_common.types import Json
from steelyard_evaluation.analysis.errors import AnalysisFailed
from steelyard_evaluation.analysis.process import CONTAINER
from steelyard_schema.analysis import AnalysisData, AnalysisFields
from steelyard_schema.names import OWN_LOGS

STORAGE_ROOT = "DYFF_AUDIT_LOCAL_STORAGE_ROOT"
CONFIG_FILE = "DYFF_AUDIT_ANALYSIS_CONFIG_FILE"
OUTCOME_FILE = "STEELYARD_ANALYSIS_OUTCOME"
"""Environment variable with the path to which the method's process writes how it ended."""
SCORES, CURVES = f"{OWN_LOGS}scores.json", f"{OWN_LOGS}curves.json"
"""Paths of scores and curves in the output."""
_KEPT = (
    CONTAINER,
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "OMP_NUM_THREADS",
)
"""Variables that the method's process inherits. The step's others may be credentials."""
PYTHON = "STEELYARD_ANALYSIS_PYTHON"
"""Variable of the step with the Python of another environment, in which methods run: that of dyff-audit."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Workspace:
    """Working folder of one attempt of the analysis with this id."""

    root: Path
    id: str

    @property
    def storage(self) -> Path:
        """Folder of inputs, modules and the output, each in a folder named by its id."""
        return self.root / "storage"

    @property
    def output(self) -> Path:
        return self.storage / self.id

    @property
    def config(self) -> Path:
        return self.root / "analysis.yaml"

    @property
    def home(self) -> Path:
        """Home and working directory of the method's process."""
        return self.root / "home"

    @property
    def outcome(self) -> Path:
        return self.root / "outcome.json"

    def folder(self, id: str) -> Path:
        """Return the folder of an input or a module. Raises AnalysisFailed for an id that cannot be the name of a
        folder."""
        if not _ID.fullmatch(id) or id == self.id:
            raise AnalysisFailed("BadRequest", f"{id!r} should be the id of an input or a module")
        return self.storage / id

    @property
    def python(self) -> str:
        """The Python of the method's process."""
        return os.environ.get(PYTHON) or sys.executable

    @property
    def _site(self) -> Path:
        """Folder of what another environment's Python runs at its start."""
        return self.root / "site"

    def environment(self, modules: Iterable[str]) -> dict[str, str]:
        """Return the environment of the method's process, in which the modules can be imported."""
        other = self.python != sys.executable
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {
            **kept,
            STORAGE_ROOT: str(self.storage),
            CONFIG_FILE: str(self.config),
            OUTCOME_FILE: str(self.outcome),
            "PYTHONPATH": os.pathsep.join(
                str(folder) for folder in [*map(self.folder, modules), *([self._site] if other else [])]
            ),
            "PYTHONDONTWRITEBYTECODE": "1",  # compiled files would lie among the modules' own
            "HOME": str(self.home),
            "TMPDIR": str(self.home / "tmp"),
        }

    def prepare(self) -> None:
        """Make the folders."""
        for folder in (self.storage, self.output, self.home / "tmp", self._site):
            folder.mkdir(parents=True)
        # Behind the other environment's own packages: what it has in another version counts there.
        packages = sysconfig.get_path("purelib")
        (self._site / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({packages!r})\n")


def write_config(path: Path, id: str, account: str, fields: AnalysisFields) -> None:
    """Write the resource of an analysis, as programs of dyff-audit read it: JSON, which is YAML too.

    The data `analysis` is the whole analysis: a custom resource cannot hold all of it.
    """
    analysis = {name: fields.dump()[name] for name in ("scope", "arguments", "inputs", "method", "data")}
    whole = AnalysisData(key="analysis", value=base64.b64encode(orjson.dumps(analysis)).decode())
    data = [item for item in analysis["data"] if item["key"] != "analysis"]
    spec = {"id": id, "account": account, **analysis, "data": [*data, whole.dump()]}
    path.write_bytes(orjson.dumps({"apiVersion": "dyff.io/v1alpha1", "kind": "Analysis", "spec": spec}))


def read_config(path: Path) -> tuple[str, AnalysisFields]:
    """Return the id and the fields of the analysis that `write_config` has written."""
    spec: Json = orjson.loads(path.read_bytes())["spec"]
    names: Mapping[str, object] = {name: spec[name] for name in AnalysisFields.model_fields if name in spec}
    return str(spec["id"]), AnalysisFields.parse(names)
