"""Route of restores, for administrators."""

from collections.abc import Iterator

from steelyard.api.backups import restoring
from steelyard.api.http.access import Administrator
from steelyard.api.http.routing import Route
from steelyard_schema.answers import Status


def backup_routes() -> Iterator[Route]:
    path, summary = "/v0/backup/{id}/restore", "Bring back a deleted or forgotten entity"
    yield Route("PUT", path, Administrator(), restoring.restore, summary, None, Status)
