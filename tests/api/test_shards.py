"""Our CRDs of ShardMap and Shard (deploy/crds) on both servers: what `kubectl get` shows."""

from tests.api.conftest import Client

SHARDS = "/apis/maar.dev/v1alpha1/shards"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def test_kubectl_get_shards(api: Client, namespace: str) -> None:
    status = {"holder": "maar-0", "epoch": 7, "nodes": 100, "lent": 2, "borrowed": 0, "queues": 3, "waiting": 12}
    want = {"job": "team/train", "uid": "u", "priority": 5, "nodes": ["n1"], "asks": True, "more": {"later": 1}}
    head = {"apiVersion": "maar.dev/v1alpha1", "kind": "Shard", "metadata": {"name": namespace}}
    made = api.post(SHARDS, head | {"spec": {"wants": [want]}, "status": status}, fieldValidation="Strict")
    assert [want] == made["spec"]["wants"]
    table = api.get(f"{SHARDS}/{namespace}", accept=TABLE)
    names = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]
    assert ["Name", "HOLDER", "EPOCH", "NODES", "LENT", "BORROWED", "WAITING", "AGE"] == names
    assert [namespace, "maar-0", 7, 100, 2, 0, 12, 3] == table["rows"][0]["cells"][:8]
    bad = {"metadata": {"name": f"{namespace}-bad"}, "spec": {"wants": [{"job": "team/train"}]}}
    assert "Invalid" == api.ask("POST", SHARDS, head | bad).reason
    api.delete(f"{SHARDS}/{namespace}")
