"""The choice of the webhooks that a write is shown to, in which order, and the effect of their answers.

`admission/server.py` calls it in each attempt at a request; answers that are not there yet are raised as
`AnswersPending`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import jsonpatch

from steelyard_common.types import Json, sequence
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.admission.attributes import (
    EXEMPT_GROUP,
    Attributes,
    matching_kind,
    review_request,
    selectors_match,
)
from steelyard_local_kubernetes.apiserver.admission.webhooks.calls import call, resolve_address
from steelyard_local_kubernetes.apiserver.admission.webhooks.review import (
    Verdict,
    call_failure,
    denial,
    make_review,
    no_dry_run,
)
from steelyard_local_kubernetes.apiserver.answers import AnswersPending, Question, question_key
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.errors import Refusal
from steelyard_local_kubernetes.apiserver.expressions.plain import evaluate_plain
from steelyard_local_kubernetes.apiserver.expressions.program import EvaluationFailed
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.store import Store

MUTATING = f"mutatingwebhookconfigurations.{EXEMPT_GROUP}"
VALIDATING = f"validatingwebhookconfigurations.{EXEMPT_GROUP}"
Kinds = Callable[[str], Sequence[ResourceType]]  # all versions of the kind of a bucket
Complete = Callable[[Json], None]


@dataclass(frozen=True)
class Hook:
    """One webhook of one stored configuration."""

    configuration: str
    version: int
    content: Json

    @property
    def name(self) -> str:
        return str(self.content["name"])

    @property
    def ignores_failures(self) -> bool:
        return self.content.get("failurePolicy") == "Ignore"


class Webhooks:
    """All webhooks of a server."""

    def __init__(self, store: Store, kinds: Kinds, clock: Clock) -> None:
        self._store, self._kinds, self._clock = store, kinds, clock
        self._parsed: dict[str, tuple[Item, list[Hook]]] = {}

    def exist(self, bucket: str) -> bool:
        """Return whether there are any: nearly all servers are without, and their writes cost nothing."""
        return bool(self._store.bucket(bucket).size)

    def _hooks(self, bucket: str) -> Iterator[Hook]:
        for item in self._store.bucket(bucket).items():
            key = f"{bucket}/{item.name}"
            known = self._parsed.get(key)
            if known is None or known[0] is not item:
                content = sequence(item.parse(), "webhooks")
                known = self._parsed[key] = item, [Hook(item.name, item.version, hook) for hook in content]
            yield from known[1]

    # ---- changing

    def mutate(self, attributes: Attributes, complete: Complete) -> None:
        """Change the object of a write in place; `complete` sets the defaults of what a patch leaves out."""
        if attributes.kind.group == EXEMPT_GROUP:
            return
        hooks = list(self._hooks(MUTATING))
        earlier: list[Hook] = []  # which want to see the object again where another changes it
        again: list[Hook] = []
        for hook in hooks:
            if self._patched(hook, attributes, 0, complete):
                again += earlier
                earlier = []
            if hook.content.get("reinvocationPolicy") == "IfNeeded":
                earlier.append(hook)
        for hook in hooks:
            if hook in again:
                self._patched(hook, attributes, 1, complete)

    def _patched(self, hook: Hook, attributes: Attributes, round_: int, complete: Complete) -> bool:
        """Return whether a webhook changes the object."""
        called = self._call_attributes(hook, attributes)
        if called is None:
            return False
        verdict = self._verdict(hook, attributes, called, round_)
        if not self._passes(hook, verdict, attributes) or not verdict.patch:
            return False
        if attributes.obj is None or called.obj is None:
            text = f'admission webhook "{hook.name}" attempted to modify the object'
            raise _internal(f"{text}, which is not supported for this operation")
        before = {**attributes.obj}
        try:
            new = jsonpatch.JsonPatch(list(verdict.patch)).apply(called.obj)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, *_UNFIT) as error:
            raise _internal(_unfit_patch(error, verdict.patch)) from error
        if not isinstance(new, dict) or ("metadata" in before and not isinstance(new.get("metadata"), dict)):
            raise _internal(f'the patch of webhook "{hook.name}" leaves no object')
        if called.kind.convert_in is not None:
            new = called.kind.convert_in(new)
        attributes.obj.clear()
        attributes.obj.update(new)
        complete(attributes.obj)
        return before != attributes.obj

    # ---- checking

    def validate(self, attributes: Attributes) -> None:
        """Raise Refusal where a webhook does not allow a write."""
        if attributes.kind.group == EXEMPT_GROUP:
            return
        called = [
            (hook, call)
            for hook in self._hooks(VALIDATING)
            if (call := self._call_attributes(hook, attributes))
        ]
        verdicts: list[tuple[Hook, Verdict]] = []
        pending: list[Question] = []
        for hook, call_attributes in called:
            try:
                verdicts.append((hook, self._verdict(hook, attributes, call_attributes, 0)))
            except AnswersPending as error:
                pending += error.questions  # all of them are asked at once
        if pending:
            raise AnswersPending(pending)
        for hook, verdict in verdicts:
            self._passes(hook, verdict, attributes)

    # ---- asking

    def _call_attributes(self, hook: Hook, attributes: Attributes) -> Attributes | None:
        """The write as a webhook is shown it; None for one that is not asked."""
        content = hook.content
        if not selectors_match(content, attributes, self._store):
            return None
        policy = str(content.get("matchPolicy") or "Equivalent")
        kinds = self._kinds(attributes.kind.bucket)
        kind = matching_kind(sequence(content, "rules"), policy, attributes, kinds)
        if kind is None:
            return None
        called = attributes.in_version(kind)
        return called if self._conditions_hold(hook, attributes, called) else None

    def _conditions_hold(self, hook: Hook, attributes: Attributes, called: Attributes) -> bool:
        conditions = sequence(hook.content, "matchConditions")
        if not conditions:
            return True
        values = {
            "object": called.obj,
            "oldObject": called.old,
            "request": review_request(attributes, called),
        }
        failures = []
        for condition in conditions:
            try:
                if evaluate_plain(condition["expression"], values) is False:
                    return False
            except EvaluationFailed as failure:
                failures.append(f"expression '{condition['expression']}' resulted in error: {failure}")
        if failures and not hook.ignores_failures:
            text = failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]"
            raise errors.forbidden(attributes.kind.group, attributes.kind.plural, attributes.name, text)
        return not failures

    def _verdict(self, hook: Hook, attributes: Attributes, called: Attributes, round_: int) -> Verdict:
        """The answer that is there already; raises Pending."""
        content, options = hook.content, attributes.options
        if options.dry_run and content.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise no_dry_run(hook.name)
        request = review_request(attributes, called)
        assert options.answers is not None
        key = question_key(hook.configuration, hook.version, hook.name, round_, _without_managers(request))
        if (verdict := options.answers.known.get(key)) is not None:
            known: Verdict = verdict
            return known
        mutating = "reinvocationPolicy" in content
        review = make_review(content, {"uid": self._clock.uid(), **request})
        if review is None:
            failure = (
                "could not create admission objects: webhook does not accept known AdmissionReview versions"
            )
            return Verdict(failure=f"{failure} (v1, v1beta1)")
        config = content["clientConfig"]
        address, bundle = resolve_address(config, self._store), str(config.get("caBundle") or "")
        seconds = int(content.get("timeoutSeconds") or 10)
        raise AnswersPending(
            [Question(key, partial(call, address, bundle, seconds, review, mutating=mutating))]
        )

    def _passes(self, hook: Hook, verdict: Verdict, attributes: Attributes) -> bool:
        """Return whether a webhook has answered; raise Refusal where it refuses."""
        if verdict.failure:
            if hook.ignores_failures:
                return False
            raise call_failure(hook.name, verdict.failure)
        said = attributes.options.warnings
        said += [warning for warning in verdict.warnings if warning not in said]
        if not verdict.allowed:
            raise denial(hook.name, verdict.status)
        return True


def _unfit_patch(error: Exception, patch: Sequence[Json]) -> str:
    """A patch that does not fit in the words of Go's library, where its path leads nowhere."""
    if isinstance(error, jsonpatch.JsonPatchConflict | jsonpatch.JsonPointerException) and len(patch) == 1:
        operation, path = patch[0].get("op"), patch[0].get("path")
        return f"{operation} operation does not apply: doc is missing path: {path}: missing value"
    return str(error)


_UNFIT = (TypeError, KeyError, ValueError, IndexError, AttributeError, RecursionError)


def _internal(text: str) -> Refusal:
    return Refusal(500, "InternalError", f"Internal error occurred: {text}", {"causes": [{"message": text}]})


def _without_managers(request: Json) -> Json:
    """The request without managed fields: their times are those of an attempt."""
    shown = dict(request)
    for name in ("object", "oldObject"):
        if shown[name] is not None and "metadata" in shown[name]:  # options of a connection have none
            metadata = {
                key: value for key, value in shown[name]["metadata"].items() if key != "managedFields"
            }
            shown[name] = {**shown[name], "metadata": metadata}
    return shown
