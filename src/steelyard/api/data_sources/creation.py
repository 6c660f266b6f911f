"""Data sources from their create requests. A workflow fetches their files, or a client uploads them."""

from collections.abc import Sequence

from steelyard.api.datasets.creation import WAITING_FOR_UPLOAD
from steelyard.api.entities.creation import NewEntity
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard.egress.policy import check_url
from steelyard_schema.data_source import UPLOAD, DataSource, pattern_notes, upload_note
from steelyard_schema.egress import EgressRefused
from steelyard_schema.entities import AnyEntity
from steelyard_schema.requests import DataSourceCreateRequest
from steelyard_schema.source_addresses import source_address


async def data_source(
    context: RequestContext, request: DataSourceCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    if request.sourceKind == UPLOAD:
        content = request.dump()
        content.pop("artifacts")
        note = upload_note({artifact.path: artifact.digest.md5 for artifact in request.artifacts})
        return [new.entity(DataSource, {**content, "annotations": [note.dump()]}, WAITING_FOR_UPLOAD)]
    address = source_address(request.sourceKind, request.source)
    if not address.takes_token:  # the hub's own address may stand for its mirror, which the step alone knows
        try:
            check_url(context.api.platform.egress.policy("sources"), address.origin, "source")
        except EgressRefused as error:
            raise Invalid(str(error), field="source") from error
    if new.references and not address.takes_token:
        # The address of another server is the user's own, and a token would be sent wherever it points.
        raise Invalid(
            "secrets.source: a source on another server takes no token; one of the hub or of Zenodo by its name does",
            field="secrets.source",
        )
    content = request.dump()
    for field in ("artifacts", "files"):
        content.pop(field, None)
    return [new.entity(DataSource, {**content, "annotations": pattern_notes(request.files)})]
