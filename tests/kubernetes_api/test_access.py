"""Users and their rights: tokens of accounts, roles that are acted on, reviews."""

import base64

import orjson
import pytest

from steelyard_common.types import Json
from tests.kubernetes_api.api import Answer, Api, config_map

RBAC = "/apis/rbac.authorization.k8s.io/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"
ISSUER = "https://kubernetes.default.svc.cluster.local"


async def account_token(api: Api, core: str, name: str = "robot", **spec: object) -> str:
    """A token of a new account."""
    if (await api.get(f"{core}/serviceaccounts/{name}")).status == 404:
        (await api.post(f"{core}/serviceaccounts", {"metadata": {"name": name}})).ok(201)
    answer = await api.post(f"{core}/serviceaccounts/{name}/token", {"spec": spec})
    return str(answer.ok(201).json["status"]["token"])


async def grant(api: Api, namespace: str, *rules: Json, name: str = "robot", role: str = "r") -> None:
    """Bind an account to a new role."""
    path = f"{RBAC}/namespaces/{namespace}"
    (await api.post(f"{path}/roles", {"metadata": {"name": role}, "rules": list(rules)})).ok(201)
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    binding: Json = {
        "metadata": {"name": role},
        "subjects": subjects,
        "roleRef": {"kind": "Role", "name": role},
    }
    binding["roleRef"]["apiGroup"] = "rbac.authorization.k8s.io"
    (await api.post(f"{path}/rolebindings", binding)).ok(201)


async def allowed(api: Api, token: str, path: str, verb: str = "GET", body: object = None) -> Answer:
    """The answer once it is not a refusal: a real server's authorizer learns of a binding a little later."""
    answer = await api.request(verb, path, body, token=token)

    async def probe() -> bool:
        nonlocal answer
        answer = await api.request(verb, path, body, token=token)
        return answer.status != 403

    if answer.status == 403:
        await api.eventually(probe, "the binding in force")
    return answer


def claims(token: str) -> Json:
    content = token.split(".")[1]
    parsed: Json = orjson.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
    return parsed


def rule(verbs: list[str], *resources: str, group: str = "", **more: object) -> Json:
    return {"apiGroups": [group], "resources": list(resources), "verbs": verbs, **more}


async def test_every_namespace_has_its_account_and_the_authority(api: Api, core: str) -> None:
    async def probe() -> bool:
        names = ("serviceaccounts/default", "configmaps/kube-root-ca.crt")
        return all([(await api.get(f"{core}/{name}")).status == 200 for name in names])

    await api.eventually(probe, "account and authority")
    content = (await api.get(f"{core}/configmaps/kube-root-ca.crt")).json["data"]["ca.crt"]
    assert "BEGIN CERTIFICATE" in content
    (await api.delete(f"{core}/serviceaccounts/default")).ok()
    await api.eventually(probe, "the account again")


async def test_a_token_names_its_account(api: Api, core: str, namespace: str) -> None:
    token = await account_token(api, core)
    said = claims(token)
    assert (said["aud"], said["iss"], said["exp"] - said["iat"]) == ([ISSUER], ISSUER, 3600)
    assert said["sub"] == f"system:serviceaccount:{namespace}:robot"
    assert set(said["kubernetes.io"]) == {"namespace", "serviceaccount"}
    path = f"{AUTHENTICATION}/selfsubjectreviews"
    user = (await api.request("POST", path, {}, token=token)).ok(201).json["status"]["userInfo"]
    assert user["username"] == said["sub"]
    assert user["groups"] == [
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    ]
    assert user["extra"] == {"authentication.kubernetes.io/credential-id": [f"JTI={said['jti']}"]}
    assert user["uid"] == said["kubernetes.io"]["serviceaccount"]["uid"]


async def test_a_token_ends_with_its_account_and_is_for_its_audiences(api: Api, core: str) -> None:
    token = await account_token(api, core)
    other = await account_token(api, core, audiences=["somebody"])
    path = f"{AUTHENTICATION}/selfsubjectreviews"
    assert (await api.request("POST", path, {}, token=other)).status == 401
    (await api.delete(f"{core}/serviceaccounts/robot")).ok()

    async def refused() -> bool:
        return (await api.request("POST", path, {}, token=token)).status == 401

    await api.eventually(refused, "the token refused")


async def test_a_token_is_bound_to_a_pod(api: Api, core: str) -> None:
    (await api.post(f"{core}/serviceaccounts", {"metadata": {"name": "robot"}})).ok(201)
    spec = {"serviceAccountName": "robot", "containers": [{"name": "main", "image": "localhost/none:1"}]}
    made = (await api.post(f"{core}/pods", {"metadata": {"name": "p"}, "spec": spec})).ok(201).json
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    token = await account_token(api, core, boundObjectRef=reference)
    assert claims(token)["kubernetes.io"]["pod"] == {"name": "p", "uid": made["metadata"]["uid"]}
    path = f"{AUTHENTICATION}/selfsubjectreviews"
    user = (await api.request("POST", path, {}, token=token)).ok(201).json["status"]["userInfo"]
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    # A token of a Pod on a node that is not there is good, too: the node's uid alone is not known.
    spec |= {"nodeName": "nowhere"}
    (await api.post(f"{core}/pods", {"metadata": {"name": "elsewhere"}, "spec": spec})).ok(201)
    token = await account_token(api, core, boundObjectRef={**reference, "name": "elsewhere"})
    user = (await api.request("POST", path, {}, token=token)).ok(201).json["status"]["userInfo"]
    assert user["extra"]["authentication.kubernetes.io/node-name"] == ["nowhere"]
    assert "authentication.kubernetes.io/node-uid" not in user["extra"]
    answer = await api.post(
        f"{core}/serviceaccounts/robot/token", {"spec": {"boundObjectRef": {**reference, "name": "q"}}}
    )
    assert (answer.status, answer.message) == (404, 'pods "q" not found')
    wrong = {"spec": {"boundObjectRef": {**reference, "uid": "other"}}}
    answer = await api.post(f"{core}/serviceaccounts/robot/token", wrong)
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (60, "may not specify a duration less than 10 minutes"),
        (1 << 33, "may not specify a duration larger than 2^32 seconds"),
    ],
)
async def test_the_life_of_a_token_is_bounded(api: Api, core: str, seconds: int, text: str) -> None:
    answer = await api.post(f"{core}/serviceaccounts/default/token", {"spec": {"expirationSeconds": seconds}})
    assert answer.status == 422
    assert answer.causes() == {"spec.expirationSeconds": f"Invalid value: {seconds}: {text}"}
    assert answer.message.startswith(
        'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds'
    )


async def test_token_review(api: Api, core: str, namespace: str) -> None:
    token = await account_token(api, core)
    path = f"{AUTHENTICATION}/tokenreviews"
    status = (await api.post(path, {"spec": {"token": token}})).ok(201).json["status"]
    assert (status["authenticated"], status["audiences"]) == (True, [ISSUER])
    assert status["user"]["username"] == f"system:serviceaccount:{namespace}:robot"
    status = (await api.post(path, {"spec": {"token": "wrong"}})).ok(201).json["status"]
    assert not status.get("authenticated")
    assert "invalid bearer token" in status["error"]
    answer = await api.post(path, {"spec": {}})
    assert (answer.status, answer.message) == (400, "token is required for TokenReview in authentication")


REFUSED = [
    ("GET", "/api/v1/pods", "pods", 'cannot list resource "pods" in API group "" at the cluster scope'),
    (
        "GET",
        "/apis/apps/v1/namespaces/{}/deployments/x",
        'deployments.apps "x"',
        'cannot get resource "deployments" in API group "apps" in the namespace "{}"',
    ),
    (
        "GET",
        "/api/v1/namespaces/{}/pods/x/log",
        'pods "x"',
        'cannot get resource "pods/log" in API group "" in the namespace "{}"',
    ),
    (
        "DELETE",
        "/api/v1/namespaces/{}/configmaps",
        "configmaps",
        'cannot deletecollection resource "configmaps" in API group "" in the namespace "{}"',
    ),
    (
        "GET",
        "/api/v1/namespaces/{}/pods?watch=1",
        "pods",
        'cannot watch resource "pods" in API group "" in the namespace "{}"',
    ),
    (
        "GET",
        "/api/v1/namespaces/{}",
        'namespaces "{}"',
        'cannot get resource "namespaces" in API group "" in the namespace "{}"',
    ),
    (
        "GET",
        "/apis/nope/v1/things",
        "things.nope",
        'cannot list resource "things" in API group "nope" at the cluster scope',
    ),
]


@pytest.mark.parametrize(("method", "path", "what", "text"), REFUSED)
async def test_refusals_are_worded_as_upstream(
    api: Api, core: str, namespace: str, method: str, path: str, what: str, text: str
) -> None:
    token = await account_token(api, core)
    answer = await api.request(method, path.format(namespace), token=token)
    user = f"system:serviceaccount:{namespace}:robot"
    expected = f'{what.format(namespace)} is forbidden: User "{user}" {text.format(namespace)}'
    assert (answer.status, answer.json["reason"], answer.message) == (403, "Forbidden", expected)


async def test_paths_are_refused_too_and_discovery_is_open(api: Api, core: str, namespace: str) -> None:
    token = await account_token(api, core)
    answer = await api.request("GET", "/metrics", token=token)
    text = f'forbidden: User "system:serviceaccount:{namespace}:robot" cannot get path "/metrics"'
    assert (answer.status, answer.message, answer.json["details"]) == (403, text, {})
    for path in ("/api", "/apis", "/version", "/healthz", "/openapi/v3", "/apis/apps/v1"):
        assert (await api.request("GET", path, token=token)).status == 200, path


async def test_a_role_is_acted_on(api: Api, core: str, namespace: str) -> None:
    token = await account_token(api, core)
    await grant(
        api, namespace, rule(["get", "create"], "configmaps"), rule(["get"], "secrets", resourceNames=["a"])
    )
    assert (await allowed(api, token, f"{core}/configmaps", "POST", config_map("m"))).status == 201
    assert (await api.request("GET", f"{core}/configmaps/m", token=token)).status == 200
    assert (await api.request("DELETE", f"{core}/configmaps/m", token=token)).status == 403
    assert (await api.request("GET", f"{core}/secrets/a", token=token)).status == 404
    assert (await api.request("GET", f"{core}/secrets/b", token=token)).status == 403
    assert (await api.request("GET", f"{core}/secrets", token=token)).status == 403
    assert (await api.request("GET", "/api/v1/configmaps", token=token)).status == 403
    (await api.delete(f"{RBAC}/namespaces/{namespace}/rolebindings/r")).ok()

    async def refused() -> bool:
        return (await api.request("GET", f"{core}/configmaps/m", token=token)).status == 403

    await api.eventually(refused, "the binding gone")


async def test_a_missing_role_is_named(api: Api, core: str, namespace: str) -> None:
    token = await account_token(api, core)
    await grant(api, namespace, rule(["get"], "configmaps"))
    assert (await allowed(api, token, f"{core}/configmaps/m")).status == 404
    (await api.delete(f"{RBAC}/namespaces/{namespace}/roles/r")).ok()

    async def named() -> bool:
        answer = await api.request("GET", f"{core}/configmaps/m", token=token)
        return answer.message.endswith(': RBAC: role.rbac.authorization.k8s.io "r" not found')

    await api.eventually(named, "the missing role named")


async def test_the_view_role_shows_no_secrets(api: Api, core: str, namespace: str) -> None:
    token = await account_token(api, core)
    binding: Json = {
        "metadata": {"name": "v"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": namespace}],
        "roleRef": {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"},
    }
    (await api.post(f"{RBAC}/namespaces/{namespace}/rolebindings", binding)).ok(201)
    assert (await allowed(api, token, f"{core}/pods")).status == 200
    assert (await api.request("GET", f"{core}/secrets", token=token)).status == 403
    assert (await api.request("POST", f"{core}/configmaps", config_map("m"), token=token)).status == 403


async def test_a_caller_cannot_grant_more_than_it_has(api: Api, core: str, namespace: str) -> None:
    token = await account_token(api, core)
    roles = f"{RBAC}/namespaces/{namespace}/roles"
    own = rule(["create", "update", "get"], "roles", "rolebindings", group="rbac.authorization.k8s.io")
    await grant(api, namespace, own, rule(["get"], "configmaps"))
    within = {"metadata": {"name": "within"}, "rules": [rule(["get"], "configmaps")]}
    assert (await allowed(api, token, roles, "POST", within)).status == 201
    beyond = {"metadata": {"name": "beyond"}, "rules": [rule(["get", "list"], "secrets", "configmaps")]}
    answer = await api.request("POST", roles, beyond, token=token)
    groups = f'["system:serviceaccounts" "system:serviceaccounts:{namespace}" "system:authenticated"]'
    assert (answer.status, answer.message) == (
        403,
        f'roles.rbac.authorization.k8s.io "beyond" is forbidden: user "system:serviceaccount:{namespace}:robot" '
        f"(groups={groups}) is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["configmaps"], Verbs:["list"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
    )
    binding: Json = {
        "metadata": {"name": "x"},
        "subjects": [{"kind": "User", "name": "u"}],
        "roleRef": {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"},
    }
    answer = await api.request("POST", f"{RBAC}/namespaces/{namespace}/rolebindings", binding, token=token)
    assert answer.status == 403
    assert "is attempting to grant RBAC permissions not currently held" in answer.message


async def test_roles_are_aggregated(api: Api, namespace: str) -> None:
    label = {f"{namespace}/part": "true"}
    whole: Json = {
        "metadata": {"name": f"{namespace}-whole"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": label}]},
        "rules": [],
    }
    part: Json = {
        "metadata": {"name": f"{namespace}-part", "labels": label},
        "rules": [rule(["get"], "pods")],
    }
    for role in (whole, part):
        (await api.post(f"{RBAC}/clusterroles", role)).ok(201)

    async def aggregated() -> bool:
        answer = await api.get(f"{RBAC}/clusterroles/{namespace}-whole")
        return bool(answer.json["rules"] == part["rules"])

    await api.eventually(aggregated, "the rules of the part")
    for role in (whole, part):
        (await api.delete(f"{RBAC}/clusterroles/{role['metadata']['name']}")).ok()


async def test_access_reviews(api: Api, core: str, namespace: str) -> None:
    token = await account_token(api, core)
    await grant(api, namespace, rule(["get"], "configmaps"))
    await allowed(api, token, f"{core}/configmaps/m")
    wish = {"verb": "get", "resource": "configmaps", "namespace": namespace}
    reason = f'RBAC: allowed by RoleBinding "r/{namespace}" of Role "r" to ServiceAccount "robot/{namespace}"'
    path = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    body = {"spec": {"resourceAttributes": wish}}
    answer = (await api.request("POST", path, body, token=token)).ok(201).json
    assert answer["status"] == {"allowed": True, "reason": reason}
    body = {"spec": {"resourceAttributes": {**wish, "verb": "list"}}}
    answer = (await api.request("POST", path, body, token=token)).ok(201).json
    assert answer["status"] == {"allowed": False}
    user = f"system:serviceaccount:{namespace}:robot"
    for url, expected in (
        (f"{AUTHORIZATION}/subjectaccessreviews", True),
        (f"{AUTHORIZATION}/namespaces/{namespace}/localsubjectaccessreviews", True),
    ):
        spec = {"resourceAttributes": wish, "user": user}
        metadata = {"namespace": namespace} if "local" in url else {}
        answer = (await api.post(url, {"metadata": metadata, "spec": spec})).ok(201).json
        assert answer["status"]["allowed"] is expected
    refused = await api.post(f"{AUTHORIZATION}/subjectaccessreviews", {"spec": {"resourceAttributes": wish}})
    assert refused.causes() == {
        "spec.user": 'Invalid value: "": at least one of user or group must be specified'
    }
    assert (await api.post(path, {"spec": {}})).status == 422


async def test_rules_review(api: Api, core: str, namespace: str) -> None:
    token = await account_token(api, core)
    await grant(api, namespace, rule(["get"], "configmaps", resourceNames=["a"]))
    await allowed(api, token, f"{core}/configmaps/a")
    path = f"{AUTHORIZATION}/selfsubjectrulesreviews"
    answer = (await api.request("POST", path, {"spec": {"namespace": namespace}}, token=token)).ok(201).json
    held = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"]}
    assert held in answer["status"]["resourceRules"]
    assert any("/version" in entry["nonResourceURLs"] for entry in answer["status"]["nonResourceRules"])
    assert (answer["spec"], answer["status"]["incomplete"]) == ({}, False)
    assert (await api.request("POST", path, {"spec": {}}, token=token)).message == "no namespace on request"


async def test_an_anonymous_caller_reads_the_version_alone(api: Api, core: str) -> None:
    answer = await api.request("GET", f"{core}/pods", token="")
    assert answer.status == 403
    assert 'User "system:anonymous" cannot list resource "pods"' in answer.message
    assert (await api.request("GET", "/version", token="")).status == 200


async def test_impersonation(api: Api, core: str, namespace: str) -> None:
    path = f"{AUTHENTICATION}/selfsubjectreviews"
    api.headers |= {"Impersonate-User": "bob", "Impersonate-Group": "team", "Impersonate-Extra-Why": "test"}
    user = (await api.post(path, {})).ok(201).json["status"]["userInfo"]
    assert user == {"username": "bob", "groups": ["team", "system:authenticated"], "extra": {"why": ["test"]}}
    assert 'User "bob" cannot list' in (await api.get(f"{core}/pods")).message
    for name in ("User", "Group", "Extra-Why"):
        del api.headers[f"Impersonate-{name}"]
    token = await account_token(api, core)
    api.headers["Impersonate-User"] = "bob"
    answer = await api.request("GET", f"{core}/pods", token=token)
    account = f"system:serviceaccount:{namespace}:robot"
    text = f'users "bob" is forbidden: User "{account}" cannot impersonate resource "users" in API group "" '
    del api.headers["Impersonate-User"]
    assert (answer.status, answer.message) == (403, f"{text}at the cluster scope")
