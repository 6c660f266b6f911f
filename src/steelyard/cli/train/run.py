"""`steelyard train run`: runs a script on many workers, and follows it to its end."""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.train.cluster import ClusterOptions, on_cluster
from steelyard.clusters.names import MAX_NUMBER, MAX_REPLICAS

Text = str | None
Many = list[str] | None


@on_cluster
def run(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="Python script, or an executable program.")],
    arguments: Annotated[
        Many,
        typer.Argument(metavar="[ARGS]...", help="Arguments of the script; its options go after --."),
    ] = None,
    framework: Annotated[
        Text,
        typer.Option(
            "--framework",
            "-f",
            metavar="NAME",
            help="pytorch, tensorflow, jax, xgboost, lightgbm, mxnet, paddle, or a resource of kind Framework by its "
            "name or file. Default: what the script imports.",
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", "-w", min=0, max=MAX_REPLICAS, metavar="N", help="Number of workers.")
    ] = 1,
    replicas: Annotated[
        Many,
        typer.Option(
            metavar="TYPE=N",
            help="Number of replicas of a further type, such as PS=2 or Chief=1. May be repeated.",
        ),
    ] = None,
    python: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Python that runs the script, or the folder of an environment. Default: the active one.",
        ),
    ] = None,
    image: Annotated[
        Text,
        typer.Option(
            metavar="NAME",
            help="Container image with the framework, instead of --python. A cluster needs one.",
        ),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="On a cluster: further file to put next to the script. May be repeated.",
        ),
    ] = None,
    name: Annotated[
        Text, typer.Option(metavar="NAME", help="Name of the job. Default: made from the name of the script.")
    ] = None,
    env: Annotated[
        Many,
        typer.Option(
            "--env",
            "-e",
            metavar="NAME=VALUE",
            help="Environment variable; NAME alone takes its value from here. May be repeated.",
        ),
    ] = None,
    cpus: Annotated[Text, typer.Option(metavar="N", help="CPU cores per replica, such as 2 or 500m.")] = None,
    memory: Annotated[Text, typer.Option(metavar="SIZE", help="Memory per replica, such as 4Gi.")] = None,
    gpus: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=MAX_NUMBER, help="GPUs per replica (nvidia.com/gpu)."),
    ] = None,
    restart: Annotated[
        str,
        typer.Option(
            metavar="POLICY",
            help="When a replica starts again: ExitCode (it was killed; a program that fails by itself fails the job), "
            "OnFailure, Always or Never.",
        ),
    ] = "ExitCode",
    restart_scope: Annotated[
        Text,
        typer.Option(
            metavar="SCOPE",
            help="What starts again: Pod, ReplicaType or Job. Default: as the framework needs it; with OnFailure and "
            "Always the Pod.",
        ),
    ] = None,
    backoff_limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=MAX_NUMBER,
            help="Limit of restarts: with ExitCode N are made; with OnFailure and Always the N-th failure ends the "
            "job. Default: 6.",
        ),
    ] = None,
    deadline: Annotated[
        Text,
        typer.Option(
            metavar="TIME", help="Time after which the job fails, such as 90s, 15m or 2h. Default: no limit."
        ),
    ] = None,
    output_model: Annotated[
        Text,
        typer.Option(
            metavar="NAME", help="Make a Model of this name from what the script writes to $STEELYARD_OUTPUT."
        ),
    ] = None,
    output_claim: Annotated[
        Text,
        typer.Option(
            metavar="NAME",
            help="On a cluster: PersistentVolumeClaim for the output, which gets a folder of its own there.",
        ),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return once the job is created.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the manifest; create nothing.")] = False,
    display: Annotated[
        Text,
        typer.Option(
            metavar="FORM",
            help="How to show progress: live, plain, json or none. Default: live in a terminal, else plain.",
        ),
    ] = None,
    *,
    cluster: ClusterOptions,
) -> None:
    """Run a training script on many workers, and follow it.

    \b
    steelyard train run train.py --workers 4
    steelyard train run train.py --framework pytorch --workers 4 -- --epochs 3
    steelyard train run train.py --workers 2 --replicas PS=1 --replicas Chief=1 --python ~/envs/tf
    steelyard train run train.py --workers 4 --dry-run | kubectl apply -f -

    On this machine every replica is a process that runs the script in its folder. If no platform runs (steelyard up),
    one is started, and ended again. Ctrl-C asks whether to leave the job running or to stop it; without a terminal, a
    second signal within 10 s stops it, else it is left running. Exit status: 0 the job succeeded; it failed: the exit
    code of the replica that failed it, or 1; 2 wrong usage; 130 stopped or left by a signal.
    """
    from steelyard.cli.train import option_values
    from steelyard.cli.train.execute import TrainingRequest, execute
    from steelyard.cli.train.program import script as found_script

    training = TrainingRequest(
        script=found_script(script, arguments or []),
        framework=framework,
        workers=workers,
        replicas=option_values.replicas(replicas or []),
        python=python,
        image=image,
        files=tuple(files or ()),
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
    raise typer.Exit(execute(training, cluster, dry_run=dry_run, display=display))
