"""Queues, and the weights of namespaces."""

from collections.abc import Callable

import msgspec
import pytest

from maar.kube.read.queues import group_limits, may_admit
from maar.kube.wire.cluster import ResourceQuota
from maar.kube.wire.errors import ManifestError
from maar.model.queues import GroupLimits, NodeGroups, Queue
from maar.model.snapshot import Cluster, Quota

Load = Callable[..., Cluster]


def queue(load: Load, spec: str = "", meta: str = "", status: str = "") -> Queue:
    (found,) = load(
        f"{{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {{name: q, {meta}}}, "
        f"spec: {{{spec}}}, status: {{{status}}}}}"
    ).queues
    return found


def test_all_fields(load: Load) -> None:
    found = queue(
        load,
        "weight: 4, capability: {cpu: 8, memory: 1Gi}, deserved: {cpu: 4}, guarantee: {resource: {cpu: 1500m}}, "
        "parent: eng, priority: 3, reclaimable: false",
        "uid: u, creationTimestamp: 1970-01-01T00:00:05Z, "
        "annotations: {volcano.sh/hierarchy: root/eng/q, volcano.sh/hierarchy-weights: 1/2/8, maar.dev/shard: '2'}",
    )
    expected = Queue(
        "q",
        weight=4,
        capability={"cpu": 8000, "memory": 2**30},
        deserved={"cpu": 4000},
        guarantee={"cpu": 1500},
        parent="eng",
        priority=3,
        reclaimable=False,
        hierarchy=("root", "eng", "q"),
        hierarchy_weights=(1, 2, 8),
        created=5.0,
        uid="u",
        pin="2",
    )
    assert expected == found


def test_node_groups(load: Load) -> None:
    required, preferred = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
    spec = (
        f"affinity: {{nodeGroupAffinity: {{{required}: [a, b, a], {preferred}: [c]}}, "
        f"nodeGroupAntiAffinity: {{{required}: [d], {preferred}: [e, f]}}}}"
    )
    assert NodeGroups(("a", "b"), ("c",), ("d",), ("e", "f")) == queue(load, spec).node_groups
    assert NodeGroups() == queue(load, "affinity: {}").node_groups, "not missing: it inherits nothing"


def test_defaults(load: Load) -> None:
    assert Queue("q") == queue(load)


@pytest.mark.parametrize(
    ("status", "spec", "expected"),
    [
        ("", "", True),
        ("state: Open", "", True),
        ("state: Closed", "", False),
        ("state: Closing", "", False),
        ("", "state: Closed", False),
    ],
)
def test_open(load: Load, status: str, spec: str, expected: bool) -> None:
    assert expected == queue(load, spec, status=status).open


@pytest.mark.parametrize(
    ("spec", "annotations", "problem"),
    [
        ("weight: -1", "", "spec.weight: expected a number of at least 1, got `-1`"),
        ("weight: 0", "", "spec.weight: expected a number of at least 1, got `0`"),
        ("capability: {cpu: -1}", "", "spec.capability.cpu: expected an amount of at least 0, got `-1`"),
        ("deserved: {cpu: many}", "", "spec.deserved.cpu: not a quantity: `many`"),
        (
            "guarantee: {resource: {cpu: -2}}",
            "",
            "spec.guarantee.resource.cpu: expected an amount of at least 0, got `-2`",
        ),
        (
            "",
            "volcano.sh/hierarchy: root//q, volcano.sh/hierarchy-weights: 1/2/3",
            "`volcano.sh/hierarchy`: expected names like `root/eng/dev`, got `root//q`",
        ),
        (
            "",
            "volcano.sh/hierarchy: root/q, volcano.sh/hierarchy-weights: 1/much",
            "`volcano.sh/hierarchy-weights`: expected numbers like `1/2/8`, got `1/much`",
        ),
        (
            "",
            "volcano.sh/hierarchy: root/q, volcano.sh/hierarchy-weights: 1/2/3",
            "`volcano.sh/hierarchy-weights`: expected as many as `root/q` has names (2), got `1/2/3`",
        ),
    ],
)
def test_what_makes_no_sense_is_kept_as_the_reason(load: Load, spec: str, annotations: str, problem: str) -> None:
    found = queue(load, spec, f"annotations: {{{annotations}}}")
    assert found.broken.startswith(problem)
    assert found.weight >= 1


def read_quota(load: Load, spec: str, status: str = "") -> tuple[Quota, ...]:
    meta = "metadata: {name: q, namespace: red}"
    text = f"{{apiVersion: v1, kind: ResourceQuota, {meta}, spec: {{{spec}}}, status: {{{status}}}}}"
    return load(text).quotas


def test_quotas(load: Load) -> None:
    spec = "hard: {requests.cpu: 1500m, limits.memory: 1Gi, pods: 3, volcano.sh/namespace.weight: 2}"
    limits = {"requests.cpu": 1500, "limits.memory": 2**30, "pods": 3}
    assert (Quota("red/q", limits),) == read_quota(load, spec)
    counted = read_quota(load, spec, "hard: {requests.cpu: 1}, used: {requests.cpu: 100m}")
    assert (Quota("red/q", {"requests.cpu": 1000}, {"requests.cpu": 100}),) == counted, "the controller's limit counts"
    assert () == read_quota(load, f"{spec}, scopes: [BestEffort]")
    assert () == read_quota(load, f"{spec}, scopeSelector: {{matchExpressions: [{{scopeName: PriorityClass}}]}}")
    assert () == read_quota(load, "hard: {volcano.sh/namespace.weight: 2}")
    with pytest.raises(ManifestError, match=r"spec.hard.cpu: not a quantity: `many`"):
        read_quota(load, "hard: {cpu: many}")


def test_more_use_of_a_quota_lets_no_group_in() -> None:
    def quota(used: str, hard: str = "8", status: str = "8") -> ResourceQuota:
        spec, counted = {"hard": {"cpu": hard}}, {"hard": {"cpu": status}, "used": {"cpu": used}}
        return msgspec.convert({"metadata": {"name": "q"}, "spec": spec, "status": counted}, ResourceQuota)

    four = quota("4")
    assert not may_admit(four, quota("5"))
    assert may_admit(four, quota("3900m"))
    assert may_admit(four, quota("5", hard="9"))
    assert may_admit(four, quota("5", status="9"))
    assert may_admit(four, None)
    assert may_admit(None, four)
    assert may_admit(four, quota("many"))


def test_what_only_quotas_count_is_no_resource_of_a_group(load: Load) -> None:
    """Volcano's controller writes both kinds of names."""
    needs = "minResources: {cpu: 2, requests.cpu: 1500m, limits.cpu: 3, count/pods: 4, nvidia.com/gpu: 1}"
    meta = "metadata: {name: g, namespace: red}"
    (job,) = load(
        f"{{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, {meta}, spec: {{minMember: 4, {needs}}}}}"
    ).jobs
    assert {"cpu": 2000, "nvidia.com/gpu": 1} == job.min_resources
    assert {"requests.cpu": 1500, "limits.cpu": 3000, "count/pods": 4} == job.quota_needs


def test_a_namespace_has_the_largest_weight_of_its_quotas(load: Load) -> None:
    quota = "\n---\n{apiVersion: v1, kind: ResourceQuota, metadata: {name: %s, namespace: %s}, spec: {hard: {%s}}}\n"
    text = (
        quota % ("a", "red", "volcano.sh/namespace.weight: 3")
        + quota % ("b", "red", "volcano.sh/namespace.weight: '5'")
        + quota % ("c", "red", "cpu: 4")
        + quota % ("d", "blue", "cpu: 4")
    )
    assert {"red": 5} == load(text).namespace_weights


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", GroupLimits()),
        (
            '{"a": {"cpu": "1500m", "memory": 1024}, "b": {}}',
            GroupLimits({"a": {"cpu": 1500, "memory": 1024}, "b": {}}),
        ),
        ('{"a": {"nvidia.com/gpu": "0"}}', GroupLimits({"a": {"nvidia.com/gpu": 0}})),
    ],
)
def test_limits_of_node_groups(text: str, expected: GroupLimits) -> None:
    assert expected == group_limits(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{a: 1}", """expected JSON like `{"group": {"cpu": "8"}}`, got `{a: 1}`"""),
        ('["a"]', """expected JSON like `{"group": {"cpu": "8"}}`, got `["a"]`"""),
        ('{"a": {"cpu": true}}', """expected JSON like `{"group": {"cpu": "8"}}`, got `{"a": {"cpu": true}}`"""),
        ('{"a": {"cpu": "-1"}}', "a.cpu: expected an amount of at least 0, got `-1`"),
    ],
)
def test_malformed_limits_of_node_groups_say_what_is_wrong(text: str, problem: str) -> None:
    assert f"`volcano.sh/nodegroup-resource-limits`: {problem}" == group_limits(text).problem


def test_limit_that_is_no_quantity_names_its_place() -> None:
    problem = group_limits('{"a": {"cpu": "1"}, "b": {"memory": "many"}}').problem
    assert problem.startswith("`volcano.sh/nodegroup-resource-limits`: b.memory: ")
    assert "many" in problem
    assert "[" * 5000 not in group_limits("[" * 5000).problem
