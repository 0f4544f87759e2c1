"""The OpenAPI document is true: answers follow it, and requests made from it, good and hostile, never break it."""

from __future__ import annotations

import asyncio
import random
import string
from pathlib import Path
from typing import Any

import msgspec
from tests.support.patience import PATIENCE
from tests.support.schema import problems, referred
from tests.support.web import ADMIN, MINE, THEIRS, USER, Client, Web, webbing
from tests.web.api.test_api import scene

from maar.web.api.openapi import document
from maar.web.api.roots import PREFIX
from maar.web.limits import HttpLimits, Rate

HOSTILE = 300
"""Requests whose answers are compared with the document; `test_hostile.py` has 700 more."""
FREE = HttpLimits(user_requests=Rate(10**6, 10**6), requests_each=Rate(10**6, 10**6), computing=Rate(10**6, 10**6))
TEXTS = (
    "",
    "x",
    "../..",
    "%00",
    "\u202e",
    "a" * 5000,
    "{{7*7}}",
    "' OR 1=1 --",
    "<script>",
    "\x00",
    "-1",
    "1e999",
    MINE,
)


def test_the_document_is_valid_and_complete() -> None:
    made = msgspec.json.decode(msgspec.json.encode(document()))
    assert made["openapi"].startswith("3.1")
    ids = [operation["operationId"] for path in made["paths"].values() for operation in path.values()]
    assert len(ids) == len(set(ids))
    paths = {f"{PREFIX}/{name}" for name in ("whoami", "cluster", "queues", "nodes", "jobs", "decisions", "what-if")}
    paths |= {f"{PREFIX}/recordings", f"{PREFIX}/utilisation", f"{PREFIX}/forecasts"}
    paths |= {f"{PREFIX}/jobs/{{namespace}}/{{name}}", f"{PREFIX}/stream", f"{PREFIX}/openapi.json"}
    assert paths == made["paths"].keys()

    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [r for item in value.values() for r in references(item)]
        return [r for item in value for r in references(item)] if isinstance(value, list) else []

    for reference in references(made):
        assert referred(reference, made), reference


def test_answers_follow_the_document(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        admin, user = await web.as_user(ADMIN), await web.as_user(USER)
        made = await admin.get("/openapi.json")
        paths = [
            "whoami",
            "cluster",
            "queues",
            "nodes",
            "jobs",
            "decisions",
            "recordings",
            "utilisation",
            "forecasts",
            "jobs?limit=1&sort=-since",
        ]
        paths += [f"jobs/{MINE}/waits", f"jobs/{MINE}/runs", f"jobs/{THEIRS}/aq7runs", "jobs?limit=x", "nothing"]
        asked = [(client, path, None) for client in (admin, user, web.with_token()) for path in paths]
        for body in (
            {"edits": [{"edit": "end-jobs", "jobs": [f"{MINE}/runs"]}]},
            {"edits": [{"edit": "end-jobs", "jobs": [1]}]},
            {"edits": [{"edit": "remove-nodes", "nodes": ["n0"]}]},
        ):
            asked += [(user, "what-if", body)]  # type: ignore[list-item]
        statuses = [await check(made, client, path, body) for client, path, body in asked]
        assert {200, 400, 401, 404, 422} == set(statuses)
        async with user.stream() as events:
            event = await anext(events)
        assert [] == problems(event, {"$ref": "#/components/schemas/ChangeEvent"}, made)

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), webbing(tmp_path) as web:
            await scene(web)
            await story(web)

    asyncio.run(main())


async def check(made: Any, client: Client, path: str, body: Any = None, method: str = "", **headers: str) -> int:
    """Ask, and compare the answer with the document; returns the status."""
    status, text = await client.ask(f"{PREFIX}/{path}", body, method, **headers)
    answer = msgspec.json.decode(text)
    method = method or ("get" if body is None else "post")
    plain = f"{PREFIX}/{path.partition('?')[0]}"
    if plain.count("/") == 5:
        plain = f"{PREFIX}/jobs/{{namespace}}/{{name}}"
    operation = made["paths"].get(plain, {}).get(method.lower())
    schema: Any = {"$ref": "#/components/schemas/ErrorView"}
    if operation is not None and status < 500:
        schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    elif status < 500:
        assert status in (401, 404, 405), (path, status)
    assert [] == problems(answer, schema, made), (path, status)
    return status


def test_hostile_requests_change_nothing_and_it_keeps_serving(tmp_path: Path) -> None:
    dice = random.Random(7)

    def value(depth: int = 0) -> Any:
        kind = dice.randrange(9 if depth < 4 else 6)
        match kind:
            case 0:
                return dice.choice(TEXTS)
            case 1:
                return dice.choice([0, -1, 1, 2**31, 2**63, -(2**64), 10**30, 1.5, 1e308])
            case 2:
                return dice.choice([None, True, False])
            case 3:
                return "".join(dice.choices(string.printable, k=dice.randrange(40)))
            case 4 | 5:
                return dice.choice(["n0", "n1", "red", "default", f"{MINE}/waits", f"{MINE}/runs", f"{THEIRS}/aq7runs"])
            case 6:
                return [value(depth + 1) for _ in range(dice.randrange(4))]
            case _:
                return {
                    dice.choice([*TEXTS, "edit", "job", "nodes"]): value(depth + 1) for _ in range(dice.randrange(4))
                }

    def edit(made: Any) -> Any:
        """An edit of the document with some values that fit and some that do not."""
        name = dice.choice([n for n, s in made["components"]["schemas"].items() if "edit" in s.get("properties", {})])
        schema = made["components"]["schemas"][name]["properties"]
        fields = {"edit": schema["edit"].get("const") or schema["edit"]["enum"][0]}
        for field in schema:
            if field != "edit" and dice.random() < 0.9:
                fit = {"job": f"{MINE}/waits", "queue": "red", "nodes": ["n0"], "amounts": {"cpu": value()}}.get(field)
                fields[field] = value() if fit is None or dice.random() < 0.3 else fit
        return fields

    async def story(web: Web) -> None:
        admin, user = await web.as_user(ADMIN), await web.as_user(USER)
        made = await admin.get("/openapi.json")
        before = await web.cluster.versions()
        statuses: dict[int, int] = {}
        for i in range(HOSTILE):
            text = dice.choice(TEXTS).replace("%", "%25").replace("/", "%2F").replace("\x00", "%00").replace("#", "")
            text = text.replace("?", "").replace("\u202e", "%E2%80%AE").replace(" ", "%20")
            match i % 6:
                case 0:
                    status = await check(
                        made, user, "what-if", {"edits": [edit(made) for _ in range(dice.randrange(1, 3))]}
                    )
                case 1:
                    status = await check(made, user, "what-if", {"edits": value(), "manifests": value()})
                case 2:
                    status = await check(
                        made,
                        user,
                        "what-if",
                        {"manifests": [{"apiVersion": "v1", "kind": "Pod", "metadata": value(), "spec": value()}]},
                    )
                case 3:
                    name = dice.choice(["limit", "offset", "sort", "state", "queue", "owner", "x"])
                    status = await check(made, user, f"{dice.choice(['jobs', 'nodes', 'decisions'])}?{name}={text}")
                case 4:
                    status, body = await user.ask(f"{PREFIX}/jobs/{text or 'x'}/{text or 'x'}")
                    assert status in (200, 400, 404), (text, body)
                case _:
                    method = dice.choice(["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "POST"])
                    status, _ = await user.ask(
                        f"{PREFIX}/{dice.choice(['jobs', 'what-if', 'stream', 'x'])}", b"{}", method
                    )
            assert status < 500, i
            statuses[status] = statuses.get(status, 0) + 1
        assert {200, 400, 404, 405, 422} <= statuses.keys(), statuses
        assert before == await web.cluster.versions(), "something was written"
        assert ["runs", "waits"] == [job["name"] for job in (await user.get("/jobs"))["items"]]

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), webbing(tmp_path, limits=FREE) as web:
            await scene(web)
            await story(web)

    asyncio.run(main())
