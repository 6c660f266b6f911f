"""The work of `steelyard run`: it starts what is missing, prepares, applies, waits, and says what to try next."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard.cli.connection import choose_state_dir, short_path
from steelyard.cli.display import Display, Row, open_display
from steelyard.cli.manifests import Manifest, freshen, read_manifests
from steelyard.cli.next_steps import FinishedResource, closing_words
from steelyard.local.detached import UpOptions, running, start_detached, stop
from steelyard.local.state import StateDir
from steelyard.settings import load
from steelyard_common.errors import SteelyardError, UsageError
from steelyard_common.types import Json, mapping
from steelyard_evaluation.storage.store import ObjectMissing, Store, open_store
from steelyard_kube.client import connect
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError, Unreachable
from steelyard_kube.objects import read_conditions, read_status
from steelyard_kube.resource import Resource, find_resource
from steelyard_schema.locations import complete_location
from steelyard_schema.names import PROGRESS

POLL_SECONDS = 0.25


@dataclass(frozen=True)
class RunOptions:
    """The command's arguments."""

    folder: Path
    state_dir: Path | None
    settings: Path | None
    namespace: str
    timeout: int
    display: str


class RunFailed(SteelyardError):
    """A resource of the folder did not end well."""


async def run_folder(options: RunOptions) -> None:
    """Apply the folder's manifests one after the other; RunFailed says which one did not end well, and why."""
    manifests = freshen(read_manifests(options.folder))
    for manifest in manifests:
        # All kinds are checked before anything is started: the last file may be the wrong one.
        _resource(manifest)
    state = choose_state_dir(options.state_dir)
    display = open_display(options.display)
    try:
        async with _platform(state, options.settings, display) as storage:
            await _prepare(options.folder, storage, display)
            cluster = await connect(state.kubeconfig)
            try:
                ended = await _apply_all(cluster, manifests, options, storage, display)
            finally:
                await cluster.close()
        display.close()
        if options.display != "none":
            print(closing_words(ended, state, options.folder))
    finally:
        display.close()


@asynccontextmanager
async def _platform(state: StateDir, settings: Path | None, display: Display) -> AsyncIterator[str]:
    """The storage's URL, while the embedded Kubernetes and the operator run; processes started here are stopped."""
    storage = load(settings, state.path).storage
    if running(state):
        yield storage
        return
    display.say(f"starting the embedded Kubernetes and the operator in {short_path(state.path)}")
    options = UpOptions(settings=settings, without=("platform",))  # manifests alone need none
    starting = asyncio.ensure_future(asyncio.to_thread(start_detached, state.path, options))
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:  # Ctrl-C: what has begun to start can only be ended once it is there
        await starting
        await asyncio.to_thread(stop, state.path)
        raise
    try:
        yield storage
    finally:
        await asyncio.to_thread(stop, state.path)


async def _prepare(folder: Path, storage: str, display: Display) -> None:
    script = folder / "prepare.py"
    if not script.is_file():
        return
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        env=os.environ | {"STEELYARD_STORAGE": storage},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await process.communicate())[0].decode(errors="replace").strip()
    if process.returncode:
        raise RunFailed(f"{script} exited {process.returncode}:\n{output}")
    if output:
        display.say(output)


async def _apply_all(
    cluster: Cluster, manifests: Sequence[Manifest], options: RunOptions, storage: str, display: Display
) -> list[FinishedResource]:
    rows = [Row(manifest.kind, manifest.name) for manifest in manifests]
    ended: list[FinishedResource] = []
    for number, manifest in enumerate(manifests):
        manifest.content["metadata"].setdefault("namespace", options.namespace)
        began = time.monotonic()
        async for row, obj in _follow(cluster, manifest, storage):
            seconds = time.monotonic() - began
            rows[number] = replace(row, seconds=seconds)
            display.show(rows)
            if _ended(obj):
                break
            if seconds > options.timeout:
                raise RunFailed(
                    f"{manifest.kind} {manifest.name}: not finished after --timeout {options.timeout} s"
                )
        if not (_condition(obj, "Complete") or _condition(obj, "Ready")):
            raise RunFailed(
                f"{manifest.kind} {manifest.name} ended as {rows[number].status}: {rows[number].detail}\n"
                f"  see: kubectl --kubeconfig {short_path(choose_state_dir(options.state_dir).kubeconfig)}"
                f" describe {manifest.kind.lower()} {manifest.name}"
            )
        ended.append(
            FinishedResource(
                manifest.kind, manifest.name, _output_url(obj, storage), time.monotonic() - began
            )
        )
    return ended


async def _follow(cluster: Cluster, manifest: Manifest, storage: str) -> AsyncIterator[tuple[Row, Json]]:
    """The resource as it comes along: created, then looked at until the caller has seen enough."""
    resource = _resource(manifest)
    metadata = manifest.content["metadata"]
    try:
        obj = await cluster.create(resource, manifest.content)
    except ApiError as error:
        raise RunFailed(
            f"{manifest.file}: {manifest.kind} {manifest.name} is refused: {error.message}"
        ) from error
    output = _output_url(obj, storage)
    store = open_store(output) if output else None
    while True:
        yield _row(obj, await _progress(store)), obj
        await asyncio.sleep(POLL_SECONDS)
        try:
            obj = await cluster.get(resource, metadata["name"], metadata["namespace"])
        except Unreachable:
            continue  # the API server may be starting again; the timeout bounds this


def _row(obj: Json, progress: Json | None) -> Row:
    status = read_status(obj)
    state, reason = status.get("status") or "Created", status.get("reason") or ""
    failed = _condition(obj, "Failed")
    current = _condition(obj, "Complete") or _condition(obj, "Ready") or _condition(obj, "Progressing")
    detail = str((failed or {}).get("message") or (current or {}).get("message") or "")
    share = None
    if progress and progress.get("total") and not _ended(obj):
        done, total = progress["done"], progress["total"]
        share = min(1.0, done / total)
        rate = f", {progress['ratePerSecond']:,.0f}/s" if progress.get("ratePerSecond") else ""
        detail = f"{done:,} of {total:,} {progress.get('unit', 'rows')}{rate}"
    # In these states the reason says more: what the resource waits for.
    word = reason if state in {"Created", "Admitted"} and reason else state
    if failed:
        detail = f"{reason}: {detail}" if detail else reason
    return Row(obj["kind"], obj["metadata"]["name"], word, detail, share)


def _condition(obj: Json, kind: str) -> Json | None:
    conditions = read_conditions(obj)
    return next(
        (
            condition
            for condition in conditions
            if condition["type"] == kind and condition["status"] == "True"
        ),
        None,
    )


def _ended(obj: Json) -> bool:
    """Finished; a session, which finishes only when it expires, once it is ready."""
    session_ready = obj["kind"] == "InferenceSession" and _condition(obj, "Ready")
    return bool(_condition(obj, "Finished") or session_ready)


def _resource(manifest: Manifest) -> Resource:
    try:
        return find_resource(manifest.content)
    except KeyError:
        kind = f"{manifest.content['apiVersion']} {manifest.kind}"
        raise UsageError(f"{manifest.file}: {kind} is not served by the embedded Kubernetes") from None


def _output_url(obj: Json, storage: str) -> str:
    output = mapping(obj, "spec", "storage").get("output")
    return complete_location(output, storage) if output else ""


async def _progress(store: Store | None) -> Json | None:
    if store is None:
        return None
    try:
        content = json.loads(await store.get(PROGRESS))
    except (ObjectMissing, ValueError):
        return None
    return content if isinstance(content, dict) else None
