"""Who may report on which job: tokens over a socket to the real HTTP process; the API server is asked rarely."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import ClientSession, TCPConnector
from tests.support.front import TEAM, Tokens, bearer, fronting, token
from tests.support.patience import until

from maar.history.history import History
from maar.web.front.routes import MEASUREMENTS
from maar.web.limits import HttpLimits, Rate

GOOD = {"epoch": 3, "seconds": 61.5, "workers": 4}
OTHER = "system:serviceaccount:other:default"
Send = Callable[..., Awaitable[tuple[int, dict[str, str]]]]
Story = Callable[[Send, Tokens], Awaitable[None]]


def told(tmp_path: Path, story: Story, token_file: Path | None = None, limits: HttpLimits | None = None) -> None:
    async def main() -> None:
        history = History(str(tmp_path / "h.db"))
        history.start()
        tokens = Tokens({token(): TEAM, token(OTHER): OTHER})
        async with fronting(history, tokens, token_file, limits) as server:
            base = f"http://127.0.0.1:{server.port(MEASUREMENTS)}"

            async def send(
                header: dict[str, str], namespace: str = "team", method: str = "POST", source: str = "127.0.0.1"
            ) -> tuple[int, dict[str, str]]:
                path = f"/v1/jobs/{namespace}/resnet/measurements"
                async with (
                    ClientSession(base, connector=TCPConnector(local_addr=(source, 0))) as session,
                    session.request(method, path, json=GOOD if method == "POST" else None, headers=header) as answer,
                ):
                    return answer.status, await answer.json()

            await until(lambda: not history.problem)
            await story(send, tokens)
        await history.close()

    asyncio.run(main())


def test_a_token_is_for_the_jobs_of_its_own_namespace(tmp_path: Path) -> None:
    async def story(send: Send, tokens: Tokens) -> None:
        for _ in range(3):
            assert 202 == (await send(bearer(token())))[0]
        assert 200 == (await send(bearer(token()), method="GET"))[0]
        assert 1 == len(tokens.asked), "the answer is kept"
        for method in ("POST", "GET"):
            status, answer = await send(bearer(token()), "other", method)
            assert 403 == status
            assert f"jobs of namespace `other` need a token of that namespace, got one of `{TEAM}`" == answer["error"]
        assert 202 == (await send(bearer(token(OTHER)), "other"))[0]

    told(tmp_path, story)


def test_what_is_no_token_of_a_service_account_is_refused_without_a_question(tmp_path: Path) -> None:
    def raw(payload: bytes) -> str:
        return f"e30.{base64.urlsafe_b64encode(payload).decode()}.e30"

    bad = ("x", "a.b.c", "..", "\u00e9.\u00e9.\u00e9", raw(b"[]"), raw(b'{"sub": 1}'), raw(b'{"aud": "x"}'))
    headers = [{}, *({"Authorization": text} for text in ("", "Bearer", "Bearer  ", f"Basic {token()}", token()))]
    headers += [bearer(text) for text in (*bad, token("me"), token("system:node:x"))]

    async def story(send: Send, tokens: Tokens) -> None:
        for header in headers:
            for method in ("POST", "GET"):
                assert 401 == (await send(header, method=method))[0], header
        assert [] == tokens.asked

    told(tmp_path, story)


def test_what_a_token_says_about_itself_is_not_believed(tmp_path: Path) -> None:
    """The API server knows the token as one of another namespace; and it does not know the other one."""
    liar, forged = token(secret="liar"), token(secret="forged")

    async def story(send: Send, tokens: Tokens) -> None:
        tokens.known[liar] = OTHER
        assert 403 == (await send(bearer(liar)))[0]
        for _ in range(5):
            assert (401, "the API server does not accept the token") == (
                (refused := await send(bearer(forged)))[0],
                refused[1]["error"],
            )
        assert [liar, forged] == [asked.token for asked in tokens.asked], "invalid ones are remembered too"

    told(tmp_path, story)


def test_junk_does_not_reach_the_api_server_and_keeps_nobody_out(tmp_path: Path) -> None:
    async def story(send: Send, tokens: Tokens) -> None:
        statuses = [(await send(bearer(token(secret=f"junk{n}"))))[0] for n in range(30)]
        assert [401] * 5 + [429] * 25 == statuses
        assert 5 == len(tokens.asked)
        assert 202 == (await send(bearer(token()), source="127.0.0.2"))[0]
        assert 202 == (await send(bearer(token())))[0], "known by now, so also from the same address"

    told(tmp_path, story, limits=HttpLimits(bad_tokens_each=Rate(0.001, 5)))


def test_junk_from_many_addresses_is_limited_too(tmp_path: Path) -> None:
    async def story(send: Send, tokens: Tokens) -> None:
        assert 202 == (await send(bearer(token())))[0]
        sent = [(await send(bearer(token(secret=f"j{n}")), source=f"127.0.0.{n + 1}"))[0] for n in range(20)]
        assert [401] * 9 + [503] * 11 == sent
        assert 10 == len(tokens.asked)
        assert 202 == (await send(bearer(token())))[0]

    told(tmp_path, story, limits=HttpLimits(reviews=Rate(0.001, 10)))


def test_if_the_api_server_cannot_be_asked_clients_retry(tmp_path: Path) -> None:
    async def story(send: Send, tokens: Tokens) -> None:
        tokens.problem = "forbidden: grant `create` on `tokenreviews`"
        assert (503, {"error": f"cannot check the token: {tokens.problem}"}) == await send(bearer(token()))
        tokens.problem = ""
        assert 202 == (await send(bearer(token())))[0], "that was not remembered"

    told(tmp_path, story)


def test_tokens_for_maar_are_checked_as_such(tmp_path: Path) -> None:
    for_maar = token(aud=["maar"])

    async def story(send: Send, tokens: Tokens) -> None:
        other = token(aud=["https://maar.example"])
        tokens.known |= {for_maar: TEAM, other: TEAM}
        assert 202 == (await send(bearer(for_maar)))[0]
        assert 202 == (await send(bearer(other)))[0]
        assert ["maar", ""] == [asked.audience for asked in tokens.asked]

    told(tmp_path, story)


def test_the_old_audience_is_accepted_with_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(send: Send, tokens: Tokens) -> None:
        def warnings() -> list[str]:
            return [text for text in caplog.messages if "make tokens for the audience `maar.dev`" in text]

        for audience in ("maar.dev", "maar", "maar"):
            made = token(aud=[audience], secret=f"valid {len(tokens.known)}")
            tokens.known[made] = TEAM
            assert 202 == (await send(bearer(made)))[0]
            if audience == "maar.dev":
                assert [] == warnings()
        assert ["maar.dev", "maar", "maar"] == [asked.audience for asked in tokens.asked]
        await until(lambda: bool(warnings()))
        assert 1 == len(warnings())

    told(tmp_path, story)


def test_the_administrators_token_is_for_all_jobs(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n")

    async def story(send: Send, tokens: Tokens) -> None:
        for text in ("wrong", "s3cret2", "\u00e9"):
            assert 401 == (await send(bearer(text)))[0]
        for namespace in ("team", "other"):
            assert 202 == (await send(bearer("s3cret"), namespace))[0]
        assert [] == tokens.asked
        assert 202 == (await send(bearer(token())))[0], "trainings need none"
        file.write_text("renewed")
        assert 401 == (await send(bearer("s3cret")))[0]
        assert 202 == (await send(bearer("renewed")))[0]
        file.write_text("")
        assert 401 == (await send(bearer(" ")))[0]
        file.unlink()
        assert 401 == (await send(bearer("renewed")))[0]

    told(tmp_path, story, file)


def test_measurements_and_reads_of_one_namespace_are_limited(tmp_path: Path) -> None:
    async def story(send: Send, tokens: Tokens) -> None:
        assert [202, 202, 429] == [(await send(bearer(token())))[0] for _ in range(3)]
        assert [200, 429] == [(await send(bearer(token()), method="GET"))[0] for _ in range(2)]
        assert 202 == (await send(bearer(token(OTHER)), "other"))[0]
        assert 200 == (await send(bearer(token(OTHER)), "other", "GET"))[0]

    told(tmp_path, story, limits=HttpLimits(measurements_each=Rate(0.001, 2), reads_each=Rate(0.001, 1)))


def test_clients_with_one_new_token_cause_one_question(tmp_path: Path) -> None:
    async def story(send: Send, tokens: Tokens) -> None:
        assert {202} == {status for status, _ in await asyncio.gather(*(send(bearer(token())) for _ in range(20)))}
        assert 1 == len(tokens.asked)

    told(tmp_path, story)
