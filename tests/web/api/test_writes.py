"""The training service of `maar web`: jobs are written with the caller's own token and rights, or not at all."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
import yaml
from aiohttp import web as http
from tests.support.patience import until
from tests.support.sockets import answer, serving
from tests.support.web import ADMIN, MINE, THEIRS, USER, Client, Web, webbing
from tests.web.api.test_api import Story, scene
from tests.web.api.test_openapi import FREE, TEXTS, check

from maar.kube.client.access import Access, load_access
from maar.kube.client.api import Api
from maar.kube.client.errors import AlreadyExists, Forbidden, Invalid, NotFound, TooManyRequests, Unreachable
from maar.kube.submit.errors import SubmitError
from maar.kube.wire.api_resources import QUEUES
from maar.views.sight import Sight
from maar.web.api.errors import Refused
from maar.web.api.guard import Guard
from maar.web.api.writing import Token, refusal
from maar.web.authentication import AUDIENCE
from maar.web.forecasting.keeper import ForecastPace
from maar.web.limits import HttpLimits, Rate
from maar.web.reviews import User

JOBS = f"/apis/batch/v1/namespaces/{MINE}/jobs"
PODS = f"/api/v1/namespaces/{MINE}/pods"
GROUPS = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{MINE}/podgroups"
CONTAINERS = [{"name": "c", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]


HANGS = 60.0
"""Seconds after which a story hangs."""
HANGS_WITH_FORECASTS = 300.0
"""The processes that forecast have the lowest priority, and other tests run beside them."""


def told(tmp_path: Path, story: Story, full: bool = False, hangs: float = HANGS, **options: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(hangs), webbing(tmp_path, **{"writes": True, **options}) as web:
            if full:
                await scene(web)
            await story(web)

    asyncio.run(main())


def job(name: str = "train", namespace: str = MINE, **annotations: str) -> dict[str, Any]:
    """An elastic Job as its owner writes it."""
    notes = {"maar.dev/gang": "true", "maar.dev/min-workers": "1", "maar.dev/max-workers": "4"} | annotations
    template = {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "annotations": notes},
        "spec": {"completionMode": "Indexed", "parallelism": 2, "completions": 2, "template": template},
    }


def pod(name: str = "alone") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": CONTAINERS}}


def test_the_answer_to_a_submission_says_when_the_job_starts(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        for n in range(2):
            await web.gang(MINE, f"runs-{n}", 1, gpu=8, on=f"n{n}")
            promise = {"metadata": {"annotations": {"maar.dev/max-runtime": "1000s"}}}
            await web.cluster.api.patch(f"{PODS}/runs-{n}-0", promise)

        async def running() -> bool:
            return [job["state"] for job in (await user.get("/jobs"))["items"]].count("running") == 2

        await until(running, "two jobs run")
        named = {**job(**{"maar.dev/max-runtime": "500s"}), "metadata": {**job()["metadata"], "generateName": "t-"}}
        del named["metadata"]["name"]
        status, made = await write(user, "POST", "/jobs", {"manifests": [job(), named], "namespace": MINE})
        assert 201 == status, made
        for one in made["created"]:
            forecast = one["forecast"]
            assert ("expected", 4) == (forecast["verdict"], forecast["rollouts"]), forecast
            assert 600.0 < forecast["startP50"] - forecast["madeAt"] < 1010.0
        status, made = await write(user, "POST", "/jobs", {"manifests": [job("more")], "seconds": 0})
        assert (201, None) == (status, made["created"][0]["forecast"])
        huge = job("huge")
        huge["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "64"
        status, made = await write(user, "POST", "/jobs", {"manifests": [huge], "dryRun": True})
        assert (201, "never") == (status, made["created"][0]["forecast"]["verdict"])

    told(tmp_path, story, hangs=HANGS_WITH_FORECASTS, pace=ForecastPace(rollouts=4))


def test_what_forecasts_cost_never_keeps_a_job_from_being_made(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        status, made = await write(user, "POST", "/jobs", {"manifests": [job("a")]})
        assert (201, 1) == (status, made["created"][0]["forecast"]["rollouts"])
        status, made = await write(user, "POST", "/jobs", {"manifests": [job("b")]})
        assert 201 == status
        assert made["created"][0]["forecast"]["words"].startswith("unknown: too much computing")

    limits = HttpLimits(computing=Rate(1e-9, 1e-9))
    told(tmp_path, story, hangs=HANGS_WITH_FORECASTS, pace=ForecastPace(rollouts=1), limits=limits)


class Witness:
    """What ServiceAccounts ask the API server for, and what they may not."""

    def __init__(self, web: Web, *forbidden: str) -> None:
        self.seen: list[tuple[str, str, str]] = []
        self._forbidden = forbidden
        web.server.handler.permits = self

    def __call__(self, user: str, method: str, path: str) -> bool:
        self.seen.append((user.rpartition(":")[2], method, path))
        return not any(part in path for part in self._forbidden)

    @property
    def writes(self) -> list[tuple[str, str, str]]:
        return [one for one in self.seen if one[1] != "GET" and "reviews" not in one[2]]


async def write(client: Client, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    status, text = await client.ask(f"/api/v1{path}", body, method)
    return status, msgspec.json.decode(text)


async def there(web: Web, path: str) -> Any:
    try:
        return await web.cluster.get(path)
    except NotFound:
        return None


def test_a_job_is_created_held_resized_and_cancelled_with_the_token_of_its_caller(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        witness, user = Witness(web), await web.as_user(USER)
        await queue(web, "red")
        status, made = await write(user, "POST", "/jobs", {"manifests": yaml.safe_dump(job())})
        assert 201 == status, made
        expected = {
            **{"apiVersion": "batch/v1", "kind": "Job", "namespace": MINE, "name": "train"},
            "completed": ["spec.template.spec.schedulerName: maar", "spec.suspend: true"],
            **{"warnings": [], "forecast": None},
        }
        assert {"created": [expected], "dryRun": False} == made
        found = await there(web, f"{JOBS}/train")
        assert ("maar", True) == (found["spec"]["template"]["spec"]["schedulerName"], found["spec"]["suspend"])
        path, named = f"/jobs/{MINE}/train", {k: expected[k] for k in ("apiVersion", "kind", "namespace", "name")}
        hold, bounds = "maar.dev/hold", ("maar.dev/min-workers", "maar.dev/max-workers")
        for change, notes in (
            ({"hold": True}, {hold: "true"}),
            ({"hold": True, "stop": True}, {hold: "stop"}),
            ({"hold": False}, {hold: None}),
            ({"minWorkers": 2, "maxWorkers": 3}, dict(zip(bounds, "23", strict=True))),
            ({"queue": "red"}, {"scheduling.volcano.sh/queue-name": "red"}),
        ):
            assert (200, {"changed": [named], "warnings": []}) == await write(user, "PATCH", path, change)
            annotations = (await there(web, f"{JOBS}/train"))["metadata"]["annotations"]
            assert notes == {name: annotations.get(name) for name in notes}
        assert (200, {"deleted": [named]}) == await write(user, "DELETE", path)
        assert await there(web, f"{JOBS}/train") is None
        assert [
            ("user", "POST", JOBS),
            *[("user", "PATCH", f"{JOBS}/train")] * 5,
            ("user", "DELETE", f"{JOBS}/train"),
        ] == (witness.writes)

    told(tmp_path, story)


async def queue(web: Web, name: str, **annotations: str) -> None:
    """Create a queue, and wait until users see it."""
    body = {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {"name": name, "annotations": annotations},
    }
    await web.cluster.api.create(QUEUES.path(), body)
    admin = await web.as_user(ADMIN)

    async def shown() -> bool:
        return name in [one["name"] for one in (await admin.get("/queues"))["items"]]

    await until(shown, f"queue {name} is shown")


def test_queues_classes_and_values_that_maar_cannot_use_are_refused(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        witness, user = Witness(web), await web.as_user(USER)
        await queue(web, "research")
        await queue(web, "closed-club", **{"maar.dev/namespaces": "elsewhere"})
        named = "scheduling.volcano.sh/queue-name"
        note = "manifests[0].metadata.annotations"
        for one, field, problem in (
            (job(**{named: "researc"}), f"{note}.{named}", "unknown queue `researc`; did you mean `research`? known:"),
            (job(**{named: "closed-club"}), f"{note}.{named}", "accepts no jobs of namespace"),
            (job(**{"maar.dev/max-runtime": "soon"}), f"{note}.maar.dev/max-runtime", "not a duration: `soon`"),
        ):
            status, found = await write(user, "POST", "/jobs", {"manifests": [one]})
            assert (True, field) == (status in (400, 422), found["field"]), found
            assert problem in found["error"]
        assert [] == [one for one in witness.writes if one[0] == "user"]
        status, _ = await write(user, "POST", "/jobs", {"manifests": [job(**{named: "research"})]})
        assert 201 == status
        status, found = await write(user, "PATCH", f"/jobs/{MINE}/train", {"queue": "researc"})
        assert (422, "queue") == (status, found["field"])
        assert "did you mean `research`?" in found["error"]

    told(tmp_path, story)


def test_writes_are_off_unless_switched_on(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        witness, admin = Witness(web), await web.as_user(ADMIN)
        assert not (await admin.get("/whoami"))["writes"]
        for method, path, body in (
            ("POST", "/jobs", {"manifests": [job()]}),
            ("PATCH", f"/jobs/{MINE}/train", {"hold": True}),
            ("DELETE", f"/jobs/{MINE}/train", None),
        ):
            status, found = await write(admin, method, path, body)
            assert (403, "writes are off here: `maar web --allow-writes` switches them on") == (status, found["error"])
            assert 401 == (await write(web.with_token(), method, path, body))[0]
        assert [] == witness.seen, "no token was sent"

    told(tmp_path, story, writes=False)


def test_nobody_writes_without_a_token(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        assert not (await web.with_token().get("/whoami"))["writes"]
        assert (await (await web.as_user(USER)).get("/whoami"))["writes"]
        status, found = await write(web.with_token(), "POST", "/jobs", {"manifests": [job()]})
        assert (401, True) == (status, "writes need a token" in found["error"])
        assert [] == (await there(web, JOBS))["items"]

    told(tmp_path, story, anonymous=True)


def test_a_token_for_maar_only_reads(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER, audiences=[AUDIENCE])
        assert 200 == (await user.ask("/api/v1/cluster"))[0]
        for method, path, body in (
            ("POST", "/jobs", {"manifests": [job()]}),
            ("DELETE", f"/jobs/{MINE}/runs", None),
        ):
            status, found = await write(user, method, path, body)
            assert 403 == status
            assert found["error"].startswith("writes need a token that the API server itself accepts")
        assert [] == (await there(web, JOBS))["items"]
        assert (await there(web, f"{GROUPS}/runs"))["metadata"]["name"] == "runs"

    told(tmp_path, story, full=True)


def test_without_the_right_nothing_is_created(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        Witness(web, f"namespaces/{THEIRS}", f"{PODS}")
        before = await web.cluster.versions()
        for manifests in ([job(namespace=THEIRS)], [job(), {**pod(), "metadata": {"name": "x", "namespace": MINE}}]):
            status, found = await write(user, "POST", "/jobs", {"manifests": manifests})
            assert (403, True) == (status, found["error"].startswith("forbidden")), found
        for method, body in (("PATCH", {"hold": True}), ("DELETE", None)):
            status, found = await write(user, method, f"/jobs/{THEIRS}/aq7runs", body)
            assert 403 == status, found
            assert "aq7" not in str(found)
            unknown = await write(user, method, f"/jobs/{THEIRS}/aq7nothing", body)
            assert status == unknown[0], "it is not told whether there is such a job"
        assert before == await web.cluster.versions()

    told(tmp_path, story, full=True)


def test_a_change_that_the_kind_does_not_allow_has_its_reason(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        assert 201 == (await write(user, "POST", "/jobs", {"manifests": [pod()], "namespace": MINE}))[0]
        again = "cancel the job and submit it again"
        for change, field, reason in (
            ({"priorityClass": "high"}, "priorityClass", f"the priority of a pod cannot change: {again}"),
            ({"maxWorkers": 3}, "maxWorkers", "the size of a Pod does not change"),
            ({"stop": True}, "stop", "expected with `hold` only"),
            ({"queue": ""}, "queue", "expected a name, got nothing"),
        ):
            found = await write(user, "PATCH", f"/jobs/{MINE}/alone", change)
            assert (422, {"error": reason, "field": field}) == found
        _, found = await write(user, "PATCH", f"/jobs/{MINE}/alone", {"hold": True, "stop": True})
        assert ["a Pod cannot be suspended; if it runs, it goes on until it is cancelled"] == found["warnings"]

    told(tmp_path, story)


def test_bad_input_names_the_field(tmp_path: Path) -> None:
    two = yaml.safe_dump_all([job(), {**job(), "spec": {"parallelism": "many"}}])
    aliases = "a: &a [x]\nb: *a\n"
    cases: list[tuple[Any, int, str]] = [
        ({"manifests": []}, 422, "manifests"),
        ({"manifests": ""}, 422, "manifests"),
        ({"manifests": "{"}, 400, "manifests"),
        ({"manifests": "a: [\x07"}, 400, "manifests"),
        ({"manifests": aliases}, 422, "manifests"),
        ({"manifests": two}, 400, "manifests[1].spec.parallelism"),
        ({"manifests": "- 1"}, 400, "manifests[0]"),
        ({"manifests": [{}]}, 400, "manifests[0].apiVersion"),
        ({"manifests": [{"apiVersion": "v1", "kind": "Secret"}]}, 400, "manifests[0].kind"),
        ({"manifests": [job(namespace="../../x")]}, 400, "manifests[0].metadata.namespace"),
        ({"manifests": [pod()], "namespace": "a/b"}, 422, "namespace"),
        ({"manifests": [job()] * 101}, 422, "manifests"),
        ({"manifests": [job()], "suspend": "no"}, 422, "suspend"),
        ({"manifest": "x"}, 422, ""),
        ({}, 422, ""),
    ]
    changes: list[tuple[Any, int, str]] = [
        ({}, 422, ""),
        ({"hold": "yes"}, 422, "hold"),
        ({"holds": True}, 422, ""),
        ({"minWorkers": 0}, 422, "minWorkers"),
        ({"minWorkers": 10**30}, 422, "minWorkers"),
        ({"minWorkers": 9}, 422, "minWorkers"),
    ]

    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        for body, status, field in cases:
            found = await write(user, "POST", "/jobs", body)
            assert (status, field) == (found[0], found[1].get("field", "")), (body, found)
        assert [] == (await there(web, JOBS))["items"]
        assert 201 == (await write(user, "POST", "/jobs", {"manifests": [job()]}))[0]
        for body, status, field in changes:
            found = await write(user, "PATCH", f"/jobs/{MINE}/train", body)
            assert (status, field) == (found[0], found[1].get("field", "")), (body, found)
        assert 409 == (await write(user, "POST", "/jobs", {"manifests": [job()]}))[0], "it is there already"
        for name in ("..%2f..%2fnodes%2fn0", "%2e%2e", "n0%3Fx", "nothing"):
            for namespace in (MINE, "..", "%2e%2e%2fx"):
                status, _ = await write(user, "DELETE", f"/jobs/{namespace}/{name}")
                assert 404 == status, (namespace, name)
        assert 2 == len((await there(web, "/api/v1/nodes"))["items"])

    told(tmp_path, story, limits=FREE)


def test_several_jobs_are_checked_before_the_first_is_created(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        body = {"manifests": [job("a"), job("b")]}
        status, found = await write(user, "POST", "/jobs", {**body, "dryRun": True})
        assert (201, True, ["a", "b"]) == (status, found["dryRun"], [one["name"] for one in found["created"]])
        assert [] == (await there(web, JOBS))["items"]
        assert 201 == (await write(user, "POST", "/jobs", {"manifests": [job("b")], "suspend": False}))[0]
        assert not (await there(web, f"{JOBS}/b"))["spec"]["suspend"]
        status, found = await write(user, "POST", "/jobs", body)
        assert (409, "manifests[1]") == (status, found["field"])
        assert await there(web, f"{JOBS}/a") is None

    told(tmp_path, story)


def test_a_job_is_found_by_its_name_in_the_list(tmp_path: Path) -> None:
    """Its object may have another name."""

    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        assert 200 == (await write(user, "PATCH", f"/jobs/{MINE}/waits", {"hold": True}))[0]
        assert "true" == (await there(web, f"{GROUPS}/waits"))["metadata"]["annotations"]["maar.dev/hold"]
        status, found = await write(user, "DELETE", f"/jobs/{MINE}/waits?kind=podgroup")
        assert (200, ["waits", "waits-0", "waits-1"]) == (status, [one["name"] for one in found["deleted"]])
        assert 404 == (await write(user, "DELETE", f"/jobs/{MINE}/runs?kind=Pod"))[0]
        assert 400 == (await write(user, "DELETE", f"/jobs/{MINE}/runs?force=true"))[0]

    told(tmp_path, story, full=True)


def test_an_api_server_that_fails_or_knows_the_caller_as_another_user_is_not_trusted(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        faults = web.server.faults
        faults.fail_share, faults.fail_codes = 1.0, (500,)
        faults.fails = lambda method, path: path == JOBS
        status, found = await write(user, "POST", "/jobs", {"manifests": [job()]})
        assert (503, True) == (status, "look whether it was written" in found["error"])

    told(tmp_path, story)

    async def other(request: http.Request) -> http.Response:
        """As a proxy answers that has an identity of its own."""
        return answer({"status": {"userInfo": {"username": "system:admin"}}})

    async def main() -> None:
        async with serving(other) as address:
            api = await Api.open(Access(address))
            with pytest.raises(Refused, match="another user's: nothing was written"):
                async with Token("hers").client(api, User("user")):
                    raise AssertionError("it must not be used")
            async with Token("hers").client(api, User("system:admin")) as client:
                assert client is not api
            await api.close()

    asyncio.run(main())


def test_writes_are_limited(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        assert 413 == (await write(user, "POST", "/jobs", {"manifests": "x" * 2000}))[0]
        assert 201 == (await write(user, "POST", "/jobs", {"manifests": [job("a")]}))[0]
        status, found = await write(user, "POST", "/jobs", {"manifests": [job("b")]})
        assert (429, True) == (status, "too much computing" in found["error"])
        assert [404, 404, 429] == [(await write(user, "DELETE", f"/jobs/{MINE}/x"))[0] for _ in range(3)]

    limits = HttpLimits(body=1000, user_requests=Rate(0.001, 5), reading=Rate(1e-9, 1e-9))
    told(tmp_path, story, limits=limits)
    guard = Guard(HttpLimits(writes=3, writes_each=2))
    with guard.writing("a"), guard.writing("a"), guard.writing("b"):
        for user in "ac":
            with pytest.raises(Refused, match="too many writes at once"), guard.writing(user):
                raise AssertionError("one too many")
    with guard.writing("a"):
        pass


def test_the_token_of_a_writer_is_never_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        secret = user.headers["Authorization"].rpartition(".")[2]
        await write(user, "POST", "/jobs", {"manifests": [job()]})
        web.server.faults.fail_share, web.server.faults.fail_codes = 1.0, (401, 500)
        await write(user, "PATCH", f"/jobs/{MINE}/train", {"hold": True})
        assert secret not in caplog.text
        assert secret not in repr(Token(secret))

    caplog.set_level(0)
    told(tmp_path, story)


def test_writes_follow_the_document_and_hostile_ones_change_nothing(tmp_path: Path) -> None:
    dice = random.Random(3)

    def value(depth: int = 0) -> Any:
        match dice.randrange(7 if depth < 3 else 4):
            case 0 | 1:
                return dice.choice([*TEXTS, "n0", f"{THEIRS}", "Pod", "v1", "batch/v1"])
            case 2:
                return dice.choice([0, -1, 2**63, 10**30, 1.5, None, True])
            case 3:
                return "".join(map(chr, dice.choices(range(1, 3000), k=dice.randrange(30))))
            case 4 | 5:
                return {dice.choice(["metadata", "spec", "kind", "x", ""]): value(depth + 1) for _ in range(3)}
            case _:
                return [value(depth + 1) for _ in range(dice.randrange(3))]

    def manifest() -> Any:
        made = dice.choice([job, pod])()
        inside = dice.choice([made, made["metadata"], made["spec"]])
        inside[dice.choice([*inside, "x"])] = value()
        return made

    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        document = await user.get("/openapi.json")
        Witness(web, "/namespaces/")  # she may do nothing
        before, statuses = await web.cluster.versions(), set()
        for i in range(120):
            match i % 4:
                case 0:
                    body: Any = {"manifests": [manifest() for _ in range(dice.randrange(1, 3))]}
                    statuses.add(await check(document, user, "jobs", body, "POST"))
                case 1:
                    body = {"manifests": value(), dice.choice(["namespace", "suspend", "dryRun", "x"]): value()}
                    statuses.add(await check(document, user, "jobs", body, "POST"))
                case 2:
                    fields = ["hold", "stop", "queue", "priorityClass", "minWorkers", "maxWorkers", "x"]
                    change = {dice.choice(fields): value() for _ in range(2)}
                    statuses.add(await check(document, user, f"jobs/{MINE}/runs", change, "PATCH"))
                case _:
                    name = dice.choice(["runs", "waits", "nothing"])
                    statuses.add(await check(document, user, f"jobs/{MINE}/{name}", None, "DELETE"))
        assert {400, 403, 422} <= statuses <= {400, 403, 404, 415, 422}, statuses
        assert before == await web.cluster.versions()
        web.server.handler.permits = lambda user, method, path: True
        assert 201 == await check(document, user, "jobs", {"manifests": [job()]}, "POST")
        assert 200 == await check(document, user, f"jobs/{MINE}/train", {"hold": True}, "PATCH")
        assert 200 == await check(document, user, f"jobs/{MINE}/train", None, "DELETE")

    told(tmp_path, story, full=True, limits=FREE)


def test_what_the_api_server_says_passes_the_filter() -> None:
    sight, known = Sight([MINE]), frozenset({MINE, THEIRS})
    for error, status in (
        (Forbidden(f'pods "x" is forbidden: webhook denied it, see "{THEIRS}" and {THEIRS}/aq7runs'), 403),
        (AlreadyExists(f'conflict with "{THEIRS}/aq7runs"'), 409),
        (Invalid(f"spec: the same as `{THEIRS}/aq7runs`", status=400), 422),
        (NotFound(f'namespaces "{THEIRS}" not found'), 404),
        (TooManyRequests(f"because of {THEIRS}/aq7runs"), 429),
        (Unreachable("https://10.0.0.1: aq7"), 503),
        (SubmitError("kind", f"belongs to Job `{THEIRS}/aq7runs`"), 422),
    ):
        refused = refusal(error, sight, known)
        assert status == refused.status
        assert "aq7" not in refused.view.error, refused.view
    named = refusal(AlreadyExists(f'jobs.batch "{MINE}/train" already exists'), sight, known)
    assert f"jobs.batch `{MINE}/train` already exists" == named.view.error


def test_without_the_authority_of_the_api_server_no_token_is_sent(tmp_path: Path) -> None:
    authority = tmp_path / "ca"
    trustme.CA().cert_pem.write_to_path(str(authority))
    config = {
        "clusters": [
            {"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": str(authority)}}
        ],
        "users": [{"name": "u", "user": {"token": "ours"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))

    async def main() -> None:
        api = await Api.open(load_access(str(tmp_path / "config")))
        authority.unlink()
        with pytest.raises(Refused, match="nothing was written") as refused:
            async with Token("hers").client(api, User("user")):
                raise AssertionError("it must not be used")
        assert 503 == refused.value.status
        await api.close()

    asyncio.run(main())
