"""Event files, read by TensorBoard itself: of `strata train --tensorboard` and of SummaryWriter."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
import strata
from strata.utils.tensorboard import SummaryWriter
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build" / "release"))
STRATA = str(BUILD / "bin" / "strata")


def read(folder):
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0, "images": 0, "histograms": 0})
    events.Reload()
    return events


def test_a_training_run(digits, tmp_path):
    words = ["--data", digits, "--limit", 96, "--batch-size", 16, "--epochs", 2, "--out", tmp_path, "--quiet"]
    subprocess.run([STRATA, "train", "--tensorboard", *map(str, words)], check=True, timeout=120)
    events, facts = read(tmp_path / "tensorboard"), json.loads((tmp_path / "run-cpu.json").read_text())
    losses = events.Scalars("train/loss")
    assert [e.step for e in losses] == list(range(1, 13))
    np.testing.assert_allclose([e.value for e in losses], facts["losses"], rtol=1e-6)
    assert [e.value for e in events.Scalars("test/accuracy")] == pytest.approx([e["accuracy"] for e in facts["epochs"]])
    (text,) = events.Tensors("run")
    assert text.tensor_proto.string_val[0] == b"small CNN on MNIST, cpu"
    assert all(losses[i].wall_time <= losses[i + 1].wall_time for i in range(11))


def test_a_folder_that_cannot_be_written(digits, tmp_path):
    (tmp_path / "tensorboard").write_text("a file")
    words = ["train", "--tensorboard", "--data", digits, "--limit", 16, "--out", tmp_path]
    done = subprocess.run([STRATA, *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "tensorboard" in done.stderr


def test_what_summary_writers_write(tmp_path):
    image = strata.rand(3, 5, 7)
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a/loss", strata.tensor(0.25), 7, walltime=3.5)
        writer.add_scalar("empty step", float("inf"))
        writer.add_text("note", "<b>ünïcode</b>", 2)
        writer.add_image("picture", image, 4)
        writer.add_histogram("weights", strata.arange(100.0), 1)
    events = read(tmp_path)
    (scalar,) = events.Scalars("a/loss")
    assert (scalar.step, scalar.value, scalar.wall_time) == (7, 0.25, 3.5)
    assert events.Scalars("empty step")[0].value == float("inf")
    assert any(
        "ünïcode" in t.tensor_proto.string_val[0].decode()
        for tag in events.Tags()["tensors"]
        for t in events.Tensors(tag)
    )
    (shown,) = events.Images("picture")
    assert (shown.height, shown.width) == (5, 7) and shown.encoded_image_string[1:4] == b"PNG"
    (histogram,) = events.Histograms("weights")
    assert histogram.histogram_value.num == 100 and histogram.histogram_value.max == 99
