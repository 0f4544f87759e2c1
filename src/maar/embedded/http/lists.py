"""Lists of objects: selection, pages, and lists at an older version."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import msgspec

from maar.embedded.http.selectors import Match
from maar.embedded.objects.api import Api
from maar.embedded.objects.errors import ApiError, bad_request, expired
from maar.embedded.objects.kinds import Kind
from maar.embedded.objects.store import Item, Key, encode


class _Token(msgspec.Struct, rename={"version": "rv"}):
    """The start of the next page, and the version that all pages show."""

    version: int
    start: Key


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list."""

    items: list[Item]
    version: int
    token: str = ""
    remaining: int | None = None


def listed(
    api: Api,
    kind: Kind,
    match: Match | None,
    *,
    limit: int = 0,
    token: str = "",
    version: str = "",
    exact: bool = False,
) -> Page:
    """The selected objects, sorted by namespace and name."""
    now = api.store.version
    at = now
    start: Key = ("", "")
    if token:
        at, start = _parsed(token)
    elif version not in ("", "0"):
        wanted = parse_version(version)
        if wanted > now:
            raise too_large(wanted, now)
        at = wanted if exact else now
    try:
        table = api.store.table(kind).at(at, now)
    except ApiError as error:
        if token:
            why = "The provided continue parameter is too old to display a consistent list result."
            raise expired(why) from None
        raise error
    keys = sorted(key for key in table if key >= start) if token else sorted(table)
    items = [table[key] for key in keys if match is None or match(table[key].obj)]
    if not limit or len(items) <= limit:
        return Page(items, at)
    following = items[limit].obj["metadata"]
    next_token = _Token(at, (following.get("namespace", ""), following["name"]))
    text = base64.urlsafe_b64encode(encode(next_token)).decode().rstrip("=")
    return Page(items[:limit], at, text, len(items) - limit)


def parse_version(text: str) -> int:
    """The number in a resourceVersion that a client sent."""
    if not text.isascii() or not text.isdecimal():
        message = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise ApiError(500, "", message)  # as in a real server
    return int(text)


def too_large(wanted: int, now: int) -> ApiError:
    """The error for a version that does not exist yet."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    details = {"causes": causes, "retryAfterSeconds": 1}
    return ApiError(504, "Timeout", f"Timeout: Too large resource version: {wanted}, current: {now}", details)


def _parsed(token: str) -> tuple[int, Key]:
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=_Token)
    except (ValueError, msgspec.DecodeError):
        raise bad_request("continue key is not valid") from None
    return found.version, found.start


def rendered(kind: Kind, page: Page) -> bytes:
    """A list as JSON. As in a real server, items of built-in kinds have no `kind` and `apiVersion`."""
    metadata: dict[str, object] = {"resourceVersion": str(page.version)}
    if page.token:
        metadata["continue"] = page.token
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
    list_kind = kind.list_kind or f"{kind.kind}List"
    head = encode({"kind": list_kind, "apiVersion": kind.api_version, "metadata": metadata})
    if kind.custom:
        bodies = (item.rendered(kind) for item in page.items)
    elif kind.from_store:
        bodies = (encode(kind.from_store(item.obj)) for item in page.items)
    else:
        bodies = (item.body for item in page.items)
    return head[:-1] + b',"items":[' + b",".join(bodies) + b"]}"
