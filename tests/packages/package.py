"""The packages below `packages/`, as their pyproject.toml describes them."""

import re
import shutil
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.source import ROOT

LOCK = ROOT / "requirements" / "dev.txt"


@dataclass(frozen=True)
class Package:
    """One package of the repository, by the name of its folder."""

    name: str

    @property
    def folder(self) -> Path:
        return ROOT / "packages" / self.name

    @property
    def module(self) -> str:
        """Name by which it is imported."""
        return f"steelyard_{self.name.replace('-', '_')}"

    @property
    def source(self) -> Path:
        return self.folder / "src" / self.module

    @cached_property
    def settings(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "pyproject.toml").read_text())

    @property
    def project(self) -> dict[str, Any]:
        project: dict[str, Any] = self.settings["project"]
        return project

    @property
    def extras(self) -> list[str]:
        return list(self.project.get("optional-dependencies", {}))

    @property
    def share(self) -> list[str]:
        """Folders of the tests that run where the package is alone; empty where all do."""
        return list(self.settings.get("tool", {}).get("steelyard", {}).get("alone", []))

    def lay_tests(self, installed: Path) -> None:
        """Lay what the wheel leaves out, tests and their doubles, beside the installed modules."""
        for path in self.source.rglob("*"):
            target = installed / path.relative_to(self.source)
            if path.is_file() and "__pycache__" not in path.parts and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)


PACKAGES = tuple(Package(path.parent.name) for path in sorted((ROOT / "packages").glob("*/pyproject.toml")))


def requirement_name(requirement: str) -> str:
    """Return the name of the distribution that a requirement asks for."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower()
