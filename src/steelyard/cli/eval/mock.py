"""`steelyard eval mock`: an endpoint with mock models, to try the other commands on."""

from typing import Annotated

import typer

HOST = "127.0.0.1"


def mock(
    port: Annotated[
        int, typer.Option(metavar="N", min=1, max=65535, help="Port on 127.0.0.1 to listen on.")
    ] = 8000,
    latency: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Time that every answer takes.")
    ] = 0.05,
    error_rate: Annotated[
        float,
        typer.Option(metavar="SHARE", min=0, max=1, help="Share of the calls that fail with status 503."),
    ] = 0.0,
    abort_rate: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0,
            max=1,
            help="Share of the answers that are cut short, as by a server that is shut down.",
        ),
    ] = 0.0,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed of the faults.")] = 0,
) -> None:
    """Serve mock models, to try the other commands without a model. Their API is OpenAI's; Ctrl-C ends it.

    The models small, medium and large answer "What is 17 + 25?", each with a different share of mistakes; a model of
    another name is like medium. Every model can be asked as a judge. They answer anything else with random words.
    """
    from steelyard.cli.eval.mock_models import JUDGE, RIGHT_SHARES, MockModels
    from steelyard.steps.mock_inference_service import Faults, Mock, make_app
    from steelyard_common.errors import UsageError
    from steelyard_common.serving.aiohttp_server import run

    faults = Faults(latency_ms=1000 * latency, error_rate=error_rate, abort_rate=abort_rate, seed=seed)
    app = make_app(Mock(faults, models=(*RIGHT_SHARES, JUDGE), answer_to=MockModels()))
    url = f"http://{HOST}:{port}/v1"
    listening = f"{url} serves the models {', '.join(RIGHT_SHARES)} and {JUDGE}; Ctrl-C ends it"
    try:
        run(app, HOST, port, ready=lambda: typer.echo(listening), shutdown_timeout=1)
    except OSError as error:
        raise UsageError(f"--port {port}: {error.strerror or error}") from error
