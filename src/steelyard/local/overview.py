"""Overview of one state folder, as `steelyard status` prints it: processes, addresses, nodes and counts of
resources.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field

from steelyard.local.leftovers import living
from steelyard.local.process import PARTS
from steelyard.local.process import SERVICES as PLATFORM_SERVICES
from steelyard.local.state import Record, StateDir, explain_no_state_folder, read_ready, read_record
from steelyard_common.lock import is_held
from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.client import connect
from steelyard_kube.errors import ApiError
from steelyard_kube.objects import read_annotations, read_status
from steelyard_kube.resource import DEPLOYMENTS, DYFF, JOBS, NODES, PODS, SERVICES

GPUS = "steelyard/gpus"
"""Annotation of a Node, by the kubelet (`steelyard_local_kubernetes/gpus/gpus.py`)."""
COUNTED = (*DYFF, JOBS, PODS, DEPLOYMENTS, SERVICES)


@dataclass(frozen=True)
class Process:
    name: str
    pid: int
    restarts: int = 0


@dataclass(frozen=True)
class Overview:
    """One snapshot. `api` says what Kubernetes answered: `ready`, or why there is nothing more to show."""

    state: str
    running: bool
    api: str
    url: str = ""
    platform: str = ""
    kubeconfig: str = ""
    pods_network: str = ""
    services_network: str = ""
    processes: tuple[Process, ...] = ()
    missing: str | None = None  # why it is not a state folder
    refusals: Mapping[str, str] = field(default_factory=dict)  # part -> why it does not work
    metrics: Mapping[str, str] = field(default_factory=dict)  # process -> address of its /metrics
    nodes: tuple[Json, ...] = ()
    resources: dict[str, dict[str, int]] = field(default_factory=dict)  # plural -> status -> how many


async def read_overview(state: StateDir) -> Overview:
    """Return the running parts, and the content of the state folder."""
    record = read_record(state)
    running = bool(living([(record.pid, record.started)]))
    children = {name: pid for name, (pid, started) in record.children.items() if living([(pid, started)])}
    processes = [Process("supervisor", record.pid)] if running else []
    processes += [Process(name, pid, record.restarts.get(name, 0)) for name, pid in children.items()]
    base = Overview(
        str(state.path),
        running,
        "not running",
        processes=tuple(processes),
        refusals=record.refusals,
        missing=explain_no_state_folder(state),
        metrics=_metrics(state, record),
    )
    if not running:
        return base
    # Only here: to say that nothing runs, no extra is needed.
    from steelyard_local_kubernetes.network import Network

    network = Network(record.network)
    addresses = {
        "url": f"https://127.0.0.1:{record.port}",
        "kubeconfig": str(state.kubeconfig),
        "pods_network": network.pods,
        "services_network": network.services,
    }
    ready = read_ready(state)
    if ready is None:
        return Overview(**{**vars(base), **addresses, "api": "starting"})
    addresses["platform"] = ready.api or ""
    try:
        nodes, resources = await _ask(state)
    except (ApiError, OSError) as error:
        return Overview(**{**vars(base), **addresses, "api": f"does not answer: {error}"})
    return Overview(**{**vars(base), **addresses, "api": "ready", "nodes": nodes, "resources": resources})


def _metrics(state: StateDir, record: Record) -> Mapping[str, str]:
    """Return the addresses of figures, of those processes that live: who was killed leaves its file."""
    alive = {name for name in PARTS if is_held(state.lock(name))}
    if alive & set(PLATFORM_SERVICES):
        alive.add("platform")
    addresses = {"kubernetes": f"https://127.0.0.1:{record.port}/metrics"} if "kubernetes" in alive else {}
    for name in sorted(alive):
        with suppress(OSError):
            addresses[name] = state.metrics(name).read_text().strip()
    return addresses


async def _ask(state: StateDir) -> tuple[tuple[Json, ...], dict[str, dict[str, int]]]:
    from steelyard_local_kubernetes.names.table import is_of_the_api

    cluster = await connect(state.kubeconfig)
    try:
        nodes = tuple(_node(node) for node in (await cluster.list(NODES)).items)
        counts = {
            resource.plural: Counter(
                _state_word(obj)
                for obj in (await cluster.list(resource)).items
                if obj["kind"] != "Service" or not is_of_the_api(obj)
            )
            for resource in COUNTED
        }
        return nodes, {plural: dict(sorted(count.items())) for plural, count in counts.items()}
    finally:
        await cluster.close()


def _node(node: Json) -> Json:
    status = read_status(node)
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in sequence(status, "conditions")
    )
    return {
        "name": node["metadata"]["name"],
        "ready": ready,
        "allocatable": mapping(status, "allocatable"),
        "gpus": node_gpus(node),
    }


def node_gpus(node: Json) -> list[Json]:
    """Return the GPUs that a Node says it has, with who has them; none where its annotation cannot be read."""
    text = read_annotations(node).get(GPUS)
    try:
        entries = json.loads(text) if text else []
    except ValueError:
        return []
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _state_word(obj: Json) -> str:
    """One word for how an object fares, whatever its kind."""
    status = read_status(obj)
    word = status.get("status") or status.get("phase")
    if word:
        return str(word)
    true = {
        condition["type"] for condition in sequence(status, "conditions") if condition["status"] == "True"
    }
    return next((state for state in ("Failed", "Complete", "Available") if state in true), "present")


def to_json(seen: Overview) -> str:
    return json.dumps(asdict(seen), indent=2)


def _gpu_table(gpus: Sequence[Json]) -> list[str]:
    if not gpus:
        return []
    rows = [("GPU", "COUNTS AS", "NAME", "MEMORY", "STATE")]
    rows += [
        (
            gpu.get("uuid", ""),
            gpu.get("resource", ""),
            gpu.get("name", ""),
            f"{gpu.get('memory', 0) / (1 << 30):.0f} GiB",
            gpu.get("state", ""),
        )
        for gpu in gpus
    ]
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(rows[0]))]
    return [
        "",
        *(
            "".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ),
    ]


def to_table(seen: Overview) -> str:
    if not seen.running:
        left = "".join(
            f"\n  left by a killed up: {process.name} (pid {process.pid})" for process in seen.processes
        )
        why = "".join(f"\n  {name} refused to work: {why}" for name, why in seen.refusals.items())
        what = f": {seen.missing}" if seen.missing else ""
        alone = "".join(f"\n  {name} runs alone, metrics: {url}" for name, url in seen.metrics.items())
        return f"nothing runs on {seen.state}{what}{left}{why}{alone}"
    lines = [
        f"{'state':<12}{seen.state}",
        *([f"{'platform':<12}{seen.platform}"] if seen.platform else []),
        *(f"{'REFUSED':<12}{name}: {why}" for name, why in seen.refusals.items()),
        f"{'kubernetes':<12}{seen.url} ({seen.api})",
        f"{'kubeconfig':<12}{seen.kubeconfig}",
    ]
    lines += [f"{'addresses':<12}Pods {seen.pods_network}, Services {seen.services_network}", ""]
    lines += [f"{'PROCESS':<16}{'PID':<10}RESTARTS"]
    lines += [f"{process.name:<16}{process.pid:<10}{process.restarts}" for process in seen.processes]
    lines += ["", f"{'METRICS':<16}ADDRESS"]
    lines += [f"{name:<16}{address}" for name, address in seen.metrics.items()]
    lines += ["", f"{'NODE':<16}{'READY':<10}ALLOCATABLE"]
    for node in seen.nodes:
        sizes = ", ".join(f"{key} {value}" for key, value in node["allocatable"].items())
        lines.append(f"{node['name']:<16}{node['ready']!s:<10}{sizes}")
    lines += _gpu_table([gpu for node in seen.nodes for gpu in node.get("gpus", ())])
    lines += ["", f"{'RESOURCE':<22}{'COUNT':<8}STATUS"]
    for plural, counts in seen.resources.items():
        words = ", ".join(f"{word} {n}" for word, n in counts.items())
        lines.append(f"{plural:<22}{sum(counts.values()):<8}{words}".rstrip())
    return "\n".join(lines)
