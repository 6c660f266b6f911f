"""The demo's story: what it does on the platform, through `steelyard.client` and nothing else.

One dataset and two models are uploaded; each model is served, evaluated, reported on and audited. The second audit is
compared with the first.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from steelyard.cli.demo.digits import Digits, Model
from steelyard.cli.display import Display, Row
from steelyard.client import Client, presets
from steelyard_common.errors import SteelyardError
from steelyard_schema.answers import WorkflowProgress
from steelyard_schema.base import DyffEntity
from steelyard_schema.status import FAILURE, SUCCESS

ACCOUNT = "demo"
RUBRIC = "classification.Classification"
POLL_SECONDS = 0.3
WORKFLOWS = frozenset({"Model", "InferenceService", "InferenceSession", "Evaluation", "Report", "Audit"})
REPLICAS, REPLICATIONS = 2, 2


class DemoFailed(SteelyardError):
    """Something of the demo did not end well."""


@dataclass(frozen=True)
class DemoResult:
    """The results of the demo for one model."""

    model: Model
    service: str
    evaluation: str
    report: str
    audit: str


@dataclass
class Story:
    """Runs the demo on a platform; `rows` is what the display shows."""

    client: Client
    display: Display
    timeout: float
    rows: dict[str, Row] = field(default_factory=dict)
    began: dict[str, float] = field(default_factory=dict)

    def run(self, digits: Digits) -> Sequence[DemoResult]:
        """Both audits, the later one compared with the earlier one. Raises DemoFailed."""
        uploaded = self.client.datasets.create_from_folder(
            digits.dataset, account=ACCOUNT, name="handwritten digits"
        )
        self._note(uploaded)
        dataset = uploaded.id
        procedure = self.client.auditprocedures.create(
            account=ACCOUNT, name="digits", requirements=[{"dataset": dataset, "rubric": RUBRIC}]
        )
        self._note(procedure)
        prepared = [self._evaluate(model, dataset) for model in digits.models]
        self._wait([(self.client.reports.get, report) for _, _, report in prepared])
        done: list[DemoResult] = []
        for model, (service, evaluation, report) in zip(digits.models, prepared, strict=True):
            audit = self.client.audits.create(
                account=ACCOUNT,
                auditProcedure=procedure.id,
                inferenceService=service,
                baseline=done[-1].audit if done else None,
                useCase="reading digits that people have written by hand",
                author="the demo of Steelyard",
            )
            self._note(audit)
            self._wait([(self.client.audits.get, audit.id)])
            done.append(DemoResult(model, service, evaluation, report, audit.id))
        return done

    def _evaluate(self, model: Model, dataset: str) -> tuple[str, str, str]:
        """Create everything up to the report at once: the platform orders what depends on what."""
        uploaded = self.client.models.create_from_folder(
            model.folder, account=ACCOUNT, name=model.name, resources={"storage": "1Mi"}
        )
        self._note(uploaded)
        service = self.client.inferenceservices.create(
            account=ACCOUNT,
            name=model.name,
            model=uploaded.id,
            runner=presets.onnx_classifier(uploaded.id),
            interface=presets.classification(fields=["image"]),
        )
        evaluation = self.client.evaluations.create(
            account=ACCOUNT,
            dataset=dataset,
            replications=REPLICATIONS,
            inferenceSession={
                "inferenceService": service.id, "replicas": REPLICAS, "useSpotPods": False
            },
        )  # fmt: skip
        report = self.client.reports.create(account=ACCOUNT, rubric=RUBRIC, evaluation=evaluation.id)
        for entity in (service, evaluation, report):
            self._note(entity)
        return service.id, evaluation.id, report.id

    def _wait(self, entities: Sequence[tuple[Callable[[str], DyffEntity], str]]) -> None:
        """Wait until all entities have succeeded, and show those that have not ended yet."""
        until = time.monotonic() + self.timeout
        waiting = {id for _, id in entities}
        while waiting:
            for row_id in [id for id, row in self.rows.items() if row.status not in SUCCESS]:
                entity = self._fetch(row_id)
                # Of any entity: one that something waits for ends the demo at once, not when the time is up.
                if entity.status in FAILURE:
                    raise DemoFailed(f"{entity_words(entity)}")
            waiting = {id for id in waiting if self.rows[id].status not in SUCCESS}
            self.display.show(list(self.rows.values()))
            if waiting and time.monotonic() > until:
                late = ", ".join(f"{self.rows[id].kind} {id}: {self.rows[id].detail}" for id in waiting)
                raise DemoFailed(f"not finished after {self.timeout:.0f} s: {late}")
            if waiting:
                time.sleep(POLL_SECONDS)

    def _fetch(self, id: str) -> DyffEntity:
        collection = getattr(self.client, f"{self.rows[id].kind.lower()}s")
        entity: DyffEntity = collection.get(id)
        running = entity.status == "Admitted" and self.rows[id].kind in WORKFLOWS
        self._note(entity, collection.progress(id) if running else None)
        return entity

    def _note(self, entity: DyffEntity, progress: WorkflowProgress | None = None) -> None:
        kind = str(getattr(entity, "kind", ""))
        began = self.began.setdefault(entity.id, time.monotonic())
        name = f"{getattr(entity, 'name', '') or entity.id[:8]}"
        said = progress.message if progress else " ".join(filter(None, (entity.reason, entity.message)))
        done = (progress.done or 0) / progress.total if progress and progress.total else None
        detail = ": ".join(filter(None, (name, said)))
        self.rows[entity.id] = Row(kind, entity.id, entity.status, detail, done, time.monotonic() - began)


def entity_words(entity: DyffEntity) -> str:
    """Return the end of an entity in one line."""
    kind = getattr(entity, "kind", "")
    return f"{kind} {entity.id} is {entity.status}: {entity.reason or ''} {entity.message or ''}".rstrip()
