"""Facts of a Croissant file that are kept with a dataset: the published entity has no room for most of them."""

from pydantic import Field

from steelyard_schema.base import SchemaModel


class Facts(SchemaModel):
    """Description of a dataset, in the words of Croissant."""

    name: str | None = Field(default=None, max_length=1000)
    """Name of the dataset."""
    description: str | None = Field(default=None, max_length=100_000)
    """Description of the dataset."""
    license: list[str] = Field(default=[], max_length=20)
    """Licences, as URLs or names."""
    citeAs: str | None = Field(default=None, max_length=20_000)  # noqa: N815 - Croissant's own names
    """Citation, such as an entry of BibTeX."""
    url: str | None = Field(default=None, max_length=2000)
    """Page about the dataset."""
    version: str | None = Field(default=None, max_length=200)
    """Version of the dataset."""
    datePublished: str | None = Field(default=None, max_length=100)  # noqa: N815
    """Date of the publication."""
    creator: list[str] = Field(default=[], max_length=200)
    """Names of those who made it."""
    keywords: list[str] = Field(default=[], max_length=200)
    """Keywords."""
    fields: dict[str, str] = Field(default={}, max_length=2000)
    """Descriptions of columns, by column."""
