"""Pods to shapes: selectors, affinities, tolerations, ports, spread, images, and which pods a selector matches."""

from collections.abc import Callable

import pytest

from maar.model.selectors import (
    NodeTerm,
    PodSelector,
    PodTerm,
    Port,
    Requirement,
    Selector,
    Spread,
    Toleration,
)
from maar.model.shapes import FillStrategy, Shape
from maar.model.snapshot import Cluster

Load = Callable[..., Cluster]


def shape(load: Load, spec: str, labels: str = "{}", more: str = "") -> Shape:
    cluster = load(
        f"""
        apiVersion: v1
        kind: Pod
        metadata: {{name: p, namespace: mine, labels: {labels}}}
        spec: {{{spec}}}
        """
        + more
    )
    return next(t.shape for t in cluster.tasks if t.key == "mine/p")


@pytest.mark.parametrize(
    ("kind", "weights", "expected"),
    [
        ("MostAllocated", "", FillStrategy(True)),
        ("LeastAllocated", '{"b": 2, "a": 0.5}', FillStrategy(False, (("a", 0.5), ("b", 2.0)))),
        ("", '{"a": -3, "b": 1e300}', FillStrategy(None, (("a", 1.0), ("b", 1e6)))),
        ("mostAllocated", "{}", None),
        ("", '{"a": "many"}', None),
        ("", "", None),
    ],
)
def test_the_strategy_of_a_pod(load: Load, kind: str, weights: str, expected: FillStrategy | None) -> None:
    """An invalid value counts as missing: it is only a preference."""
    notes = f"annotations: {{volcano.sh/resource-strategy-scoring-type: '{kind}', "
    notes += f"volcano.sh/resource-strategy-weight: '{weights}'}}"
    (task,) = load(
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: p, {notes}}}, spec: {{containers: [{{name: c}}]}}}}"
    ).tasks
    assert (expected, "") == (task.shape.strategy, task.blocked)


def label(key: str, *values: str) -> Requirement:
    return Requirement(key, "In", values)


def term(text: str) -> str:
    return f"requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: host, {text}}}]"


def selected(load: Load, text: str, labels: str = "{}", more: str = "") -> PodSelector:
    """The pods that one anti-affinity term selects."""
    found = shape(load, f"affinity: {{podAntiAffinity: {{{term(text)}}}}}", labels, more)
    assert () == found.affinity
    (only,) = found.anti_affinity
    assert "host" == only.topology_key
    return only.pods


def test_a_node_selector_is_sorted(load: Load) -> None:
    assert (label("a", "1"), label("b", "2")) == shape(load, 'nodeSelector: {b: "2", a: "1"}').node_selector


def test_node_affinity(load: Load) -> None:
    found = shape(
        load,
        """
        affinity:
          {nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
              {matchExpressions: [{key: gpu, operator: In, values: [a100, h100]}]},
              {matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]},
            preferredDuringSchedulingIgnoredDuringExecution: [
              {weight: 7, preference: {matchExpressions: [{key: mem, operator: Gt, values: ["4"]}]}}]}}
        """,
    )
    assert (
        NodeTerm(expressions=(label("gpu", "a100", "h100"),)),
        NodeTerm(fields=(label("metadata.name", "n1"),)),
    ) == found.node_terms
    assert ((7, NodeTerm((Requirement("mem", "Gt", ("4",)),))),) == found.node_preferences


def test_no_required_node_affinity_is_not_an_empty_one(load: Load) -> None:
    assert shape(load, "affinity: {nodeAffinity: {}}").node_terms is None
    empty = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}"
    assert () == shape(load, empty).node_terms


def test_tolerations(load: Load) -> None:
    found = shape(load, "tolerations: [{key: gpu, operator: Exists}, {key: a, value: b, effect: NoSchedule}]")
    assert (Toleration("gpu", "Exists"), Toleration("a", "Equal", "b", "NoSchedule")) == found.tolerations


def test_host_ports(load: Load) -> None:
    spec = "containers: [{ports: [{containerPort: 80}, {containerPort: 81, hostPort: 8081, hostIP: 10.0.0.1}]}]"
    assert (Port(8081, "TCP", "10.0.0.1"),) == shape(load, spec).ports
    assert (Port(80), Port(8081, "TCP", "10.0.0.1")) == shape(load, f"hostNetwork: true, {spec}").ports


def test_a_sidecars_host_port_counts_an_init_containers_does_not(load: Load) -> None:
    spec = "initContainers: [{ports: [{hostPort: 1}]}, {restartPolicy: Always, ports: [{hostPort: 2, protocol: UDP}]}]"
    assert (Port(2, "UDP"),) == shape(load, spec).ports


def test_a_term_without_namespaces_means_its_own(load: Load) -> None:
    expected = PodSelector(Selector((label("app", "x"),)), ("mine",))
    assert expected == selected(load, "labelSelector: {matchLabels: {app: x}}")


def test_a_missing_label_selector_matches_nothing_an_empty_one_everything(load: Load) -> None:
    assert not selected(load, "namespaces: [mine]").matches("mine", {"": "x"})
    assert selected(load, "labelSelector: {}").matches("mine", {})


def test_named_namespaces(load: Load) -> None:
    assert ("a", "b") == selected(load, "labelSelector: {}, namespaces: [b, a]").namespaces


def test_an_empty_namespace_selector_means_all(load: Load) -> None:
    assert selected(load, "labelSelector: {}, namespaceSelector: {}").namespaces is None


def test_a_namespace_selector_is_resolved(load: Load) -> None:
    more = """
---
apiVersion: v1
kind: Namespace
metadata: {name: red, labels: {team: red}}
---
apiVersion: v1
kind: Pod
metadata: {name: q, namespace: unlabelled}
"""
    by_label = "labelSelector: {}, namespaces: [extra], namespaceSelector: {matchLabels: {team: red}}"
    assert ("extra", "red") == selected(load, by_label, more=more).namespaces
    name = "kubernetes.io/metadata.name"
    by_name = f"labelSelector: {{}}, namespaceSelector: {{matchLabels: {{{name}: unlabelled}}}}"
    assert ("unlabelled",) == selected(load, by_name, more=more).namespaces
    none = "labelSelector: {}, namespaceSelector: {matchLabels: {team: blue}}"
    assert () == selected(load, none, more=more).namespaces


def test_match_label_keys_are_merged_from_the_pods_own_labels(load: Load) -> None:
    found = selected(
        load,
        "labelSelector: {matchLabels: {app: x}}, matchLabelKeys: [rev, absent], mismatchLabelKeys: [tenant]",
        '{app: x, rev: "3", tenant: t1}',
    )
    wanted = (label("app", "x"), label("rev", "3"), Requirement("tenant", "NotIn", ("t1",)))
    assert Selector(wanted) == found.selector


def test_preferred_anti_affinity_is_a_negative_weight(load: Load) -> None:
    preferred = (
        "preferredDuringSchedulingIgnoredDuringExecution: "
        "[{weight: W, podAffinityTerm: {topologyKey: zone, labelSelector: {}}}]"
    )
    near, apart = preferred.replace("W", "5"), preferred.replace("W", "9")
    found = shape(load, f"affinity: {{podAffinity: {{{near}}}, podAntiAffinity: {{{apart}}}}}")
    all_pods = PodTerm(PodSelector(Selector(), ("mine",)), "zone")
    assert ((5, all_pods), (-9, all_pods)) == found.pod_preferences


def test_topology_spread(load: Load) -> None:
    found = shape(
        load,
        """
        topologySpreadConstraints: [
          {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: x}},
           minDomains: 3, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor, matchLabelKeys: [rev]},
          {maxSkew: 1, topologyKey: host, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]
        """,
        '{rev: "1"}',
    )
    first = PodSelector(Selector((label("app", "x"), label("rev", "1"))), ("mine",))
    assert (
        Spread(first, "zone", 2, hard=True, min_domains=3, honor_affinity=False, honor_taints=True),
        Spread(PodSelector(Selector(), ("mine",)), "host", 1, hard=False),
    ) == found.spread


def test_only_images_that_a_node_has_are_kept(load: Load) -> None:
    more = """
---
apiVersion: v1
kind: Node
metadata: {name: n}
status: {images: [{names: ["train:latest", "r:5000/a/train@sha256:0"], sizeBytes: 5}, {names: ["other:1"]}]}
"""
    found = shape(
        load, "containers: [{image: train}, {image: unknown:2}], initContainers: [{image: other:1}]", more=more
    )
    assert ("other:1", "train:latest") == found.images


REPELS = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: NS, labels: {app: APP, index: "INDEX"}}
spec:
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: host, labelSelector: {matchLabels: {app: x}}}
---
"""


def repels(name: str, namespace: str = "a", app: str = "x", index: int = 0) -> str:
    text = REPELS.replace("NAME", name).replace("NS", namespace).replace("APP", app)
    return text.replace("INDEX", str(index))


def test_shapes_hold_what_matches_them_and_not_their_labels(load: Load) -> None:
    text = repels("p0") + repels("p1", index=1) + repels("p2", app="y") + repels("p3", namespace="b")
    tasks = {t.key: t.shape for t in load(text).tasks}
    in_a, in_b = (PodSelector(Selector((label("app", "x"),)), (ns,)) for ns in "ab")
    assert tasks["a/p0"] is tasks["a/p1"]
    assert (in_a,) == tasks["a/p0"].matches
    assert () == tasks["a/p2"].matches
    assert (in_b,) == tasks["b/p3"].matches


@pytest.mark.parametrize(
    ("selector", "matched"),
    [
        ("{matchExpressions: [{key: app, operator: In, values: [x, z]}]}", True),
        ("{matchExpressions: [{key: app, operator: NotIn, values: [x]}]}", False),
        ("{matchExpressions: [{key: other, operator: DoesNotExist}]}", True),
        ("{matchLabels: {app: x, other: y}}", False),
        ("{}", True),
    ],
)
def test_every_kind_of_selector_is_matched(load: Load, selector: str, matched: bool) -> None:
    found = shape(load, f"affinity: {{podAffinity: {{{term(f'labelSelector: {selector}')}}}}}", "{app: x}")
    assert matched == bool(found.matches)


def test_pods_of_a_selector_in_use_are_marked_even_if_they_want_nothing(load: Load) -> None:
    spread = "topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, labelSelector: {matchLabels: {app: x}}}]"
    other = "\n---\n{apiVersion: v1, kind: Pod, metadata: {name: q, namespace: mine, labels: {app: x}}}\n"
    found = shape(load, spread, more=other)
    cluster_matches = found.spread[0].pods
    assert () == found.matches
    (marked,) = [
        t.shape
        for t in load(
            f"{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: mine}}, spec: {{{spread}}}}}{other}"
        ).tasks
        if t.key == "mine/q"
    ]
    assert (cluster_matches,) == marked.matches
