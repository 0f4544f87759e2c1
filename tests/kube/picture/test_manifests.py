"""Reading manifests from files, folders, Lists and standard input, and the errors."""

import io
import json
from pathlib import Path

import msgspec
import pytest

from maar.kube.picture.manifests import read
from maar.kube.wire.decoding import decode_json
from maar.kube.wire.errors import ManifestError
from maar.kube.wire.pods import Pod

NODE = "{apiVersion: v1, kind: Node, metadata: {name: %s}}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"


def names(*paths: Path | str) -> list[str]:
    return [n.name for n in read([str(p) for p in paths]).cluster.nodes]


def message(tmp_path: Path, text: str, name: str = "f.yaml") -> str:
    """The error for a file, without the path of its folder."""
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(ManifestError) as caught:
        read([str(file)])
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_many_documents_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("---\n" + NODE % "a" + "---\n# nothing here\n---\n" + NODE % "b")
    assert ["a", "b"] == names(file)


def test_an_empty_file_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("")
    assert [] == names(file)


def test_json_one_object_a_list_and_one_after_the_other(tmp_path: Path) -> None:
    objects = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": n}} for n in "ab"]
    one, many, stream = tmp_path / "1.json", tmp_path / "2.json", tmp_path / "3.json"
    one.write_text(json.dumps(objects[0]))
    many.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=1))
    stream.write_text("\n".join(map(json.dumps, objects)))
    assert [["a"], ["a", "b"], ["a", "b"]] == [names(f) for f in (one, many, stream)]


def test_typed_lists_whose_items_name_no_kind(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("{apiVersion: v1, kind: NodeList, items: [{metadata: {name: a}}, {metadata: {name: b}}]}")
    assert ["a", "b"] == names(file)


def test_folders_are_read_with_all_inside_in_order(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name, node in (("b.yml", "b"), ("a.yaml", "a"), ("deep/c.json", "c"), ("notes.txt", "x")):
        (tmp_path / name).write_text(json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}))
    assert ["a", "b", "c"] == names(tmp_path)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((NODE % "a").encode())))
    assert ["a"] == names("-")


def test_other_kinds_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    other = "---\n{apiVersion: %s, kind: %s, metadata: {name: x}}\n"
    file.write_text(other % ("v1", "Endpoints") + other % ("apps/v1", "Deployment") + other % ("v1", "Endpoints"))
    assert {"Deployment": 1, "Endpoints": 2} == read([str(file)]).ignored


def test_a_known_kind_of_an_unknown_group_is_another_kind(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("{apiVersion: kueue.x-k8s.io/v1, kind: Queue, metadata: {name: q}}")
    found = read([str(file)])
    assert ({"Queue": 1}, ()) == (found.ignored, found.cluster.queues)


def test_null_counts_as_missing(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: p, creationTimestamp: null, labels: null},"
        " spec: {containers: [{name: c, resources: null}], nodeSelector: null}, status: null}"
    )
    assert "default/p" == read([str(file)]).cluster.tasks[0].key


def test_unquoted_times_and_base_60_numbers_stay_text(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: p, creationTimestamp: 1970-01-01T00:00:09Z,"
        " labels: {day: 2030-01-01, at: 12:30:45, equals: =, version: 1.2.3}}}"
    )
    assert 9.0 == read([str(file)]).cluster.tasks[0].created


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (POD + "spec: {priority: many}", "spec.priority: expected a whole number, got `many`"),
        (POD + "spec: {priority: 1.5}", "spec.priority: expected a whole number, got `1.5`"),
        (POD + "spec: {priority: 99999999999}", "spec.priority: expected `int` <= 2147483647, got `99999999999`"),
        (POD + "spec: {containers: {name: a}}", "spec.containers: expected a list, got a mapping"),
        (POD + "spec: [a]", "spec: expected a mapping, got a list"),
        (POD + "spec: {hostNetwork: 'yes'}", "spec.hostNetwork: expected `true` or `false`, got `yes`"),
        (
            POD + "spec: {containers: [{resources: {requests: {cpu: abc}}}]}",
            "spec.containers[0].resources.requests.cpu: not a quantity: `abc` (expected e.g. ",
        ),
        (
            POD + "spec: {containers: [{}, {resources: {requests: {cpu: 1, memory: true}}}]}",
            "spec.containers[1].resources.requests.memory: expected a whole number or a number or text, got `true`",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {a: b, version: 1}}}",
            "metadata.labels.version: expected text, got `1` (quote it)",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {x: true}}}",
            "metadata.annotations.x: expected text, got `true` (quote it)",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {1: a}}}",
            "metadata.labels: expected keys to be text",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: p, creationTimestamp: yesterday}}",
            "metadata.creationTimestamp: invalid RFC3339 encoded datetime, got `yesterday`",
        ),
        (
            POD + "spec: {tolerations: [{operator: Equals}]}",
            "spec.tolerations[0].operator: invalid enum value 'Equals'",
        ),
        ("{apiVersion: v1, kind: Pod, metadata: {namespace: a}}", "metadata.name: missing"),
        ("{apiVersion: v1, kind: Pod}", "metadata: missing"),
        ("{apiVersion: v1, metadata: {name: a}}", "kind: missing"),
        ("{kind: Pod, metadata: {name: a}}", "apiVersion: missing"),
        ("{apiVersion: v1, kind: [Pod]}", "kind: expected text, got `['Pod']`"),
        ("- a\n- b", "document: expected an object with apiVersion and kind"),
        ("just words", "document: expected an object with apiVersion and kind"),
        (
            "{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: 4 cores}}}",
            "status.allocatable.cpu: not a quantity: `4 cores` (expected e.g. `100m`, `1.5`, `2Gi`, `1e3`)",
        ),
        (
            "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b},"
            " spec: {minAvailable: half, selector: {}}}",
            "spec.minAvailable: expected a number or a percentage like `50%`, got `half`",
        ),
        (
            "{apiVersion: topology.volcano.sh/v1alpha1, kind: HyperNode, metadata: {name: h},"
            " spec: {tier: 1, members: [{selector: {regexMatch: {pattern: '('}}}]}}",
            "spec.members[0].selector.regexMatch.pattern: not a regular expression: `(`",
        ),
        (
            "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: g}, spec: {minMember: '3'}}",
            "spec.minMember: expected a whole number, got `3`",
        ),
        (
            "{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: j},"
            " spec: {pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {replicas: x}}}}",
            "spec.pytorchReplicaSpecs.Worker.replicas: expected a whole number, got `x`",
        ),
        (
            "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, "
            "spec: {hard: {volcano.sh/namespace.weight: x}}}",
            "spec.hard.volcano.sh/namespace.weight: not a quantity: `x` (expected e.g. `100m`, `1.5`, `2Gi`, `1e3`)",
        ),
    ],
)
def test_a_document_that_cannot_be_decoded_is_named_with_its_field(tmp_path: Path, text: str, expected: str) -> None:
    error = message(tmp_path, f"{NODE % 'first'}---\n{text}")
    assert error.startswith(f"f.yaml: document 2: {expected}")
    assert "\n" not in error


def test_an_item_of_a_list_is_named(tmp_path: Path) -> None:
    broken = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {priority: x}}"
    text = f"{{apiVersion: v1, kind: List, items: [{NODE % 'a'}, {broken}]}}"
    assert "f.yaml: document 1: items[1].spec.priority: expected a whole number, got `x`" == message(tmp_path, text)
    negative = broken.replace("priority: x", "overhead: {cpu: x}")
    error = message(tmp_path, text.replace(broken, negative))
    assert error.startswith("f.yaml: document 1: items[1].spec.overhead.cpu: not a quantity: `x`")


def test_json_errors_have_the_same_text(tmp_path: Path) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": 1}}})
    error = message(tmp_path, text, "f.json")
    assert "f.json: document 1: metadata.labels.a: expected text, got `1` (quote it)" == error


def test_a_syntax_error_is_named_with_its_line(tmp_path: Path) -> None:
    error = message(tmp_path, "apiVersion: v1\nkind: Pod\nmetadata: {name: p\n")
    assert error.startswith("f.yaml: line 4: not YAML: ")
    assert "f.yaml: line 2: not YAML: mapping values are not allowed in this context" == message(
        tmp_path, "apiVersion: v1\nkind: Pod: x\n"
    )


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(b"\xff\xfe\x00\xd8ab")
    with pytest.raises(ManifestError, match=r"f\.yaml: .*not YAML"):
        read([str(file)])


def test_a_recursive_document_is_refused(tmp_path: Path) -> None:
    error = message(tmp_path, "apiVersion: v1\nkind: Pod\nmetadata: &m {name: p, labels: *m}\n")
    assert "f.yaml: line 3: not YAML: a value is a part of itself" == error


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        read([str(tmp_path / "gone.yaml")])
    assert f"{tmp_path}/gone.yaml: no such file" == str(caught.value)


def test_a_folder_without_manifests(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        read([str(tmp_path)])
    assert f"{tmp_path}: no manifests in this folder (*.yaml, *.yml, *.json)" == str(caught.value)


def test_the_same_object_twice_names_both_places(tmp_path: Path) -> None:
    error = message(tmp_path, f"{POD}---\n{NODE % 'n'}---\n{POD}")
    assert "f.yaml: document 3: metadata.name: Pod `default/p` is there twice, first in f.yaml: document 1" == error


def test_two_files_may_not_have_the_same_object(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NODE % "n")
    (tmp_path / "b.yaml").write_text(f"{{apiVersion: v1, kind: List, items: [{NODE % 'n'}]}}")
    with pytest.raises(ManifestError, match=r"b\.yaml: document 1: items\[0\].metadata.name: Node `n` is there twice"):
        read([str(tmp_path)])


def test_one_name_in_two_namespaces_or_kinds_is_fine(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(POD + "---\n" + POD.replace("name: p", "name: p, namespace: b") + "---\n" + NODE % "p")
    assert {"default/p", "b/p"} == {t.key for t in read([str(file)]).cluster.tasks}


def test_the_same_structs_decode_objects_from_a_server() -> None:
    sent = b'{"metadata":{"name":"p","creationTimestamp":null,"managedFields":[{}]},"spec":{"priority":3},"status":{}}'
    assert ("p", 3) == (decode_json(sent, Pod).name, decode_json(sent, Pod).spec.priority)
    plain = b'{"metadata":{"name":"p"},"spec":{"nodeSelector":{"a":"b"}}}'
    assert decode_json(plain, Pod) == msgspec.json.decode(plain, type=Pod)
