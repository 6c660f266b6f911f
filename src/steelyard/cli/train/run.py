"""`steelyard train run`: a script on many workers, followed to its end."""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.train.cluster import ClusterOptions, on_cluster
from steelyard.clusters.names import MAX_NUMBER, MAX_REPLICAS

Text = str | None
Many = list[str] | None


@on_cluster
def run(
    script: Annotated[
        str, typer.Argument(metavar="SCRIPT", help="A Python script, or a program that may be executed.")
    ],
    arguments: Annotated[
        Many,
        typer.Argument(metavar="[ARGS]...", help="What it is called with; its options go after --."),
    ] = None,
    framework: Annotated[
        Text,
        typer.Option(
            "--framework",
            "-f",
            metavar="NAME",
            help="pytorch, tensorflow, jax, xgboost, lightgbm, mxnet, paddle, a resource of kind Framework "
            "or its file; by default what the script imports.",
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", "-w", min=0, max=MAX_REPLICAS, metavar="N", help="How many train.")
    ] = 1,
    replicas: Annotated[
        Many, typer.Option(metavar="TYPE=N", help="Further replica types, such as PS=2 or Chief=1.")
    ] = None,
    python: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The Python that runs it, or the folder of an environment; by default the active one.",
        ),
    ] = None,
    image: Annotated[
        Text, typer.Option(metavar="NAME", help="Instead: a container image with the framework in it.")
    ] = None,
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            "--file", metavar="FILE", help="On a cluster: put it beside the script; may be repeated."
        ),
    ] = None,
    name: Annotated[
        Text, typer.Option(metavar="NAME", help="Of the job; by default from the script's.")
    ] = None,
    env: Annotated[
        Many,
        typer.Option("--env", "-e", metavar="NAME=VALUE", help="A variable; NAME alone: its value here."),
    ] = None,
    cpus: Annotated[Text, typer.Option(metavar="N", help="Of each replica, such as 2 or 500m.")] = None,
    memory: Annotated[Text, typer.Option(metavar="SIZE", help="Of each replica, such as 4Gi.")] = None,
    gpus: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=MAX_NUMBER, help="Of each replica (nvidia.com/gpu).")
    ] = None,
    restart: Annotated[
        str,
        typer.Option(
            metavar="POLICY",
            help="ExitCode: what was killed starts again, a program that fails by itself fails the job. OnFailure, "
            "Always, Never.",
        ),
    ] = "ExitCode",
    restart_scope: Annotated[
        Text,
        typer.Option(
            metavar="SCOPE",
            help="What starts again: Pod, ReplicaType or Job; by default as the framework needs it.",
        ),
    ] = None,
    backoff_limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=MAX_NUMBER, help="Restarts allowed in all; by default 6."),
    ] = None,
    deadline: Annotated[
        Text, typer.Option(metavar="TIME", help="Fail after this long: 90s, 15m, 2h.")
    ] = None,
    output_model: Annotated[
        Text,
        typer.Option(
            metavar="NAME", help="What it writes to $STEELYARD_OUTPUT becomes a Model of this name."
        ),
    ] = None,
    output_claim: Annotated[
        Text,
        typer.Option(
            metavar="NAME",
            help="On a cluster: the PersistentVolumeClaim that the output is written to, in a folder of its own.",
        ),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return once the job is made.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the manifest; make nothing.")] = False,
    display: Annotated[
        Text, typer.Option(metavar="FORM", help="live, plain, json or none; by default by terminal.")
    ] = None,
    *,
    cluster: ClusterOptions,
) -> None:
    """Train a script on many workers, and follow it.

    \b
    steelyard train run train.py --workers 4
    steelyard train run train.py --framework pytorch --workers 4 -- --epochs 3
    steelyard train run train.py --workers 2 --replicas PS=1 --replicas Chief=1 --python ~/envs/tf
    steelyard train run train.py --workers 4 --dry-run | kubectl apply -f -

    On this machine every replica is a process that runs the script where it lies; without a platform (steelyard up)
    one is started, and ended again. Ctrl-C asks whether to leave the job running or to stop it; without a terminal a
    second signal within 10 s stops it, else it is left running. Exit status: that of the job: 0, or the exit code of
    the replica that failed it (1 where there is none); 2 wrong usage, 130 stopped or left by a signal.
    """
    from steelyard.cli.train import option_values
    from steelyard.cli.train.execute import Asked, go
    from steelyard.cli.train.program import script as found_script

    asked = Asked(
        script=found_script(script, arguments or []),
        framework=framework,
        workers=workers,
        replicas=option_values.replicas(replicas or []),
        python=python,
        image=image,
        beside=tuple(beside or ()),
        name=name,
        environment=option_values.environment(env or []),
        resources=option_values.resources(cpus, memory, gpus),
        restart=restart,
        restart_scope=restart_scope,
        backoff_limit=backoff_limit,
        deadline=option_values.deadline(deadline),
        output_model=output_model,
        output_claim=output_claim,
        detach=detach,
    )
    raise typer.Exit(go(asked, cluster, dry_run=dry_run, display=display))
