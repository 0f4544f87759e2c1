"""The messages of refused JSON patches. tests/api checks which patches are refused, also on a real server."""

from typing import Any

import pytest

from maar.embedded.http.patches import json_patch
from maar.embedded.objects.errors import ApiError

REFUSED = "the server rejected our request due to an error in our request: "


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"op": "remove", "path": "/data/b"}, "remove operation does not apply: /data/b: no such path"),
        ({"op": "add", "path": "/b/c", "value": 1}, "add operation does not apply: /b/c: no such path"),
        ({"op": "copy", "from": "/data/b", "path": "/c"}, "copy operation does not apply: /data/b: no such path"),
        ({"op": "test", "path": "/data/a", "value": 2}, "test operation does not apply: /data/a: the value differs"),
        (
            {"op": "add", "path": "/list/9", "value": 1},
            "add operation does not apply: /list/9: can't insert outside of list",
        ),
        ({"op": "frob", "path": "/data"}, "frob operation does not apply: /data: Unknown operation 'frob'"),
        ({"op": "replace", "path": "", "value": []}, "the result is not an object"),
    ],
)
def test_a_refusal_names_the_operation_and_the_path(operation: dict[str, Any], message: str) -> None:
    with pytest.raises(ApiError) as refused:
        json_patch({"data": {"a": 1}, "list": [1]}, [operation])
    assert (422, REFUSED + message) == (refused.value.code, refused.value.message)


@pytest.mark.parametrize("operations", [{"op": "remove", "path": "/data"}, ["remove"], "remove", None])
def test_what_is_not_a_list_of_operations(operations: Any) -> None:
    with pytest.raises(ApiError) as refused:
        json_patch({"data": {"a": 1}}, operations)
    assert (400, "error decoding patch: expected a list of operations") == (refused.value.code, refused.value.message)
