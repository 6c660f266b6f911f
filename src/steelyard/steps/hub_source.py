"""Models of the Hugging Face hub, listed and fetched by huggingface_hub itself.

`HF_ENDPOINT` is its own. A gated or private model needs a token, which is a secret of the account.
"""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import httpx

from steelyard.egress.httpx_client import make_guarded_client
from steelyard.steps.common import StepFailed
from steelyard.steps.model_sources import FETCH_FAILED, RemoteFile
from steelyard.steps.secret_files import scrub
from steelyard.steps.volume import SourceVersion
from steelyard_schema.egress import EgressPolicy, EgressRefused
from steelyard_schema.model import ModelSourceHuggingFaceHub
from steelyard_schema.resources import ModelResourceSpec

if TYPE_CHECKING:
    from huggingface_hub.hf_api import HfApi, ModelInfo

T = TypeVar("T")
RETRIED = frozenset({408, 425, 429})
SECONDS = 60.0
"""Longest time without a byte of an answer."""


async def hub_files(
    spec: ModelResourceSpec,
    scratch: Path,
    policy: EgressPolicy,
    version: SourceVersion,
    token: str | None = None,
) -> list[RemoteFile]:
    """Return the files of one commit, those that the patterns let through. Raises StepFailed.

    The commit is that of the first attempt, however the branch has moved since.

    For an artifact of kind HuggingFaceCache they lie as in the hub's own cache, which libraries find offline.
    `token` is that of the workflow's secret; without one, the hub is asked anonymously or with `HF_TOKEN`.
    """
    source = spec.source.huggingFaceHub
    if source is None:
        raise StepFailed("BadConfiguration", "spec.source.huggingFaceHub: is missing", permanent=True)
    _set_environment(scratch)
    from huggingface_hub import HfApi, hf_hub_download, set_client_factory, utils

    set_client_factory(lambda: make_guarded_client(policy, follow_redirects=True, timeout=SECONDS))
    repo = source.repoID
    endpoint = os.environ.get("HF_ENDPOINT")
    hub = HfApi(endpoint, token=token)

    info, commit = await _info_of_first_attempt(hub, source, version, token)
    chosen = utils.filter_repo_objects(  # type: ignore[attr-defined]
        info.siblings or [],
        allow_patterns=source.allowPatterns,
        ignore_patterns=source.ignorePatterns,
        key=lambda sibling: sibling.rfilename,
    )

    def at(name: str, size: int | None, sha256: str | None) -> RemoteFile:
        async def fetch(local: Path) -> None:
            got = await _in_thread(
                lambda: hf_hub_download(
                    # The commit, not the branch: it may move while files are fetched.
                    repo,
                    name,
                    revision=commit,
                    local_dir=scratch / "hub",
                    endpoint=endpoint,
                    token=token,
                ),
                token,
            )
            await asyncio.to_thread(shutil.move, got, local)

        return RemoteFile(prefix + name, fetch, size, sha256)

    cached = spec.artifact.kind == "HuggingFaceCache"
    root = f"models--{source.repoID.replace('/', '--')}"
    prefix = f"{root}/snapshots/{commit}/" if cached else ""
    files = [at(s.rfilename, s.size, s.lfs.sha256 if s.lfs else None) for s in chosen]
    if not files:
        raise StepFailed(FETCH_FAILED, f"no file of {source.repoID} matches the patterns", permanent=True)
    if cached and source.revision != commit:
        files.append(_note_of_revision(f"{root}/refs/{source.revision}", commit))
    return files


async def _info_of_first_attempt(
    hub: "HfApi", source: ModelSourceHuggingFaceHub, version: SourceVersion, token: str | None
) -> "tuple[ModelInfo, str]":
    """Return what the hub says of the commit that the first attempt found, and that commit."""

    async def info_at(revision: str) -> "ModelInfo":
        return await _in_thread(
            lambda: hub.model_info(source.repoID, revision=revision, files_metadata=True), token
        )

    info = await info_at(await version.find_version() or source.revision)
    commit = await version.keep(str(info.sha))
    # Another attempt that ran at the same time may have been the first.
    return (info if commit == info.sha else await info_at(commit)), commit


def _note_of_revision(name: str, commit: str) -> RemoteFile:
    """Return the file by which the hub's cache knows which commit a branch or tag was."""

    async def fetch(local: Path) -> None:
        await asyncio.to_thread(local.write_text, commit)

    return RemoteFile(name, fetch)


def _set_environment(scratch: Path) -> None:
    """Set what the library reads when it is imported."""
    # No home, no progress bars, no telemetry.
    os.environ.setdefault("HF_HOME", str(scratch / "home"))
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    # Its faster transfer has connections of its own, which no policy reaches.
    os.environ["HF_HUB_DISABLE_XET"] = "1"


async def _in_thread(call: Callable[[], T], token: str | None) -> T:
    """Call the library in a thread. Raises its failures as StepFailed, without the token."""
    from huggingface_hub import errors

    try:
        return await asyncio.to_thread(call)
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.EntryNotFoundError) as error:
        message = _refusal(error, token)
        raise StepFailed(FETCH_FAILED, message, permanent=True) from error
    except EgressRefused as error:
        raise StepFailed(FETCH_FAILED, scrub(str(error), token), permanent=True) from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        refused = 400 <= status < 500 and status not in RETRIED
        message = _refusal(error, token)
        raise StepFailed(FETCH_FAILED, message, permanent=refused) from error
    except (httpx.HTTPError, OSError) as error:
        raise StepFailed(
            FETCH_FAILED, f"the hub cannot be reached: {_first_line(error, token)}", permanent=False
        ) from error


def _refusal(error: Exception, token: str | None) -> str:
    """Return what the hub said; for a model that it does not show, how a token is given."""
    from huggingface_hub import errors

    said = _first_line(error, token)
    status = getattr(getattr(error, "response", None), "status_code", None)
    hidden = isinstance(error, errors.GatedRepoError) or status in (401, 403)
    if not hidden:
        return said
    advice = (
        "secrets.source: the hub refuses the token"
        if token
        else "secrets.source: none is given, and the model may be gated or private"
    )
    return f"{said} ({advice})"


def _first_line(error: Exception, token: str | None) -> str:
    text = scrub(str(error), token)
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
