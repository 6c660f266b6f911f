"""Writes the messages of built-in kinds, as published for protobuf, into the embedded server's data file.

`python -m tests.kubernetes_api.generate_protobuf`, by hand, when the version of Kubernetes changes. It reads the Go
modules from which `python -m tests.engines.build` makes a real server. A `generated.proto` says the types of fields;
their names in JSON stand only in the tags of the Go structures.
"""

import base64
import gzip
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from steelyard_local_kubernetes.apiserver.protobuf.descriptors import (
    DROP_ZERO,
    INLINE,
    MAP,
    META,
    POINTER,
    REPEATED,
    SCALARS,
    UNKNOWN,
)
from tests.engines.build import MODULE

TARGET = Path("packages/local-kubernetes/src/steelyard_local_kubernetes/apiserver/protobuf/protobuf.json.gz")
SAMPLES = Path("tests/kubernetes_api/protobuf_samples.json.gz")
MODULES = ("k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver", "k8s.io/kube-aggregator")
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.M | re.S)
_FIELD = re.compile(
    r"^  (optional|repeated|map<string, ([\w.]+)>|required)\s+([\w.]*)\s*(\w+) = (\d+);", re.M
)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
_TAG = re.compile(r"^\s*([\w.]+)?[ \t]*([\[\]*\w.]*)[ \t]*`([^`]*protobuf:[^`]*)`", re.M)
_LETTERS = {"string": "s", "bytes": "y", "int32": "i", "int64": "l", "bool": "b", "double": "d"}
RAW = {"Unknown", "RawExtension", "FieldsV1", "JSON"}
"""Messages whose bytes are a document of their own, and no text in base64."""


@dataclass
class Message:
    """One message: its fields by number, as [JSON name, Go name, type, flags]."""

    fields: dict[int, list[object]] = field(default_factory=dict)


def module_folder(name: str) -> Path:
    command = ["go", "list", "-m", "-f", "{{.Dir}}", name]
    return Path(
        subprocess.run(command, cwd=MODULE, capture_output=True, text=True, check=True).stdout.strip()
    )


def go_fields(package: Path) -> dict[tuple[str, int], tuple[str, str, str, bool]]:
    """JSON name (empty for an inlined structure), Go name, Go type and `omitempty` by structure and number."""
    fields = {}
    for path in package.glob("*.go"):
        if path.name.startswith(("generated.", "zz_")) or path.name.endswith("_test.go"):
            continue
        for struct in _STRUCT.finditer(path.read_text()):
            for tagged in _TAG.finditer(struct[2]):
                first, second, tags = tagged.groups()
                protobuf, json = re.search(r'protobuf:"([^"]*)"', tags), re.search(r'json:"([^"]*)"', tags)
                if not protobuf or not json or protobuf[1] == "-":
                    continue
                name, _, options = json[1].partition(",")
                go_type = second or first  # an embedded structure has no name of its own
                go_name = first.rpartition(".")[2]
                number = int(protobuf[1].split(",")[1])
                fields[struct[1], number] = (name, go_name, go_type, "omitempty" in options)
    return fields


def messages_of(path: Path) -> dict[str, Message]:
    """The messages of one `generated.proto`, by full name."""
    content = path.read_text()
    package = re.search(r"^package ([\w.]+);", content, re.M)
    assert package
    structs = go_fields(path.parent)
    messages = {}
    for definition in _MESSAGE.finditer(content):
        name, body = definition.groups()
        message = messages[f"{package[1]}.{name}"] = Message()
        for kind, value, plain, proto_name, number_text in _FIELD.findall(body):
            number = int(number_text)
            json_name, go_name, go_type, omitted = structs.get((name, number), (proto_name, "", "", False))
            flags = REPEATED * (kind == "repeated") | MAP * bool(value) | POINTER * go_type.startswith("*")
            flags |= DROP_ZERO * omitted | INLINE * (not json_name)
            json_name = proto_name if json_name in ("", "-") else json_name
            type_name = value or plain
            if type_name not in _LETTERS:
                type_name = type_name.lstrip(".") if "." in type_name else f"{package[1]}.{type_name}"
            letter = "r" if name in RAW and type_name == "bytes" else _LETTERS.get(type_name, type_name)
            shown = "" if go_name == json_name[:1].upper() + json_name[1:] else go_name
            message.fields[number] = [json_name, shown, letter, flags]
    return messages


def group_of(path: Path) -> str:
    """The API group of the types beside a `generated.proto`, as their Go code names it."""
    name = re.search(r'GroupName\s*=\s*"([^"]*)"', (path.parent / "register.go").read_text())
    return name[1] if name else ""


def write_samples(versions: set[str]) -> None:
    """Keep the objects that Go's own tests have in both forms, of all kinds and with every field set."""
    samples = {}
    for module in MODULES:
        for path in sorted(module_folder(module).glob("**/testdata/HEAD/*.pb")):
            obj = orjson.loads(path.with_suffix(".json").read_bytes())
            if obj.get("apiVersion") in versions:
                samples[path.stem] = [base64.b64encode(path.read_bytes()).decode(), obj]
    SAMPLES.write_bytes(gzip.compress(orjson.dumps(samples), 9, mtime=0))
    print(f"{len(samples)} samples, {SAMPLES.stat().st_size} bytes compressed")


def main() -> None:
    every: dict[str, Message] = {}
    packages: dict[str, str] = {}
    for module in MODULES:
        folder = module_folder(module)
        for path in sorted(folder.rglob("generated.proto")):
            messages = messages_of(path)
            every |= messages
            version = path.parent.name
            # Only what is stable: kinds of earlier versions are not served here.
            if re.fullmatch(r"v\d+", version) and "apimachinery" not in str(path) and messages:
                group = group_of(path)
                packages[f"{group}/{version}" if group else version] = next(iter(messages)).rpartition(".")[0]
    roots = [name for name in every if name.rpartition(".")[0] in {*packages.values(), META}] + [UNKNOWN]
    names: dict[str, int] = {}
    waiting = sorted(roots)
    for name in waiting:  # grows while it is read
        if name in names:
            continue
        names[name] = len(names)
        waiting += [str(row[2]) for row in every[name].fields.values() if row[2] not in SCALARS]
    rows = [
        [
            name,
            [
                [number, row[0], row[1], row[2] if row[2] in SCALARS else names[str(row[2])], row[3]]
                for number, row in sorted(every[name].fields.items())
            ],
        ]
        for name in names
    ]
    content = orjson.dumps({"packages": dict(sorted(packages.items())), "messages": rows})
    TARGET.write_bytes(gzip.compress(content, 9, mtime=0))
    write_samples(set(packages))
    print(f"{len(names)} messages, {len(content)} bytes of JSON, {TARGET.stat().st_size} compressed")


if __name__ == "__main__":
    main()
