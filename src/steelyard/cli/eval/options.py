"""Arguments and options that several commands of `steelyard eval` take."""

from pathlib import Path
from typing import Annotated

import typer

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
ReducerOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Over replications: mean, majority, best, pass@k.")
]
GroupOption = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Scores by this column, too.")]
ClusterOption = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Rows of one value depend on each other.")
]
SignKeyOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Ed25519 key (PEM) that signs the attestation.")
]
MaxTokensOption = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Stop at so many tokens, of the model and its judges together."),
]
MaxCostOption = Annotated[
    float | None,
    typer.Option(
        metavar="COST", min=0, help="Stop at this cost, of the model and its judges together; needs --prices."
    ),
]
PricesOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="What a million tokens cost, by the name of the model (YAML)."),
]
MaxTimeOption = Annotated[
    str | None, typer.Option(metavar="TIME", help="Stop after this long: 90s, 15m, 2h.")
]
JudgeModelOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="A model that is asked to judge each answer (rubric verdict); again for more."
    ),
]
JudgeUrlOption = Annotated[
    list[str] | None,
    typer.Option(metavar="URL", help="Where the judges are; by default where the model is."),
]
JudgeCriteriaOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="What makes an answer right: text, or @FILE.")
]
JudgePromptOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The judges' prompt: Jinja of question, response, target, criteria."),
]
JudgeAgainstOption = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Ask which is better, the answer or the one in this column. Both orders are asked; a win is one in both.",
    ),
]
JudgeTimesOption = Annotated[
    int | None,
    typer.Option(min=1, max=100, metavar="N", help="How often each answer, or each order, is judged."),
]
JudgeKeyOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The variable with their key; by default the model's."),
]
