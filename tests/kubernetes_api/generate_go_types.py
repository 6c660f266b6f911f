"""Writes how Kubernetes' Go code holds each field of the built-in kinds, which the published schemas do not say.

`python -m tests.kubernetes_api.generate_go_types FOLDER`, by hand, when the version of Kubernetes changes; FOLDER holds
the modules `api@vX`, `apimachinery@vX`, `apiextensions-apiserver@vX` and `kube-aggregator@vX`, such as
`$(go env GOMODCACHE)/k8s.io`.
"""

import gzip
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import orjson

TARGET = Path("packages/local-kubernetes/src/steelyard_local_kubernetes/apiserver/gotypes.json.gz")
# Beginnings of the schemas' names, and the folders of the packages that they mean.
PACKAGES = {
    "io.k8s.api.": "api@*/",
    "io.k8s.apimachinery.": "apimachinery@*/",
    "io.k8s.apiextensions-apiserver.": "apiextensions-apiserver@*/",
    "io.k8s.kube-aggregator.": "kube-aggregator@*/",
}
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^\t(?:(\w+) +)?([\w\.\[\]\*]+) +`[^`]*json:\"([^\"]*)\"", re.MULTILINE)
EMBEDDED = re.compile(r"^\t\*?([\w\.]+) +`[^`]*json:\",inline\"", re.MULTILINE)
IMPORT = re.compile(r"^\t(?:(\w+) )?\"([^\"]+)\"", re.MULTILINE)
NAME = re.compile(r"(?:(\w+)\.)?(\w+)$")
BASIC = {"string", "bool", "int32", "int64", "float64", "int", "byte", "uint8"}


class Package:
    """The Go source of one package."""

    def __init__(self, folder: Path) -> None:
        files = [path for path in sorted(folder.glob("*.go")) if not path.name.endswith("_test.go")]
        texts = [path.read_text() for path in files if not path.name.startswith(("zz_", "generated"))]
        self.name = folder.name
        self.imports = {
            alias or path.rpartition("/")[2]: path for text in texts for alias, path in IMPORT.findall(text)
        }
        self.structs = {name: body for text in texts for name, body in STRUCT.findall(text)}


@cache
def package(root: Path, prefix: str, rest: str) -> Package:
    [folder] = root.glob(PACKAGES[prefix] + rest)
    return Package(folder)


def imported(root: Path, path: str) -> Package | None:
    """A package of the same modules by the path of its import."""
    module, _, rest = path.removeprefix("k8s.io/").partition("/")
    prefix = f"io.k8s.{module}."
    return package(root, prefix, rest) if prefix in PACKAGES and path.startswith("k8s.io/") else None


def spelled(own: Package, text: str) -> str:
    """A type as Go prints it: with the name of its package, and not with the name of the import."""
    if text.startswith("[]"):
        return "[]" + spelled(own, text[2:])
    if text.startswith("map["):
        key, _, value = text[4:].partition("]")
        return f"map[{spelled(own, key)}]{spelled(own, value)}"
    if text.startswith("*"):
        return "*" + spelled(own, text[1:])
    if "." in text:
        alias, _, name = text.partition(".")
        return f"{own.imports.get(alias, alias).rpartition('/')[2]}.{name}"
    return {"byte": "uint8"}.get(text, text) if text in BASIC else f"{own.name}.{text}"


def fields(root: Path, own: Package, struct: str) -> Iterator[tuple[str, str]]:
    """JSON names and how Go holds them: `?` is left out where it is empty (`~` also as a structure), then the type."""
    body = own.structs[struct]
    for embedded in EMBEDDED.findall(body):
        alias, name = (NAME.match(embedded) or [""]).groups()  # type: ignore[union-attr]
        home = imported(root, own.imports[alias]) if alias else own
        if home is not None and name in home.structs:
            yield from fields(root, home, name)
    for _, kind, tag in FIELD.findall(body):
        name, *options = tag.split(",")
        if name and name != "-":
            mark = "~" if "omitzero" in options else "?" if "omitempty" in options else ""
            yield name, mark + spelled(own, kind)


def main() -> None:
    root = Path(sys.argv[1])
    types = {}
    for prefix, pattern in PACKAGES.items():
        for file in sorted(root.glob(pattern + "**/types*.go")):
            if "v1" not in file.parent.name and "v2" not in file.parent.name:
                continue
            [module] = root.glob(pattern)
            rest = str(file.parent.relative_to(module))
            own = package(root, prefix, rest)
            for struct in own.structs:
                types[f"{prefix}{rest.replace('/', '.')}.{struct}"] = dict(fields(root, own, struct))
    chosen = {
        name: content for name, content in sorted(types.items()) if not re.search(r"\.v\d+(alpha|beta)", name)
    }
    content = orjson.dumps(chosen)
    TARGET.write_bytes(gzip.compress(content, 9, mtime=0))
    print(f"{len(chosen)} types, {len(content)} bytes of JSON, {TARGET.stat().st_size} compressed")


if __name__ == "__main__":
    main()
