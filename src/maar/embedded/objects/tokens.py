"""Tokens of ServiceAccounts: TokenRequest makes them, TokenReview checks them.

They look as on a real server, but the signature is a keyed hash. A token is valid until it expires or its account is
deleted.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from maar.embedded.objects.errors import ApiError, Obj
from maar.embedded.objects.kinds import SERVICE_ACCOUNTS

if TYPE_CHECKING:
    from maar.embedded.objects.api import Api

AUDIENCE = "https://kubernetes.default.svc"
"""The audience of the API server itself."""
HOUR = 3600


class Tokens:
    """Makes and checks the tokens of one server."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._key = secrets.token_bytes(32)

    def request(self, namespace: str, name: str, body: Obj) -> Obj:
        """The answer to a TokenRequest for an account, which must exist."""
        account = self._api.get(SERVICE_ACCOUNTS, namespace, name).obj
        spec = body.get("spec") or {}
        audiences, seconds = spec.get("audiences") or [AUDIENCE], spec.get("expirationSeconds") or HOUR
        expires = int(time.time()) + int(seconds)
        claims = {
            "aud": audiences,
            "exp": expires,
            "iss": AUDIENCE,
            "kubernetes.io": {
                "namespace": namespace,
                "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]},
            },
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        signed = ".".join(_text(msgspec.json.encode(part)) for part in ({"alg": "HS256"}, claims))
        status = {
            "token": f"{signed}.{_text(self._signature(signed))}",
            "expirationTimestamp": datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        return {**body, "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "status": status}

    def review(self, body: Obj) -> Obj:
        """The answer to a TokenReview."""
        spec = body.get("spec") or {}
        if not spec.get("token"):
            raise ApiError(400, "BadRequest", "token is required for TokenReview in authentication")
        return {**body, "status": self._status(str(spec["token"]), spec.get("audiences") or [AUDIENCE])}

    def user(self, token: str) -> Obj | None:
        """The user with this token; `None` if the token is not valid for this server."""
        status = self._status(token, [AUDIENCE])
        return status["user"] if status.get("authenticated") else None

    def _status(self, token: str, audiences: list[str]) -> Obj:
        signed, _, signature = token.rpartition(".")
        if not hmac.compare_digest(_text(self._signature(signed)).encode(), signature.encode(errors="replace")):
            return {"user": {}, "error": "invalid bearer token"}
        payload = signed.partition(".")[2]
        claims: dict[str, Any] = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        about = claims["kubernetes.io"]
        namespace, name, uid = about["namespace"], about["serviceaccount"]["name"], about["serviceaccount"]["uid"]
        account = self._api.store.table(SERVICE_ACCOUNTS).items.get((namespace, name))
        both = [audience for audience in audiences if audience in claims["aud"]]
        is_alive = account is not None and account.obj["metadata"]["uid"] == uid
        if not is_alive or not both or claims["exp"] <= time.time():
            return {"user": {}, "error": "invalid bearer token"}
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        user = {"username": claims["sub"], "uid": uid, "groups": groups}
        return {"authenticated": True, "user": user, "audiences": both}

    def _signature(self, text: str) -> bytes:
        return hmac.new(self._key, text.encode(errors="replace"), hashlib.sha256).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
