"""Tokens of ServiceAccounts, as the server makes and checks them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.conftest import Client
from tests.support.patience import wait_until

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def review(api: Client, token: str, *audiences: str) -> dict[str, Any]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    if audiences:
        body["spec"]["audiences"] = list(audiences)  # type: ignore[index]
    status: dict[str, Any] = api.post(REVIEWS, body)["status"]
    return status


@pytest.fixture
def account(api: Client, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.post(path, {"metadata": {"name": "trainer"}})
    return f"{path}/trainer"


def request(api: Client, account: str, **spec: Any) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    token: str = api.post(f"{account}/token", body)["status"]["token"]
    assert 3 == len(token.split("."))
    return token


def test_a_token_names_its_account(api: Client, account: str, namespace: str) -> None:
    status = review(api, request(api, account))
    assert status["authenticated"] is True
    assert f"system:serviceaccount:{namespace}:trainer" == status["user"]["username"]
    assert ["https://kubernetes.default.svc"] == status["audiences"]


def test_a_token_is_for_its_audience(api: Client, account: str) -> None:
    token = request(api, account, audiences=["maar"])
    assert not review(api, token).get("authenticated")
    assert not review(api, token, "other").get("authenticated")
    status = review(api, token, "maar", "other")
    assert (True, ["maar"]) == (status["authenticated"], status["audiences"])
    assert not review(api, request(api, account), "maar").get("authenticated")


def test_other_texts_are_no_tokens(api: Client, account: str) -> None:
    head, payload, signature = request(api, account).split(".")
    for text in ("x", "a.b.c", f"{head}.{payload}.{signature[::-1]}", f"{head}.{payload[:-1]}.{signature}"):
        status = review(api, text)
        assert not status.get("authenticated")
        assert "username" not in status["user"]


def test_a_token_ends_with_its_account(api: Client, account: str) -> None:
    token = request(api, account)
    api.delete(account)
    # A real server learns it from its own watch.
    wait_until(lambda: not review(api, token).get("authenticated"), "the token ends with its account")
    assert 404 == api.ask("POST", f"{account}/token", {"spec": {}}).code
