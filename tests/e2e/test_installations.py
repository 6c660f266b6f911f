"""Every command in each installation: where an extra is missing, one line says which `pip install` mends it."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import ROOT, install_wheel, make_environment
from tests.interface.command_line import commands

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]
CALLER = Path(__file__).parent / "call_commands.py"
ID = "0" * 32
RUN = f"eval run prompts.jsonl --model m --url http://127.0.0.1:9/v1 --wait-for-server 1s --output {ID}"


@dataclass(frozen=True)
class Call:
    """Arguments of `steelyard`, and the extra that an installation has to name: nothing where the command works."""

    words: str
    base: str = ""
    evaluation: str = ""
    """Expected output with the extra `eval`."""


# None of them starts anything: they end at what they ask for and do not get.
CALLS = (
    *(Call(f"account {verb} me") for verb in ("create", "permit", "reactivate", "suspend")),
    Call("account rotate-key"),
    Call("apply -f entities.yaml"),
    Call("appwrapper list", base="local"),
    *(Call(f"appwrapper {verb} demo", base="local") for verb in ("delete", "resume", "status", "suspend")),
    Call(f"audit download {ID} out"),
    Call(f"audit open {ID}"),
    Call(f"audit save {ID} out"),
    Call("audit sign empty --sign-key key.pem", base="eval"),
    Call("audit verify empty", base="eval"),
    Call("create -f entities.yaml"),
    Call(f"croissant show {ID}"),
    Call(f"croissant take {ID}"),
    Call(f"delete evaluation {ID}"),
    Call("demo --settings missing.toml", base="local", evaluation="local"),
    Call(f"describe evaluation {ID}"),
    Call("down"),
    Call(f"download evaluation {ID} out"),
    Call("eval compare empty empty", base="eval"),
    Call("eval export empty --output out", base="eval"),
    Call("eval mock --port BUSY", base="eval"),
    Call(RUN, base="eval"),
    Call("eval run hf:me/rows --model m --url http://127.0.0.1:9/v1", base="eval", evaluation="hub"),
    Call("eval score empty --rubric exact-match", base="eval"),
    Call("eval show empty", base="eval"),
    Call("get evaluations"),
    Call(f"label evaluation {ID} a=b"),
    Call(f"publish evaluation {ID} --access public"),
    Call("export out.tar", base="local"),
    Call("import missing.tar --state-dir missing", base="local"),
    Call("log accept", base="local"),
    Call("log restore", base="local"),
    Call("backup drill --state-dir missing", base="local"),
    Call("backup forgotten", base="local"),
    Call("backup write --state-dir missing", base="local"),
    Call(f"backup restore {ID}"),
    Call("config check", base="local"),
    Call("config init", base="local"),
    Call(f"quota delete {ID}"),
    Call("quota list"),
    Call("quota set me evaluations.dyff.io/active 2"),
    *(Call(f"queue {verb}", base="local") for verb in ("cohorts", "drain team", "list")),
    *(Call(f"queue {verb}", base="local") for verb in ("resume team", "usage", "workloads")),
    Call("ray apply -f cluster.yaml", base="local"),
    *(
        Call(f"ray {verb} demo", base="local")
        for verb in ("certificate", "dashboard", "delete", "status", "wait")
    ),
    Call("ray demos demos"),
    Call("ray list", base="local"),
    Call("ray list --kubeconfig missing", base="operator", evaluation="operator"),
    Call("ray scale demo 2", base="local"),
    Call("ray job list", base="local"),
    Call("ray job submit -f rayjob.yaml", base="local"),
    *(Call(f"ray job {verb} job", base="local") for verb in ("delete", "logs", "resubmit", "status")),
    *(Call(f"ray job {verb} job", base="local") for verb in ("stop", "wait")),
    Call(f"rerun pipelinerun {ID}"),
    Call("restore --dry-run --state-dir missing", base="local"),
    Call("log status", base="local"),
    Call(f"logs evaluation {ID}"),
    Call(f"logs -f evaluation {ID}"),
    Call(f"quarantine drop {ID}"),
    Call("quarantine list"),
    Call(f"quarantine release {ID}"),
    Call(f"quarantine show {ID}"),
    Call(f"report download {ID} out"),
    Call(f"report open {ID}"),
    Call(f"report save {ID} out"),
    Call("report sign empty --sign-key key.pem", base="eval"),
    Call("report verify empty", base="eval"),
    Call("run manifests", base="local", evaluation="local"),
    Call("runners check llama.cpp"),
    Call("runners install none"),
    Call("runners list"),
    Call("runners remove llama.cpp"),
    Call(f"safetycase download {ID} out"),
    Call(f"safetycase open {ID}"),
    Call(f"safetycase scores {ID}"),
    Call("secret delete hub-token --account me"),
    Call("secret list --account me"),
    Call("spend"),
    Call("secret set hub-token --account me --file entities.yaml"),
    Call("serve empty", base="local", evaluation="local"),
    Call("status", base="local"),
    Call(f"document model {ID}"),
    Call(f"family tag {ID} v1 {ID}"),
    Call(f"family untag {ID} v1"),
    *(Call(f"team {verb} {ID}") for verb in ("approve", "deny")),
    Call(f"terminate evaluation {ID}"),
    Call("token me"),
    Call("webhook create me https://hooks.example.org/"),
    *(Call(f"webhook {verb} me {ID}") for verb in ("delete", "enable", "rotate-secret", "test")),
    Call("webhook list me"),
    Call("train convert job.yaml", base="local"),
    Call("train delete job", base="local"),
    Call("train describe job", base="local"),
    Call("train list", base="local"),
    Call("train list --kubeconfig missing", base="operator", evaluation="operator"),
    Call("train logs job"),
    Call("train register job", base="local"),
    Call("train resume job", base="local"),
    Call("train run train.py", base="local"),
    Call("train stop job", base="local"),
    Call("train wait job", base="local"),
    Call("up --settings missing.toml", base="local", evaluation="local"),
    Call("upload dataset rows --account me", base="eval"),
    Call(f"wait evaluation {ID}"),
)
# What these run has no end: with the extra `local` they are left to the tests that start a platform.
SERVICES = (
    Call("service api", base="api", evaluation="api"),
    Call("service kubernetes", base="local", evaluation="local"),
    Call("service operator", base="operator", evaluation="operator"),
    Call("service orchestrator", base="api,operator", evaluation="api,operator"),
    Call("service platform", base="local", evaluation="local"),
)


class NothingThere(BaseHTTPRequestHandler):
    """An API that has no entity."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        body = json.dumps({"detail": "there is none", "reason": "NotFound", "field": None}).encode()
        self.send_response(404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the base class looks for these names

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing: the base class would write every request to standard error."""


@pytest.fixture(scope="module")
def api() -> Iterator[str]:
    """The address of an API that answers 404."""
    with ThreadingHTTPServer(("127.0.0.1", 0), NothingThere) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v0"
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that the calls name; none is of any use."""
    folder = tmp_path / "work"
    for name in ("empty", "manifests", "rows"):
        (folder / name).mkdir(parents=True)
    entity = f"kind: Report\naccount: me\nrubric: text.ExactMatch\nevaluation: '{ID}'\n"
    (folder / "entities.yaml").write_text(entity)
    (folder / "job.yaml").write_text("kind: TFJob\nmetadata: {name: job}\nspec: {}\n")
    (folder / "cluster.yaml").write_text("name: demo\n")
    (folder / "rayjob.yaml").write_text("name: job\nentrypoint: python main.py\ncluster: demo\n")
    (folder / "key.pem").write_text("no key")
    (folder / "manifests" / "config.yaml").write_text("kind: ConfigMap\n")
    (folder / "prompts.jsonl").write_text('{"prompt": "a", "target": "b"}\n')
    (folder / "rows" / "rows.parquet").write_text("no Parquet")
    (folder / "train.py").write_text("import torch\n")
    return folder


def test_every_command_is_called() -> None:
    called = {tuple(call.words.split()) for call in (*CALLS, *SERVICES)}
    assert [words for words in commands() if not any(call[: len(words)] == words for call in called)] == []


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment to which the tests add one extra after the other."""
    return make_environment(tmp_path_factory.mktemp("growing"))


# In this order: `eval` is a part of `local`, and what was installed is compiled once.
@pytest.mark.parametrize("extra", ["", "eval", "local"])
def test_a_missing_extra_is_one_line(extra: str, wheel: Path, python: Path, api: str, folder: Path) -> None:
    calls = CALLS if extra == "local" else (*CALLS, *SERVICES)
    lock = ROOT / "requirements" / "local.txt"
    install_wheel(python, wheel, f"[{extra}]" if extra else "", "--constraint", lock)
    environment = {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "STEELYARD_API_ENDPOINT": api,
        "STEELYARD_API_TOKEN": "token",
    }
    answered = subprocess.run(
        [python, CALLER],
        input=json.dumps([call.words.replace("BUSY", str(urlsplit(api).port)).split() for call in calls]),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    answers = zip(calls, json.loads(answered.stdout), strict=True)
    wrong = {call.words: fault for call, answer in answers if (fault := _fault(call, extra, *answer))}
    assert wrong == {}


def _fault(call: Call, extra: str, status: int, output: str, errors: str) -> str | None:
    """Return the fault of an answer; None where it is as it should be."""
    if "Traceback" in errors + output or status < 0:
        return f"ended with {status}: {errors[-1000:]}"
    lacking = {"": call.base, "eval": call.evaluation}.get(extra, "hub" if "hf:" in call.words else "")
    if not lacking:
        return errors if "pip install" in errors else None
    lines = [line for line in errors.splitlines() if "pip install" in line]
    if status == 2 and len(lines) == 1 and f"pip install 'steelyard[{lacking}]'" in lines[0] and not output:
        return None
    return f"should name the extra {lacking}: {status}: {output} {errors}"
