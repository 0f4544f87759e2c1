"""The HTTP handler: finds the verb for each request and encodes its response.

It parses requests and writes responses; the verbs do the work. Faults are injected here, so the code below has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from aiohttp import web

from maar.embedded.http import discovery
from maar.embedded.http.lists import Page, listed, rendered
from maar.embedded.http.patching import decoded, patch, without_nulls
from maar.embedded.http.routes import Group, Target, group_of, target
from maar.embedded.http.scales import scale_of, set_scale
from maar.embedded.http.selectors import Match, matcher
from maar.embedded.http.tables import table
from maar.embedded.http.watches import Wanted, Watch
from maar.embedded.objects.api import Api, How
from maar.embedded.objects.errors import ApiError, Obj, bad_request, invalid, no_such_path, not_allowed, success
from maar.embedded.objects.evictions import evict
from maar.embedded.objects.kinds import PODS
from maar.embedded.objects.pods import bind
from maar.embedded.objects.store import Item, encode
from maar.embedded.objects.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from maar.embedded.http.faults import Faults

JSON = {"Content-Type": "application/json"}
TEXT = {"Content-Type": "text/plain; charset=utf-8"}
ADMIN: Obj = {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]}
VERBS = {"POST": "create", "PUT": "update"}
HEALTH = ("/healthz", "/readyz", "/livez")


class Handler:
    """Answers all requests of one server."""

    def __init__(self, api: Api, faults: Faults, *, token: str, bookmark_seconds: float, watch_buffer: int) -> None:
        self.api = api
        self.faults = faults
        self.token = token
        self.tokens = Tokens(api)
        self.allows: Callable[[Obj], bool] = lambda spec: True
        """What an access review answers, from its `spec`."""
        self.permits: Callable[[str, str, str], bool] = lambda user, method, path: True
        """What requests with the token of a ServiceAccount may do. There are no roles: others may do everything."""
        self.bookmark_seconds = bookmark_seconds
        self.watch_buffer = watch_buffer
        self.watches: set[Watch] = set()
        self.requests = 0
        """How many requests the server got."""

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, with faults."""
        faults, method, path = self.faults, request.method, request.path
        self.requests += 1
        if faults.refuse:
            return _cut(request)
        body = await request.read() if request.can_read_body else b""
        if faults.lag:
            await asyncio.sleep(faults.lag)
        while faults.holds(method, path):  # noqa: ASYNC110 it looks again now and then
            await asyncio.sleep(0.01)
        try:
            if code := faults.failure(method, path):
                raise _fault(code)
            faults.before(method, path)
            answer = await self._answer(request, path, body)
        except ApiError as error:
            answer = _failed(error)
        if faults.dropped(method, path):
            return _cut(request)
        return answer

    async def _answer(self, request: web.BaseRequest, path: str, body: bytes) -> web.StreamResponse:
        user = self._user(request, path)
        group = group_of(path)
        if group is None or not group.rest:
            return self._about(path, group)
        query: Mapping[str, str] = request.query if request.query_string else {}
        if group.group == "authorization.k8s.io" and request.method == "POST":
            asked = _object(body, request.content_type)
            return _json(201, {**asked, "status": {"allowed": self.allows(asked.get("spec") or {})}})
        if group[::2] == ("authentication.k8s.io", ["tokenreviews"]) and request.method == "POST":
            return _json(201, self.tokens.review(_object(body, request.content_type)))
        if group[::2] == ("authentication.k8s.io", ["selfsubjectreviews"]) and request.method == "POST":
            return _json(201, {**_object(body, request.content_type), "status": {"userInfo": user}})
        about = self._target(group, request.method, body)
        if request.method == "GET":
            if query.get("watch") in ("1", "true", "True"):
                return await self._watch(request, about, query)
            return self._get(request, about, query)
        return self._write(request, about, query, body)

    def _user(self, request: web.BaseRequest, path: str) -> Obj:
        """The user of a request: the ServiceAccount of its token, or the administrator."""
        given = request.headers.get("Authorization", "")
        if given == f"Bearer {self.token}" or (not self.token and given.count(".") != 2):
            return ADMIN
        user = self.tokens.user(given.removeprefix("Bearer "))
        if user is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        if not self.permits(user["username"], request.method, path):
            raise _not_permitted(user["username"], request.method, path)
        return user

    def _target(self, group: Group, method: str, body: bytes) -> Target:
        """What the path names. The older binding endpoint names the pod in the body."""
        if not group.group and method == "POST" and group.rest[0] == "namespaces" and group.rest[2:] == ["bindings"]:
            name = (decoded(body).get("metadata") or {}).get("name") or ""
            return Target(PODS, group.rest[1], name, "binding")
        return target(self.api, group)

    def _about(self, path: str, group: Group | None) -> web.Response:
        """Answer requests about the server itself: discovery, health, version, OpenAPI."""
        if group is not None:
            if not group.version and path.startswith("/apis"):
                return _json(200, discovery.group(self.api, group.group) if group.group else discovery.groups(self.api))
            if not group.version:
                return _json(200, discovery.core_versions())
            return _json(200, discovery.resources(self.api, group.group, group.version))
        if path.rstrip("/").startswith(HEALTH):
            return web.Response(body=b"ok", headers=TEXT)
        if path == "/version":
            return _json(200, discovery.VERSION)
        if path == "/openapi/v2":
            # kubectl accepts only protobuf here. An empty body is an empty document, so kubectl itself reports that it
            # does not know a kind.
            return web.Response(body=b"", headers={"Content-Type": discovery.OPEN_API_V2})
        if path == "/openapi/v3":
            return _json(200, discovery.open_api_index(self.api))
        if path.startswith("/openapi/v3/"):
            return _json(200, discovery.open_api(self.api, path.removeprefix("/openapi/v3/")))
        raise no_such_path()

    def _get(self, request: web.BaseRequest, about: Target, query: Mapping[str, str]) -> web.Response:
        kind, as_table = about.kind, _wants_table(request)
        if about.part == "scale":
            return _json(200, scale_of(self.api, about))
        if about.name:
            item = self.api.get(kind, about.namespace, about.name)
            if as_table:
                return _bytes(200, table(kind, [item], query.get("includeObject", "")))
            return _bytes(200, item.rendered(kind))
        page = self._page(about, query)
        if as_table:
            return _bytes(200, table(kind, page.items, query.get("includeObject", ""), page))
        return _bytes(200, rendered(kind, page))

    def _page(self, about: Target, query: Mapping[str, str]) -> Page:
        page = listed(
            self.api,
            about.kind,
            _match(about, query),
            limit=_number(query, "limit"),
            token=query.get("continue", ""),
            version=query.get("resourceVersion", ""),
            exact=query.get("resourceVersionMatch") == "Exact",
        )
        # A real server does not count remaining items when a selector is set.
        selected = query.get("labelSelector") or query.get("fieldSelector")
        return replace(page, remaining=None) if selected else page

    async def _watch(self, request: web.BaseRequest, about: Target, query: Mapping[str, str]) -> web.StreamResponse:
        kind, include = about.kind, query.get("includeObject", "")
        initial = {"true": True, "1": True, "false": False, "0": False}.get(query.get("sendInitialEvents", ""))
        if initial is not None and query.get("resourceVersionMatch") != "NotOlderThan":
            why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise invalid("meta.k8s.io", "ListOptions", "", [not_allowed("resourceVersionMatch", why)])
        wanted = Wanted(
            match=_match(about, query),
            version=query.get("resourceVersion", ""),
            initial=initial,
            bookmarks=query.get("allowWatchBookmarks") in ("1", "true", "True"),
            timeout=_number(query, "timeoutSeconds"),
            render=(lambda item: table(kind, [item], include)) if _wants_table(request) else None,
        )
        watch = Watch(self.api, kind, wanted, bookmark_seconds=self.bookmark_seconds, buffer=self.watch_buffer)
        watch.open()
        self.watches.add(watch)
        try:
            answer = web.StreamResponse(headers=JSON)
            answer.enable_chunked_encoding()
            await answer.prepare(request)
            async for lines in watch.lines():
                await self._hold_back()
                await answer.write(lines)
            await answer.write_eof()
        except ConnectionError:
            pass  # the client is gone
        finally:
            watch.close()
            self.watches.discard(watch)
        return answer

    async def _hold_back(self) -> None:
        if self.faults.watch_lag:
            await asyncio.sleep(self.faults.watch_lag)
        while self.faults.stall_watches:  # noqa: ASYNC110 it looks again now and then
            await asyncio.sleep(0.01)

    def _write(self, request: web.BaseRequest, about: Target, query: Mapping[str, str], body: bytes) -> web.Response:
        dry_run = bool(query.get("dryRun"))
        how = How(about.part, dry_run, strict=query.get("fieldValidation") == "Strict")
        kind, content_type = about.kind, request.content_type
        if about.part in ("binding", "eviction"):
            if request.method != "POST":
                raise _not_allowed()
            do = bind if about.part == "binding" else evict
            do(self.api, about.namespace, about.name, decoded(body, content_type), dry_run=dry_run or _is_dry_run(body))
            return _json(201, success())
        if about.part == "token":
            if request.method != "POST":
                raise _not_allowed()
            return _json(201, self.tokens.request(about.namespace, about.name, _object(body, content_type)))
        if request.method == "DELETE":
            return self._delete(about, query, body)
        if about.part == "scale" and request.method in ("PUT", "PATCH"):
            return _json(200, set_scale(self.api, about, body, content_type, dry_run=dry_run))
        if request.method == "POST" and not about.name:
            item = self.api.create(kind, about.namespace, _object(body, content_type), how)
            return _bytes(201, item.rendered(kind))
        if request.method == "PUT" and about.name:
            before = self.api.store.table(kind).items.get((about.namespace, about.name))
            obj = _object(body, content_type)
            item = self.api.update(kind, about.namespace, about.name, obj, how)
            return _bytes(200 if before else 201, item.rendered(kind))
        if request.method == "PATCH" and about.name:
            item, new = patch(self.api, about, content_type, body, how, query.get("fieldManager", ""))
            return _bytes(201 if new else 200, item.rendered(kind))
        raise _not_allowed()

    def _delete(self, about: Target, query: Mapping[str, str], body: bytes) -> web.Response:
        options: Obj = decoded(body) if body else {}
        if "propagationPolicy" in query:
            options["propagationPolicy"] = query["propagationPolicy"]
        if "gracePeriodSeconds" in query:
            options["gracePeriodSeconds"] = _number(query, "gracePeriodSeconds")
        dry_run = bool(query.get("dryRun") or options.get("dryRun"))
        kind = about.kind
        if about.name:
            item, gone = self.api.delete(kind, about.namespace, about.name, options, dry_run=dry_run)
            if gone and not kind.returns_deleted:
                details = {"name": about.name, "kind": kind.plural, "uid": item.obj["metadata"]["uid"]}
                return _json(200, success(200, details | ({"group": kind.group} if kind.group else {})))
            return _bytes(200, item.rendered(kind))
        page = self._page(about, query)
        items: list[Item] = []
        for found in page.items:
            metadata = found.obj["metadata"]
            deleted = self.api.delete(kind, metadata.get("namespace", ""), metadata["name"], options, dry_run=dry_run)
            items.append(deleted.item)
        return _bytes(200, rendered(kind, Page(items, self.api.store.version)))


def _wants_table(request: web.BaseRequest) -> bool:
    return "as=Table" in request.headers.get("Accept", "")


def _match(about: Target, query: Mapping[str, str]) -> Match | None:
    fields = query.get("fieldSelector", "")
    if about.name:
        fields = ",".join(filter(None, (fields, f"metadata.name={about.name}")))
    return matcher(about.kind, about.namespace, query.get("labelSelector", ""), fields)


def _object(body: bytes, content_type: str) -> Obj:
    if "protobuf" in content_type:
        message = "the body of the request was in protobuf, which the embedded server does not read: send JSON"
        raise ApiError(415, "UnsupportedMediaType", message)
    obj = decoded(body, content_type)
    if not isinstance(obj, dict):
        raise bad_request("the object provided is unrecognized: expected a JSON object")
    kept: Obj = without_nulls(obj) if b"null" in body else obj
    return kept


def _is_dry_run(body: bytes) -> bool:
    return b'"dryRun"' in body and bool((decoded(body).get("deleteOptions") or decoded(body)).get("dryRun"))


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name) or "0"
    if not text.isascii() or not text.lstrip("-").isdecimal():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _not_allowed() -> ApiError:
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def _not_permitted(user: str, method: str, path: str) -> ApiError:
    """A missing right, in the words of Kubernetes."""
    group, verb = group_of(path), VERBS.get(method, method.lower())
    if group is None or not group.rest:
        return ApiError(403, "Forbidden", f'forbidden: User "{user}" cannot {verb} path "{path}"')
    inside = group.rest[0] == "namespaces" and len(group.rest) > 2
    plural = group.rest[2] if inside else group.rest[0]
    where = f' in the namespace "{group.rest[1]}"' if inside else " at the cluster scope"
    what = f'cannot {verb} resource "{plural}" in API group "{group.group}"{where}'
    return ApiError(403, "Forbidden", f'{plural} is forbidden: User "{user}" {what}')


def _fault(code: int) -> ApiError:
    if code == 429:
        message = "the server has received too many requests and has asked us to try again later"
        return ApiError(429, "TooManyRequests", message, {"retryAfterSeconds": 1})
    return ApiError(code, "InternalError", "Internal error occurred: injected fault")


def _cut(request: web.BaseRequest) -> web.Response:
    """Close the connection without a response."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _bytes(code: int, body: bytes) -> web.Response:
    return web.Response(status=code, body=body, headers=JSON)


def _json(code: int, obj: Obj) -> web.Response:
    return _bytes(code, encode(obj))


def _failed(error: ApiError) -> web.Response:
    answer = _json(error.code, error.status())
    if seconds := error.details.get("retryAfterSeconds"):
        answer.headers["Retry-After"] = str(seconds)
    return answer
