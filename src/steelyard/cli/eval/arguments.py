"""Arguments that several commands of `steelyard eval` take."""

from pathlib import Path
from typing import Annotated

import typer

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
