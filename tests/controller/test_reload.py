"""The configuration file while running: a good one is taken, a bad one refused with its path."""

from __future__ import annotations

from pathlib import Path

from maar.controller.reload import ConfigFile
from maar.testing.confs import ALLOCATE, PREEMPT


def test_a_changed_file_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "maar.yaml"
    path.write_text(ALLOCATE)
    config = ConfigFile(path)
    told: list[str] = []
    config.on_changed.append(lambda: told.append("changed"))
    config.look()
    assert [] == told
    path.write_text(PREEMPT)
    config.look()
    assert ["changed"] == told
    assert config.config.has_action("preempt")


def test_a_mounted_configmap_changes_by_its_link(tmp_path: Path) -> None:
    for name, text in (("one", ALLOCATE), ("two", PREEMPT)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "maar.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "maar.yaml").symlink_to("..data/maar.yaml")
    config = ConfigFile(tmp_path / "maar.yaml")
    (tmp_path / "..tmp").symlink_to("two")
    (tmp_path / "..tmp").rename(tmp_path / "..data")
    config.look()
    assert config.config.has_action("preempt")


def test_a_bad_file_is_refused_and_the_one_before_stays(tmp_path: Path) -> None:
    path = tmp_path / "maar.yaml"
    path.write_text(ALLOCATE)
    config = ConfigFile(path)
    refused: list[list[str]] = []
    config.on_refused.append(refused.append)
    before = config.config
    path.write_text(ALLOCATE.replace("gang", "gnag"))
    config.look()
    config.look()
    assert 1 == len(refused)
    assert refused[0][0].startswith(f"{path}: tiers[0].plugins[1]")
    assert "did you mean `gang`?" in refused[0][0]
    assert before is config.config
    path.unlink()
    config.look()
    assert before is config.config
    path.write_text(PREEMPT)
    config.look()
    assert [] == config.problems
    assert config.config.has_action("preempt")
