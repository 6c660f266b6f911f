"""Roles of callers in challenges, and what the rules of visibility show to each role.

A reviewer may read the challenge's data, or a team's; a submitter may read the data of one of its teams; the public is
everybody else who sees the challenge. A caller who may edit the challenge sees all of it, hidden parts included.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

import orjson

from steelyard.api.http.context import RequestContext
from steelyard.views.view import Query

Role = Literal["public", "submitter", "reviewer", "organiser"]
_RANKS: Mapping[str, int] = {"public": 0, "submitter": 1, "reviewer": 2, "hidden": 3}
"""Rank that a role needs for each visibility; only an organiser reaches that of `hidden`."""
_REACH: Mapping[Role, int] = {"public": 0, "submitter": 1, "reviewer": 2, "organiser": 3}
"""Rank of each role."""


def sees(role: Role, needed: str) -> bool:
    """Return whether the role suffices for a visibility such as `submitter` or `hidden`."""
    return _REACH[role] >= _RANKS[needed]


def most_visible(settings: Iterable[str | None], default: str) -> str:
    """Return the visibility that shows most, among those that are set; `default` where none is."""
    visibilities = [setting for setting in settings if setting is not None]
    return min(visibilities, key=lambda setting: _RANKS[setting]) if visibilities else default


def organises(context: RequestContext, account: str, id: str) -> bool:
    """Return whether the caller may edit a challenge of the account."""
    return context.access.allows("challenges", "edit", account, id)


async def own_challenges(context: RequestContext, challenge: str | None = None) -> frozenset[str]:
    """Return the challenges in which a team of the caller takes part; with `challenge`, only that one counts."""
    scope = context.access.scope("teams", "data")
    if not scope.accounts and not scope.entities:
        return frozenset()
    filters = {"challenge": (challenge,)} if challenge else {}
    # A team that waits for approval is no participant: anybody may ask to enter.
    query = Query("Team", {**filters, "status": ("Active",)}, scope=scope)
    return frozenset(orjson.loads(json)["challenge"] for json in await context.api.entities.query(query))


async def role_in(context: RequestContext, account: str, id: str) -> Role:
    """Return the caller's role in a challenge of the account."""
    if organises(context, account, id):
        return "organiser"
    if context.access.allows("challenges", "data", account, id):
        return "reviewer"
    return "submitter" if id in await own_challenges(context, id) else "public"
