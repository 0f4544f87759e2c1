"""Who may report on which job: the administrator's token, or a ServiceAccount token of the job's own namespace.

The API server checks ServiceAccount tokens (`authentication`). A token that does not name a ServiceAccount of the job's
namespace is refused without asking.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from maar.files import read_regular
from maar.web.authentication import Denied, Tokens, bearer, claims_in
from maar.web.front.answers import RequestRefused, later
from maar.web.limits import HttpLimits

PREFIX = "system:serviceaccount:"

Verdict = tuple[str, str]
"""The user name, empty if the token is invalid; and why the API server could not be asked."""
Ask = Callable[[str, str], Awaitable[Verdict]]
"""Asks the API server about a token and its audience."""


class TokenCheck:
    """Checks tokens."""

    def __init__(self, ask: Ask, token_file: Path | None, limits: HttpLimits, clock: Callable[[], float]) -> None:
        self._ask = ask
        self._token_file = token_file
        self._tokens = Tokens(self._review, limits, clock)

    def precheck(self, header: str, namespace: str) -> None:
        """Refuse what needs no question, before the body of a request is read."""
        with _refusing():
            token = bearer(header)
            if not self._is_admin(token):
                _check_claims(token, namespace)

    async def check(self, header: str, namespace: str, client: str) -> None:
        """Refuse a request unless its token allows it to act for jobs of a namespace."""
        with _refusing():
            token = bearer(header)
            if self._is_admin(token):
                return
            _check_claims(token, namespace)
            user = await self._tokens.user(token, client)
            if not user.startswith(f"{PREFIX}{namespace}:"):
                raise _forbidden(namespace, user)

    def forget(self) -> None:
        self._tokens.forget()

    def _is_admin(self, token: str) -> bool:
        """Compare with the administrator's token. The file is read each time, because secrets are rotated."""
        if self._token_file is None:
            return False
        try:
            wanted = read_regular(self._token_file).strip()
        except OSError:
            return False
        return bool(wanted) and hmac.compare_digest(wanted, token.encode())

    async def _review(self, token: str, audience: str) -> str | None:
        user, problem = await self._ask(token, audience)
        if problem:
            raise Denied(503, f"cannot check the token: {problem}", 10)
        return user or None


@contextmanager
def _refusing() -> Iterator[None]:
    """Answer as this server does when a token is denied."""
    try:
        yield
    except Denied as error:
        if error.status == 401:
            raise RequestRefused(401, str(error), WWW_Authenticate="Bearer") from None
        raise later(str(error), error.after, status=error.status) from None


def _check_claims(token: str, namespace: str) -> None:
    """Refuse a token that does not even say that it is of a ServiceAccount of the namespace."""
    claims = claims_in(token)
    if claims is None or claims.sub is None:
        raise Denied(401, "neither a token of a ServiceAccount nor the administrator's")
    if not claims.sub.startswith(PREFIX):
        raise Denied(401, "not a token of a ServiceAccount")
    if not claims.sub.startswith(f"{PREFIX}{namespace}:"):
        raise _forbidden(namespace, claims.sub)


def _forbidden(namespace: str, user: str) -> RequestRefused:
    shown = user[:200].encode("ascii", "backslashreplace").decode()
    return RequestRefused(403, f"jobs of namespace `{namespace}` need a token of that namespace, got one of `{shown}`")
