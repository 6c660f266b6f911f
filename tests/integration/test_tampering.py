"""Tampering with a run's folder, and with what a reader has downloaded of a report and of an audit: verification names
the file and what is wrong, also where all digests were written again.
"""

import asyncio
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from typer.testing import CliRunner

from steelyard.cli.main import app
from steelyard_common.errors import UsageError
from steelyard_evaluation.engine.epoch import claim
from steelyard_evaluation.report.audit.example import DATASET, SERVICE, make_stored_report
from steelyard_evaluation.report.audit.make import Request as AuditRequest
from steelyard_evaluation.report.audit.make import make_audit
from steelyard_evaluation.report.audit.subject import Subject
from steelyard_evaluation.report.evidence.attestation import envelope, read_payload
from steelyard_evaluation.report.publish import make_publication, publish, publish_audit
from steelyard_evaluation.report.report import Request, make_report
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.request import RubricSpec
from steelyard_evaluation.runs.run import run
from steelyard_evaluation.storage.files import FileStore
from tests.integration.tampering import (
    digest_anew,
    drop_rows,
    edit_json,
    edit_table,
    raise_scores,
    swap_inputs,
)

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
NOW, BEFORE, EVALUATION = "2" * 32, "1" * 32, "9" * 32
SCHEMA = '{"type": "object", "required": ["n"]}'


@dataclass(frozen=True)
class Folder:
    """A copy of one of the folders that a reader may have; `report` is that of the report in it."""

    root: Path
    kind: str

    @property
    def command(self) -> str:
        return "audit" if self.kind == "audit" else "report"

    @property
    def page(self) -> Path:
        return self.root / ("index.html" if self.kind == "audit" else "report.html")

    @property
    def numbers(self) -> Path:
        return self.root / ("audit.json" if self.kind == "audit" else "report.json")

    @property
    def report(self) -> Path:
        return self.root / "reports" / NOW if self.kind == "audit" else self.root

    @property
    def inputs(self) -> Path:
        return self.root / "datasets" / DATASET if self.kind == "audit" else self.root / "inputs"

    @property
    def outputs(self) -> Path:
        return self.root / "evaluations" / EVALUATION if self.kind == "audit" else self.root / "outputs"

    @property
    def attestation(self) -> Path:
        return self.root / "attestation.json"

    def verify(self, *arguments: str) -> tuple[int, list[str]]:
        """Exit status and lines of the command."""
        done = CliRunner().invoke(app, [self.command, "verify", str(self.root), *arguments])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output.splitlines()

    def edited(self, path: Path, change: Callable[[Path], object], *, anew: bool = False) -> None:
        before = path.read_bytes()
        change(path)
        if anew:
            digest_anew(path, before, self.root)


async def make_run(root: Path) -> None:
    """Six answers, scored by a schema that lies in a file, and by a judge."""
    rows = [{"prompt": f"say {number}", "target": str(number)} for number in range(6)]
    prompts, schema = write_prompts(root / "p.parquet", rows), root / "schema.json"
    schema.write_text(SCHEMA)
    key = root / "key.pem"
    key.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    rubrics = (RubricSpec(f"json-schema?schema={schema}"), RubricSpec("judge.Verdict"))

    def answer(prompt: str) -> str:
        if "grading" in prompt:
            return "VERDICT: incorrect" if "say 1" in prompt else "VERDICT: correct"
        return "no" if prompt == "say 1" else '{"n": 1}'

    async with endpoint(answer) as server:
        request = make_request(
            prompts, server.url, judges=(JudgeSpec("grader", name="one"),), rubrics=rubrics
        )
        await run(request, root / "run", sign_key=key)
    schema.unlink()  # the report's own copy has to do


async def make_evidence(root: Path) -> None:
    """The folder that `steelyard report download ID --evidence` brings."""
    await make_stored_report(root, NOW, wrong=(1, 2))
    folder = root / "report"
    shutil.copytree(root / NOW / "dataset", folder / "inputs")
    shutil.copytree(root / NOW / "evaluation", folder / "outputs")
    request = Request(
        "classification.Classification",
        FileStore(folder / "inputs"),
        FileStore(folder / "outputs"),
        {"report": NOW, "inferenceService": SERVICE, "dataset": DATASET},
    )
    (root / "scratch").mkdir()
    await publish(await make_report(request, root / "scratch"), FileStore(folder), KEY)


async def make_audits(root: Path) -> None:
    """The folder that `steelyard audit download ID --evidence` brings, with an earlier audit."""
    folder = root / "audit"
    for identity, wrong in ((BEFORE, (1, 2, 3)), (NOW, (1,))):
        store = await make_stored_report(root, identity, wrong=wrong, evaluation=EVALUATION)
        earlier = FileStore(folder / "baseline") if identity == NOW else None
        subject = Subject(
            identity[0] * 31 + "a", "acme", "c" * 32, SERVICE, use_case="sorting letters", author="a team"
        )
        request = AuditRequest(subject, {identity: store}, earlier)
        (root / f"audit-{identity}").mkdir()
        made = await make_audit(request, root / f"audit-{identity}")
        output = folder if earlier else folder / "baseline"
        epoch = await claim(FileStore(output), f"1795241700-{NOW[:8]}-0001")
        await publish_audit(made, identity, make_publication(epoch), KEY)
        shutil.rmtree(output / ".steelyard")  # no reader gets the platform's own records
    shutil.copytree(root / NOW / "report", folder / "reports" / NOW, dirs_exist_ok=True)
    shutil.copytree(root / NOW / "dataset", folder / "datasets" / DATASET)
    shutil.copytree(root / NOW / "evaluation", folder / "evaluations" / EVALUATION)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One folder of each kind, whole and signed; and the public keys."""
    roots = {kind: tmp_path_factory.mktemp(kind) for kind in ("run", "report", "audit")}
    for kind, make in (("run", make_run), ("report", make_evidence), ("audit", make_audits)):
        asyncio.run(make(roots[kind]))
    return {kind: root / kind for kind, root in roots.items()}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("keys")
    for name, key in (("own", KEY), ("other", OTHER)):
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (folder / name).write_bytes(public)
    return {name: str(folder / name) for name in ("own", "other")}


def copied(originals: dict[str, Path], kind: str, root: Path) -> Folder:
    shutil.copytree(originals[kind], root / kind)
    return Folder(root / kind, kind)


# ---- ways to tamper


def dropped(folder: Folder) -> None:
    path = sorted(folder.outputs.glob("part-*.parquet"))[-1]
    edit_table(path, lambda table: table.slice(1))


def dropped_and_manifest_edited(folder: Folder) -> None:
    drop_rows(folder.outputs, folder.root)


def swapped(folder: Folder) -> None:
    swap_inputs(folder.inputs)


def swapped_anew(folder: Folder) -> None:
    path = sorted(folder.inputs.rglob("*.parquet"))[0]
    folder.edited(path, lambda _: swap_inputs(folder.inputs), anew=True)


def better_scores(folder: Folder) -> None:
    raise_scores(folder.report / "scores.parquet")


def better_scores_anew(folder: Folder) -> None:
    folder.edited(folder.report / "scores.parquet", raise_scores, anew=True)


def better_page(folder: Folder) -> None:
    folder.page.write_text(folder.page.read_text().replace("</h1>", " Certified.</h1>", 1))


def better_numbers(folder: Folder) -> None:
    edit_json(folder.numbers, lambda content: content.update(headline="All answers were right."))


def other_record(folder: Folder) -> None:
    edit_json(folder.outputs / ".steelyard/run.json", lambda content: content.update(created="2020-01-01"))


def other_record_anew(folder: Folder) -> None:
    path = folder.outputs / ".steelyard/run.json"
    folder.edited(
        path, lambda file: edit_json(file, lambda content: content.update(created="2020-01-01")), anew=True
    )


def more_inputs(folder: Folder) -> None:
    (path,) = list(folder.inputs.rglob("*.parquet"))
    shutil.copy(path, path.with_name("part-more.parquet"))


def more_outputs(folder: Folder) -> None:
    shutil.copy(folder.outputs / "part-00000.parquet", folder.outputs / "part-00009.parquet")


def no_outputs(folder: Folder) -> None:
    (folder.outputs / "part-00000.parquet").unlink()


def no_manifest(folder: Folder) -> None:
    (folder.outputs / ".steelyard/manifest.json").unlink()


def no_scores(folder: Folder) -> None:
    (folder.report / "scores.parquet").unlink()


def no_numbers(folder: Folder) -> None:
    folder.numbers.unlink()


def no_attestation(folder: Folder) -> None:
    folder.attestation.unlink()


def unsigned(folder: Folder) -> None:
    payload, _ = read_payload(folder.attestation.read_bytes())
    folder.attestation.write_bytes(payload)


def signed_by_another(folder: Folder) -> None:
    payload, _ = read_payload(folder.attestation.read_bytes())
    folder.attestation.write_bytes(envelope(payload, OTHER))


def anothers_signature_as_ours(folder: Folder) -> None:
    """The name of our key over the signature of another one."""
    ours = json.loads(folder.attestation.read_bytes())["signatures"][0]["keyid"]
    signed_by_another(folder)
    edit_signature(folder, "keyid", ours)


def edit_signature(folder: Folder, field: str, value: str) -> None:
    content = json.loads(folder.attestation.read_bytes())
    content["signatures"][0][field] = value
    folder.attestation.write_text(json.dumps(content, indent=2) + "\n")


def other_statement(folder: Folder) -> None:
    payload, _ = read_payload(folder.attestation.read_bytes())
    folder.attestation.write_bytes(envelope(payload.replace(b"PASSED", b"WARNED"), KEY))


def judge(folder: Folder) -> Path:
    return folder.root / "judges/one/outputs/part-00000.parquet"


def harsher_judge(folder: Folder) -> None:
    edit_table(judge(folder), lambda table: table.slice(1))


def harsher_judge_anew(folder: Folder) -> None:
    drop_rows(judge(folder).parent, folder.root, 1)


def other_schema(folder: Folder) -> None:
    (folder.root / "rubric-files/schema.json").write_text('{"type": "string"}')


def other_schema_anew(folder: Folder) -> None:
    folder.edited(folder.root / "rubric-files/schema.json", lambda _: other_schema(folder), anew=True)


def other_question(folder: Folder) -> None:
    path = folder.root / "run.yaml"
    path.write_text(path.read_text().replace("model: m", "model: m2"))


def cheaper(folder: Folder) -> None:
    edit_json(folder.numbers, lambda content: content["spending"].update(tokens=1))


def earlier_audit(folder: Folder) -> None:
    edit_json(folder.root / "baseline/audit.json", lambda content: content.update(audit="f" * 32))


def kept_scores(folder: Folder) -> None:
    path = folder.root / f"scores/{NOW}.parquet"
    edit_table(path, lambda table: table.slice(1))


def another_author(folder: Folder) -> None:
    """Change the author on the page and in the JSON alike."""
    for path in (folder.page, folder.numbers):
        path.write_text(path.read_text().replace("a team", "a regulator"))


ALL = ("run", "report", "audit")
RUN, AUDIT = ("run",), ("audit",)
TAMPERINGS: list[tuple[Callable[[Folder], None], tuple[str, ...], str]] = [
    (dropped, ALL, r"Outputs: part-\d+\.parquet has the SHA-256|Answers before judging: outputs/part"),
    (
        dropped_and_manifest_edited,
        ("report", "audit"),
        r"counting rows again: .* rows in all; the manifest says \d+",
    ),
    (dropped_and_manifest_edited, RUN, r"outputs/, before judging: .* in all; the manifest says 4"),
    (dropped_and_manifest_edited, RUN, r"judges/one/questions\.jsonl: is not what the judge is to be asked"),
    (swapped, ALL, r"Dataset: .*part-.*\.parquet has the SHA-256"),
    (swapped_anew, ("report", "audit"), r"scored|differs|computed again|run\.json names other files"),
    (better_scores, ALL, r"scores\.parquet has the SHA-256"),
    (better_scores_anew, ("report", "audit"), r"of \d+ rows differs|report\.json, "),
    (better_page, ALL, r"(report|index)\.html: drawn again, differs from byte \d+ on"),
    (better_numbers, ALL, r"(report|index)\.html: does not hold the numbers of (report|audit)\.json"),
    (other_record, ("report", "audit"), r"Record of the run: \.steelyard/run\.json has the SHA-256"),
    (other_record, RUN, r"Answers before judging: outputs/\.steelyard/run\.json has the SHA-256"),
    (other_record_anew, ("report", "audit"), r"report\.json, run\.created: says "),
    (more_inputs, ALL, r"the dataset has the file .*part-more\.parquet, which the manifest does not name"),
    (more_outputs, ("report", "audit"), r"outputs: part-00009\.parquet lies among the outputs"),
    (no_outputs, ALL, r"part-00000\.parquet is missing"),
    (no_manifest, ("report", "audit"), r"\.steelyard/manifest\.json is missing"),
    (no_scores, ALL, r"scores\.parquet is missing"),
    (no_numbers, ALL, r"(report|audit)\.json: is missing"),
    (no_attestation, ALL, r"attestation\.json: there is none"),
    (unsigned, ALL, r"attestation\.json: is not signed"),
    (signed_by_another, ALL, r"attestation\.json: is not signed by this key"),
    (anothers_signature_as_ours, ALL, r"attestation\.json: its signature is not the key's"),
    (other_statement, ALL, r"attestation\.json: is not the statement about these files"),
    (harsher_judge, RUN, r"Answers of the judge one: judges/one/outputs/part-00000\.parquet has the SHA-256"),
    (harsher_judge_anew, RUN, r"judges/one: .*the manifest says"),
    (other_schema, RUN, r"Read by a rubric: rubric-files/schema\.json has the SHA-256"),
    (other_schema_anew, RUN, r"json-schema.*: .* of 5 rows differs"),
    (other_question, RUN, r"What was asked: run\.yaml has the SHA-256"),
    (cheaper, RUN, r"what the calls cost: report\.json says 1 tokens, \.spent/ says \d\d+"),
    (kept_scores, AUDIT, r"scores/2+\.parquet: has the SHA-256"),
    (earlier_audit, AUDIT, r"audit\.json, baseline\.audit: says "),
    (another_author, AUDIT, r"attestation\.json: is not the statement about these files"),
]
CASES = [(tamper, kind, said) for tamper, kinds, said in TAMPERINGS for kind in kinds]


@pytest.mark.parametrize("kind", ALL)
def test_an_untouched_folder_has_no_fault(
    kind: str, originals: dict[str, Path], keys: dict[str, str], tmp_path: Path
) -> None:
    folder = copied(originals, kind, tmp_path)
    status, lines = folder.verify("--key", keys["own"])
    left = [line for line in lines if line.startswith("left out")]
    assert status == 0, "\n".join(lines)
    assert all(
        "not here: Model: 1 file" in line or "attestation.json: there is none" in line for line in left
    ), left
    _, lines = folder.verify()
    assert lines[0].startswith("left out  ")
    assert "a change of files and digests together is not noticed" in lines[0]


@pytest.mark.parametrize(
    ("tamper", "kind", "said"), CASES, ids=[f"{tamper.__name__}-{kind}" for tamper, kind, _ in CASES]
)
def test_tampering_is_found_and_named(
    tamper: Callable[[Folder], None],
    kind: str,
    said: str,
    originals: dict[str, Path],
    keys: dict[str, str],
    tmp_path: Path,
) -> None:
    folder = copied(originals, kind, tmp_path)
    tamper(folder)
    status, lines = folder.verify("--key", keys["own"])
    faults = [line.removeprefix("FAULT     ") for line in lines if line.startswith("FAULT")]
    assert any(re.search(said, fault) for fault in faults), "\n".join(lines)
    assert status == 1


@pytest.mark.parametrize("kind", ALL)
def test_a_folder_without_its_page_is_refused(kind: str, originals: dict[str, Path], tmp_path: Path) -> None:
    folder = copied(originals, kind, tmp_path)
    folder.page.unlink()
    done = CliRunner().invoke(app, [folder.command, "verify", str(folder.root)])
    assert isinstance(done.exception, UsageError)
    assert str(done.exception).endswith(f"{folder.page.name}: there is no such file")


@pytest.mark.parametrize("kind", ALL)
def test_an_extra_file_is_named(kind: str, originals: dict[str, Path], tmp_path: Path) -> None:
    folder = copied(originals, kind, tmp_path)
    (folder.outputs / "notes.txt").write_text("look here")
    status, lines = folder.verify()
    assert status == 0, "\n".join(lines)
    assert any("extra file: " in line and "notes.txt" in line for line in lines)


def test_dropped_rows_are_not_scored_again(originals: dict[str, Path], tmp_path: Path) -> None:
    folder = copied(originals, "run", tmp_path)
    drop_rows(folder.outputs, folder.root)
    schema = originals["run"].parent / "schema.json"  # the rubrics of before are scored again, too
    schema.write_text(SCHEMA)
    done = CliRunner().invoke(app, ["eval", "score", str(folder.root), "--rubric", "exact-match"])
    assert done.exit_code != 0
    assert "the dataset has 6 rows, asked 1 time each, which is 6 rows in all; the manifest says 4" in str(
        done.exception
    )
    schema.unlink()
