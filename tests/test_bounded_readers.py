"""Rules for all packages: files and texts of others are read by the modules that bound them, and connections are those
of `connections`.
"""

import ast
import re

from tests.source import modules, short_name


def test_yaml_is_read_within_bounds_alone() -> None:
    reading = re.compile(
        r"(?<!bounded_)yaml\.(safe_load|load|unsafe_load|full_load|compose|SafeLoader\()|\.get_single_node\("
    )
    readers = {
        short_name(path)
        for path in modules()
        if not path.name.startswith("test_") and reading.search(path.read_text())
    }
    # The last two count first, too: one refuses aliases altogether, one has rules of its own.
    assert readers == {
        "steelyard_common/bounded_yaml.py",
        "steelyard_local_kubernetes/apiserver/managed/yaml.py",
        "steelyard_evaluation/runs/tasks/positions.py",
    }


def test_toml_is_read_within_bounds_alone() -> None:
    readers = {
        short_name(path)
        for path in modules()
        if not path.name.startswith("test_")
        and re.search(r"\b(tomllib|tomli|TomlConfigSettingsSource)\b", path.read_text())
    }
    assert readers == {"steelyard_common/bounded_toml.py"}


def test_nothing_is_unpacked_without_a_limit() -> None:
    unpacking = re.compile(r"(gzip|zlib|bz2|lzma|zstd|zstandard)\.decompress\(|\.extractall\(")
    programs = {
        short_name(path)
        for path in modules()
        if not path.name.startswith("test_") and "doubles" not in path.name
        if unpacking.search(path.read_text())
    }
    own = ("gotypes.py", "published.py", "served.py", "protobuf/descriptors.py", "access/bootstrap.py")
    # One runs in a Pod, with the Pod's limits, on what its own user has packed; the others read files of the program.
    assert programs == {
        "clusters/ray/job_manifest.py",
        "steelyard_schema/unknown_fields.py",
        *(f"steelyard_local_kubernetes/apiserver/{name}" for name in own),
    }


def test_schemas_are_read_by_what_counts_them() -> None:
    reading = re.compile(r"ipc\.(open_stream|open_file|read_schema)\(|pq\.(read_\w+|ParquetFile)\(")
    programs = {
        short_name(path)
        for path in modules()
        if not path.name.startswith("test_")
        and "doubles" not in path.name
        and reading.search(path.read_text())
    }
    # The last two map files that they have just written themselves.
    bounded = {f"steelyard_common/bounded_{name}.py" for name in ("arrow", "parquet", "schema")}
    assert programs == bounded | {
        "steelyard_evaluation/report/answers.py",
        "steelyard_evaluation/runs/folder.py",
    }


def test_every_session_has_connections_that_close_what_is_theirs() -> None:
    """aiohttp's own connector makes plain sockets."""
    bare = []
    for path in modules():
        if path.name.startswith("test") or "aiohttp" not in (text := path.read_text()):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) not in (
                "aiohttp.ClientSession",
                "aiohttp.TCPConnector",
            ):
                continue
            if not any(keyword.arg == "connector" for keyword in node.keywords):
                bare.append(f"{short_name(path)}:{node.lineno}")
    assert bare == []
