"""The pages of a challenge and of its tasks."""

from typing import Annotated

from pydantic import Field

from steelyard_schema.base import SchemaModel, Time
from steelyard_schema.bounds import FEW, Summary, Text, Title, Word


class ChallengeContentPage(SchemaModel):
    """A page about a challenge or a task."""

    title: Title = "Untitled Challenge"
    """Title, at most 140 characters."""
    summary: Summary = ""
    """Summary, at most 280 characters."""
    body: Text = ""
    """Page in Markdown."""


class ChallengeNewsItem(SchemaModel):
    """A piece of news about a challenge."""

    id: Word
    """Identifier of the item."""
    title: Title
    """Title, at most 140 characters."""
    summary: Summary
    """The news, in at most 280 characters."""
    postingTime: Time
    """Time at which the item was posted."""


class ChallengeContent(SchemaModel):
    """Content of a challenge."""

    page: ChallengeContentPage = Field(default_factory=ChallengeContentPage)
    """Page of the challenge."""
    news: Annotated[dict[Word, ChallengeNewsItem], FEW] = Field(default_factory=dict)
    """News by their keys."""


class ChallengeTaskContent(SchemaModel):
    """Content of a task."""

    page: ChallengeContentPage = Field(default_factory=ChallengeContentPage)
    """Page of the task."""
