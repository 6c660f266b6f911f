"""`steelyard team …`: decisions about teams, for organisers of challenges."""

from typing import Annotated

import typer

from steelyard.cli.connection import PlatformOptions, one_id
from steelyard.cli.option_groups import with_options

TeamArgument = Annotated[str, typer.Argument(help="Id or name of the team.")]

team = typer.Typer(
    help="Approve and deny teams that ask to enter a challenge.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@team.command("approve")
@with_options
def approve(id: TeamArgument, *, platform: PlatformOptions) -> None:
    """Let a team take part in its challenge. It takes the right to edit the challenge."""
    _decide(id, platform, approved=True)


@team.command("deny")
@with_options
def deny(id: TeamArgument, *, platform: PlatformOptions) -> None:
    """Deny a team the entry to its challenge, or end its part. It takes the right to edit the challenge."""
    _decide(id, platform, approved=False)


def _decide(id: str, platform: PlatformOptions, *, approved: bool) -> None:
    from steelyard.client import NotFound
    from steelyard_common.errors import UsageError

    with platform.connect() as client:
        try:
            asked = client.teams.get(one_id(client, "teams", id))
        except NotFound as error:
            raise UsageError(
                f"team: there is no team {id}; `steelyard get teams` lists what there is"
            ) from error
        decide = client.challenges.approve_team if approved else client.challenges.deny_team
        decided = decide(asked.challenge, asked.id)
    typer.echo(f"teams/{decided.id} {decided.status}")
