"""Lists of what a repository holds: its tags, and the referrers of a manifest."""

import re
from urllib.parse import quote, urlencode

import orjson
from starlette.responses import Response

from steelyard.api.http.context import RequestContext
from steelyard.api.http.responses import value_response
from steelyard.api.registry.errors import DigestInvalid, TagInvalid
from steelyard.api.registry.manifests import find_referrers
from steelyard.api.registry.referrers import cut_page
from steelyard.api.registry.repository import MOST_TAGS, hex_digits, readable

INDEX = "application/vnd.oci.image.index.v1+json"
"""Media type of a list of manifests."""
_HEX = re.compile("[0-9a-f]{64}")


async def tags(context: RequestContext) -> Response:
    """The tags in order: at most `n`, after the tag `last`."""
    repository = await readable(context)
    asked, last = context.query.get("n", str(MOST_TAGS)), context.query.get("last", "")
    if not re.fullmatch(r"[0-9]{1,9}", asked):
        raise TagInvalid("n: should be a number of tags")
    limit = min(int(asked), MOST_TAGS)
    after = [tag for tag in await repository.tags() if tag > last]
    page = after[:limit]
    response = value_response({"name": f"artifacts/{repository.id}", "tags": page})
    if page and len(after) > limit:
        response.headers["Link"] = (
            f'<{repository.path}/tags/list?n={limit}&last={quote(page[-1])}>; rel="next"'
        )
    return response


async def referrers(context: RequestContext) -> Response:
    """Answer with an index of the manifests whose subject is the digest; with `artifactType`, only those of the type.

    The index may be empty. The subject need not be there: it may be pushed later than what refers to it.
    """
    repository, subject = await readable(context), context.values["digest"]
    artifact_type, last = context.query.get("artifactType"), context.query.get("last", "")
    if last and not _HEX.fullmatch(last):
        raise DigestInvalid(
            "last: should be 64 hexadecimal digits in lower case, as a link to the next page has them"
        )
    everything = await find_referrers(repository, hex_digits(subject))
    after = [referrer for referrer in everything if referrer.manifest > last]
    page = cut_page(after)
    descriptors = await repository.referrers.read(page)
    if artifact_type is not None:
        descriptors = [item for item in descriptors if item.get("artifactType") == artifact_type]
    content = orjson.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": descriptors})
    response = Response(content, media_type=INDEX)
    if artifact_type is not None:
        response.headers["OCI-Filters-Applied"] = "artifactType"
    if len(page) < len(after):
        query = {"artifactType": artifact_type} if artifact_type is not None else {}
        further = urlencode({**query, "last": page[-1].manifest})
        response.headers["Link"] = f'<{repository.path}/referrers/{subject}?{further}>; rel="next"'
    return response
