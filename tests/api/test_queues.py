"""Our definition of Queue: what `kubectl get queues` shows."""

from __future__ import annotations

from tests.api.conftest import Client, Obj

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def row(api: Client, name: str) -> dict[str, object]:
    """The columns of one queue."""
    table: Obj = api.get(f"{QUEUES}/{name}", accept=TABLE)
    columns = [column["name"] for column in table["columnDefinitions"]]
    (only,) = table["rows"]
    return dict(zip(columns, only["cells"], strict=True))


def test_state_deserved_used_and_waiting_have_columns(api: Client, namespace: str) -> None:
    """A queue that nobody has closed is open; Maar fills in the rest."""
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    api.post(QUEUES, {**head, "metadata": {"name": namespace}, "spec": {"weight": 3}})
    assert ("Open", 3) == tuple(row(api, namespace)[name] for name in ("STATE", "WEIGHT"))
    summary = {"deserved": "8 nvidia.com/gpu", "used": "4 nvidia.com/gpu", "waiting": 2}
    api.patch(f"{QUEUES}/{namespace}/status", {"status": {"summary": summary}})
    found = row(api, namespace)
    assert ["Open", *summary.values()] == [found[name] for name in ("STATE", "DESERVED", "USED", "WAITING")]
    api.patch(f"{QUEUES}/{namespace}/status", {"status": {"state": "Closed"}})
    assert "Closed" == row(api, namespace)["STATE"]
    api.delete(f"{QUEUES}/{namespace}")
