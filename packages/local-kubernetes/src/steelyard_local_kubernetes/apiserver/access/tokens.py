"""Tokens of ServiceAccounts: signed with a key of the state folder, good while the account and its Pod are there."""

import hashlib
import logging
from collections import OrderedDict
from datetime import datetime
from pathlib import Path
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from steelyard_common.platform_identity import PlatformIdentity
from steelyard_common.types import Json, mapping
from steelyard_local_kubernetes.apiserver.access.users import User, account_user
from steelyard_local_kubernetes.apiserver.clock import Clock
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.pki import is_foreign, private_pem, write_private
from steelyard_local_kubernetes.apiserver.store import Store

_log = logging.getLogger(__name__)
ISSUER = "https://kubernetes.default.svc.cluster.local"
_EXTRA = "authentication.kubernetes.io/"
_BUCKETS = {"pod": "pods", "secret": "secrets", "node": "nodes"}
_CACHED = 2000  # tokens whose signatures were checked; a check costs as much as ten answers


class AccountTokens:
    """Makes the tokens and reads them."""

    def __init__(
        self, key: Path, store: Store, clock: Clock, platform: PlatformIdentity | None = None
    ) -> None:
        self._store, self._clock = store, clock
        self._key = _key(key, platform)
        public = self._key.public_key()
        self._public = public
        content = public.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self._id = hashlib.sha256(content).hexdigest()[:32]
        self._checked: OrderedDict[bytes, Json] = OrderedDict()

    def issue(
        self, account: Item, audiences: list[str], seconds: int, bound: Json | None
    ) -> tuple[str, datetime]:
        """A token and the time at which it ends."""
        now = int(self._clock.now().timestamp())
        claim: Json = {"namespace": account.namespace}
        if bound:
            claim[bound["kind"].lower()] = {"name": bound["name"], "uid": bound["uid"]}
            if node := bound.get("node"):
                claim["node"] = node
        claim["serviceaccount"] = {"name": account.name, "uid": account.uid}
        claims = {
            "aud": audiences,
            "exp": now + seconds,
            "iat": now,
            "iss": ISSUER,
            "jti": self._clock.uid(),
            "kubernetes.io": claim,
            "nbf": now,
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
        }
        token = jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": self._id})
        return token, datetime.fromtimestamp(now + seconds, self._clock.now().tzinfo)

    def user(self, token: str, audiences: tuple[str, ...] = (ISSUER,)) -> tuple[User, list[str]] | None:
        """The user of a token and the audiences that it is good for; None where it is not good."""
        claims = self._claims(token)
        if claims is None:
            return None
        shared = [audience for audience in claims["aud"] if audience in audiences]
        now = self._clock.now().timestamp()
        if not shared or claims["exp"] <= now or claims["nbf"] > now + 60:
            return None
        claim = claims["kubernetes.io"]
        namespace, account = claim["namespace"], claim["serviceaccount"]
        # Looked up each time: a token ends with its account, and with the Pod that it was made for.
        if not self._is_there("serviceaccounts", namespace, account):
            return None
        extra = [(f"{_EXTRA}credential-id", (f"JTI={claims['jti']}",))]
        for kind, bucket in _BUCKETS.items():
            if kind not in claim:
                continue
            if kind != "node" and not self._is_there(bucket, namespace, claim[kind]):
                return None
            if kind != "secret":
                extra.append((f"{_EXTRA}{kind}-name", (claim[kind]["name"],)))
                if uid := claim[kind].get("uid"):  # that of a node that was not there is not known
                    extra.append((f"{_EXTRA}{kind}-uid", (uid,)))
        return account_user(namespace, account["name"], account["uid"], tuple(sorted(extra))), shared

    def _is_there(self, bucket: str, namespace: str, reference: Json) -> bool:
        item = self._store.get(bucket, ("" if bucket == "nodes" else namespace, reference["name"]))
        return item is not None and item.uid == reference["uid"]

    def _claims(self, token: str) -> Json | None:
        digest = hashlib.sha256(token.encode()).digest()
        claims = self._checked.get(digest)
        if claims is None:
            try:
                # Times are compared by the server's own clock, which the caller does.
                options: Any = {
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "verify_aud": False,
                }
                claims = jwt.decode(token, self._public, algorithms=["ES256"], issuer=ISSUER, options=options)
            except jwt.PyJWTError:
                return None
            if not mapping(claims, "kubernetes.io").get("serviceaccount"):
                return None
            self._checked[digest] = claims
            if len(self._checked) > _CACHED:
                self._checked.popitem(last=False)
        return claims

    def key_set(self) -> Json:
        """The public key, as others who check the tokens read it."""
        key = jwt.algorithms.ECAlgorithm.to_jwk(self._public, as_dict=True)
        return {"keys": [{"use": "sig", "kid": self._id, "alg": "ES256", **key}]}


def discovery_document(url: str) -> Json:
    return {
        "issuer": ISSUER,
        "jwks_uri": f"{url}/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }


def _key(path: Path, platform: PlatformIdentity | None) -> ec.EllipticCurvePrivateKey:
    """The key in the file, made where there is none: tokens outlive a restart."""
    try:
        content = path.read_bytes()
        loaded = serialization.load_pem_private_key(content, None)
        if isinstance(loaded, ec.EllipticCurvePrivateKey) and not is_foreign(content, platform):
            return loaded
    except FileNotFoundError:
        pass
    except (ValueError, TypeError, UnsupportedAlgorithm):
        content = b""
    if path.exists():
        _log.warning("%s: was damaged, or is another platform's; it is created again", path)
    key = ec.generate_private_key(ec.SECP256R1())
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(path, private_pem(key), platform)
    return key
