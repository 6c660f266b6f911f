"""The route of the evidence of reports and audits."""

from collections.abc import Iterator

from steelyard.api.http.access import Grant
from steelyard.api.http.routing import Route
from steelyard.api.reports.evidence import evidence
from steelyard_schema.account import APIResource
from steelyard_schema.answers import EvidenceLinks


def evidence_routes(resource: APIResource) -> Iterator[Route]:
    yield Route(
        "GET", f"/v0/{resource}/{{id}}/evidence", Grant(resource, "data"), evidence,
        "Where to download it with all it was made from", None, EvidenceLinks, errors=(400, 409),
    )  # fmt: skip
