"""Authorities and what they sign, as TLS itself takes them; templates; requests of clients."""

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from steelyard.operator.ray.certificates.authorities import (
    SERVICE,
    Authority,
    PlatformKey,
    Purpose,
    Use,
    clients,
    issue,
    key_pem,
    new_key,
    nodes,
    read_request_key,
    request_for,
)
from steelyard.operator.ray.certificates.decisions import (
    certificate_changes,
    certificate_objects,
    ending,
)
from steelyard.operator.ray.certificates.templates import CONTAINER, VARIABLES, with_certificates
from steelyard.operator.ray.owned import Platform
from steelyard.operator.ray.settings import RaySettings
from steelyard_common.types import Json
from steelyard_schema.ray_annotations import ANSWER, CERTIFICATES, REFUSED, REQUEST

KEY = PlatformKey(b"k" * 32, 10)
NOW = datetime.now(UTC)
ERA = timedelta(days=10)
SETTINGS = RaySettings(certificates=True, client_authorities=True)
HERE, CALLER = nodes("uid-1"), clients("uid-1")


def make_cluster(annotations: dict[str, str] | None = None, **spec: object) -> Json:
    pod = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": "demo",
            "namespace": "team",
            "uid": "uid-1",
            "annotations": annotations or {CERTIFICATES: "v1"},
        },
        "spec": {"headGroupSpec": {"template": pod}, "workerGroupSpecs": [{"template": pod}], **spec},
    }


def pair(authority: Authority, now: datetime = NOW, use: Use = "both", host: str = "127.0.0.1") -> str:
    key = new_key()
    return issue(authority, key.public_key(), "x", [host], now, use) + key_pem(key)


def shakes_hands(server: str, client: str, server_trusts: str, client_trusts: str) -> bool:
    """Return whether both sides accept each other, by a handshake in memory."""
    server_side, client_side = (ssl.MemoryBIO(), ssl.MemoryBIO()), (ssl.MemoryBIO(), ssl.MemoryBIO())
    contexts = []
    with tempfile.TemporaryDirectory() as folder:
        for own, trusts, purpose in (
            (server, server_trusts, ssl.Purpose.CLIENT_AUTH),
            (client, client_trusts, ssl.Purpose.SERVER_AUTH),
        ):
            context = ssl.create_default_context(purpose, cadata=trusts)
            context.verify_mode = ssl.CERT_REQUIRED
            file = Path(folder, "pair.pem")
            file.write_text(own)
            context.load_cert_chain(file)
            contexts.append(context)
    sides = [
        contexts[0].wrap_bio(*server_side, server_side=True),
        contexts[1].wrap_bio(*client_side, server_hostname="127.0.0.1"),
    ]
    done = [False, False]
    for _ in range(10):
        for number, side in enumerate(sides):
            try:
                side.do_handshake()
                done[number] = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                return False
        server_side[0].write(client_side[1].read())
        client_side[0].write(server_side[1].read())
    return all(done)


def test_the_same_key_gives_the_same_authorities_and_another_purpose_others() -> None:
    authority = KEY.authority(HERE, NOW)
    again = PlatformKey(KEY.secret, KEY.days).authority(nodes("uid-1"), NOW + timedelta(seconds=1))
    assert (authority.pem, authority.key_pem) == (again.pem, again.key_pem)
    others = [
        KEY.authority(nodes("uid-2"), NOW),
        KEY.authority(CALLER, NOW),
        KEY.authority(SERVICE, NOW),
        KEY.authority(HERE, NOW + ERA),
        PlatformKey(b"l" * 32, 10).authority(HERE, NOW),
    ]
    assert len({other.key_pem for other in [authority, *others]}) == 6


@pytest.mark.parametrize("step", [-1, 0, 1])
def test_programs_that_started_an_era_apart_trust_each_other(step: int) -> None:
    # Both run now: one read its files now, the other one era earlier or later, by certificates that hold now.
    then = NOW + step * ERA
    ours, theirs = KEY.authority(HERE, NOW), KEY.authority(HERE, then)
    mine, other = pair(ours), pair(theirs, min(then, NOW))
    assert shakes_hands(mine, other, KEY.bundle(NOW, HERE), KEY.bundle(then, HERE))
    assert shakes_hands(other, mine, KEY.bundle(then, HERE), KEY.bundle(NOW, HERE))


def test_a_certificate_lasts_an_era_and_ends_with_its_authority() -> None:
    begin = KEY.next_era(NOW)
    for moment in (begin, begin + ERA / 2, begin + ERA - timedelta(seconds=1)):
        made = x509.load_pem_x509_certificate(pair(KEY.authority(HERE, moment), moment).encode())
        assert made.not_valid_after_utc - moment >= ERA
        assert made.not_valid_after_utc == begin + 2 * ERA


@pytest.mark.parametrize(
    ("server", "client", "server_trusts", "client_trusts", "accepted"),
    [
        pytest.param(HERE, CALLER, (HERE, CALLER), (HERE,), True, id="a client of the cluster"),
        pytest.param(HERE, HERE, (HERE, CALLER), (HERE, CALLER), True, id="two Pods"),
        pytest.param(HERE, clients("uid-2"), (HERE, CALLER), (HERE,), False, id="a client of another"),
        pytest.param(HERE, nodes("uid-2"), (HERE, CALLER), (HERE,), False, id="a Pod of another"),
        pytest.param(CALLER, HERE, (HERE, CALLER), (HERE,), False, id="a client that plays the server"),
        pytest.param(
            CALLER, HERE, (HERE, CALLER), (HERE, CALLER), False, id="the same, where its use counts"
        ),
        pytest.param(SERVICE, HERE, (HERE,), (HERE,), False, id="the operator's service"),
    ],
)
def test_who_accepts_whom(
    server: Purpose,
    client: Purpose,
    server_trusts: tuple[Purpose, ...],
    client_trusts: tuple[Purpose, ...],
    accepted: bool,
) -> None:
    shown = [pair(KEY.authority(purpose, NOW)) for purpose in (server, client)]
    trusted = [KEY.bundle(NOW, *purposes) for purposes in (server_trusts, client_trusts)]
    assert shakes_hands(shown[0], shown[1], trusted[0], trusted[1]) is accepted


@pytest.mark.parametrize(
    ("request_text", "words"),
    [
        ("no request", "not a certificate request"),
        (
            x509.CertificateSigningRequestBuilder(x509.Name([]))
            .sign(rsa.generate_private_key(65537, 1024), hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
            .decode(),
            "2048 bits",
        ),
    ],
)
def test_a_key_that_is_none_or_weak_is_refused(request_text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_request_key(request_text)


def changes_of(annotations: dict[str, str], now: datetime = NOW) -> Json:
    return certificate_changes(make_cluster(annotations), SETTINGS, Platform(now, key=KEY))


def test_a_client_gets_a_certificate_of_its_key_and_the_pods_authorities() -> None:
    key = new_key()
    asked = {CERTIFICATES: "v1", REQUEST + "a": request_for(key, "a")}
    answer = changes_of(asked)[ANSWER + "a"]
    certificate = x509.load_pem_x509_certificate(answer.encode())
    assert certificate.public_key() == key.public_key()
    assert certificate.not_valid_after_utc <= NOW + timedelta(days=30)
    assert KEY.authority(CALLER, NOW).pem not in answer
    assert KEY.authority(HERE, NOW).pem in answer
    assert "PRIVATE" not in answer
    # Answered: nothing changes, until it was not taken for an hour, or its request has gone.
    assert changes_of(asked | {ANSWER + "a": answer}) == {}
    old = changes_of(asked | {ANSWER + "a": answer}, NOW + timedelta(hours=2))
    assert old == {REQUEST + "a": None, ANSWER + "a": None}
    assert changes_of({CERTIFICATES: "v1", ANSWER + "a": answer}) == {ANSWER + "a": None}


def test_what_cannot_be_answered_says_why() -> None:
    assert changes_of({CERTIFICATES: "v1", REQUEST + "a": "x"})[ANSWER + "a"].startswith(REFUSED)
    assert changes_of({"other": "x", REQUEST + "a": "x"})[ANSWER + "a"].endswith("has no certificates")


def test_a_cluster_without_certificates_gets_no_secret() -> None:
    assert certificate_objects(make_cluster({"other": "x"}), SETTINGS, Platform(NOW, key=KEY)) == []
    closed = SETTINGS.model_copy(update={"client_authorities": False})
    kinds = [obj["kind"] for obj in certificate_objects(make_cluster(), closed, Platform(NOW, key=KEY))]
    assert kinds == ["ConfigMap"]


def test_templates_ask_for_certificates_once_and_ray_uses_them() -> None:
    spec = {"enableInTreeAutoscaling": True}
    changed = with_certificates(make_cluster({"other": "x"}, **spec), SETTINGS, "")
    assert with_certificates(changed, SETTINGS, "") == changed
    for group in (changed["spec"]["headGroupSpec"], *changed["spec"]["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        assert [container["name"] for container in pod["initContainers"]] == [CONTAINER]
        assert "https://steelyard-ray.steelyard.svc/certificate" in pod["initContainers"][0]["args"]
        variables = {variable["name"]: variable["value"] for variable in pod["containers"][0]["env"]}
        assert variables == VARIABLES
        # The account's token is for the first container alone.
        assert [mount["name"] for mount in pod["containers"][0]["volumeMounts"]] == ["steelyard-ray-tls"]
    assert changed["spec"]["autoscalerOptions"]["env"][0] == {"name": "RAY_USE_TLS", "value": "1"}
    assert changed["metadata"]["annotations"] == {"other": "x", CERTIFICATES: "v1"}


def test_a_cluster_that_chooses_about_tls_stays_as_it_is() -> None:
    cluster = make_cluster({"other": "x"})
    container = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "RAY_USE_TLS", "value": "0"}]
    assert with_certificates(cluster, SETTINGS, "") == cluster


def test_pods_whose_certificate_ends_soon_are_named() -> None:
    begin = KEY.next_era(NOW)
    pods = [
        {"metadata": {"name": "old"}, "status": {"startTime": f"{begin - ERA:%Y-%m-%dT%H:%M:%SZ}"}},
        {"metadata": {"name": "new"}, "status": {"startTime": f"{begin:%Y-%m-%dT%H:%M:%SZ}"}},
        {"metadata": {"name": "waiting"}},
    ]
    assert ending(pods, KEY, begin + ERA / 2) == []
    assert [name for name, _ in ending(pods, KEY, begin + ERA - timedelta(hours=1))] == ["old"]


def test_keys_are_of_elliptic_curves() -> None:
    assert isinstance(read_request_key(request_for(new_key(), "x")), ec.EllipticCurvePublicKey)
