"""`strata train` as a user runs it: what it prints and writes, resuming, Ctrl-C, bad arguments, bad files, a full disk."""

import csv
import json
import os
import pathlib
import resource
import signal
import subprocess
from xml.etree import ElementTree

import numpy as np
import pytest
import strata

BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build" / "release"))
STRATA = str(BUILD / "bin" / "strata")


def train(*arguments, status=0, **options):
    done = subprocess.run(
        [STRATA, "train", *map(str, arguments)], capture_output=True, text=True, timeout=300, **options
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done


def test_learns_and_writes_what_it_promises(digits, tmp_path):
    done = train("--data", digits, "--epochs", 4, "--batch-size", 32, "--out", tmp_path / "out")
    rows = list(csv.DictReader((tmp_path / "out/metrics.csv").open()))
    assert [r["epoch"] for r in rows] == ["1", "2", "3", "4"]
    assert set(rows[0]) == {"device", "epoch", "step_ms", "images_per_s", "loss", "accuracy", "memory_mb"}
    assert float(rows[-1]["loss"]) < 0.5 * float(rows[0]["loss"])
    assert float(rows[-1]["accuracy"]) > 0.85
    assert all(float(r["images_per_s"]) > 0 and float(r["memory_mb"]) > 1 for r in rows)
    plot = ElementTree.parse(tmp_path / "out/plot.svg").getroot()
    assert (plot.get("width"), plot.get("height")) == ("1280", "720")
    lines = [e.get("points").split() for e in plot.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(points) for points in lines] == [4 * 63] * 2 + [4, 4]  # losses, their running mean; accuracy, speed
    assert len(list(plot.iter("{http://www.w3.org/2000/svg}circle"))) == 8  # the accuracy and the speed of each epoch
    assert (
        "MNIST" in done.stdout
        and "plot.svg" in done.stdout
        and "report.html" in done.stdout
        and "% of the test images" in done.stdout
    )
    assert "epoch 4/4 63/63" in done.stderr


def test_the_virtual_gpu_takes_the_same_steps(digits, tmp_path):
    losses = {}
    for device in ("cpu", "vgpu"):
        out = tmp_path / device
        train("--data", digits, "--device", device, "--limit", 96, "--batch-size", 16, "--out", out)
        losses[device] = strata.safetensors.load_file(out / "checkpoint.safetensors")["train.losses"].numpy()
    assert len(losses["vgpu"]) == 6
    np.testing.assert_allclose(losses["vgpu"], losses["cpu"], rtol=2e-3)


@pytest.mark.parametrize("options", [[], ["--amp", "bf16"], ["--device", "vgpu"]], ids=["cpu", "bf16", "vgpu"])
def test_compiled_steps_have_the_same_numbers(digits, tmp_path, options):
    losses = []
    for more in ([], ["--compile"]):
        out = tmp_path / f"out{len(more)}"
        train("--data", digits, "--limit", 96, "--batch-size", 16, "--test-limit", 10, "--out", out, *options, *more)
        losses.append(strata.safetensors.load_file(out / "checkpoint.safetensors")["train.losses"].tolist())
    assert len(losses[0]) == 6 and losses[0] == losses[1]


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
@pytest.mark.parametrize("amp", [["--amp"], ["--amp", "f16"]], ids=["bf16", "f16"])
def test_mixed_precision_takes_similar_steps_and_resumes(digits, tmp_path, device, amp):
    options = ["--data", digits, "--device", device, "--limit", 64, "--batch-size", 16, "--test-limit", 10]
    losses = {}
    for name, more in (("f32", []), ("amp", amp)):
        done = train(*options, *more, "--out", tmp_path / name)
        losses[name] = strata.safetensors.load_file(tmp_path / name / "checkpoint.safetensors")["train.losses"].numpy()
        assert ("mixed precision in " + (amp + ["bf16"])[1] in done.stdout) == (name == "amp")
    assert (losses["amp"] != losses["f32"]).all()
    np.testing.assert_allclose(losses["amp"], losses["f32"], rtol=0.05)
    saved = strata.safetensors.load_file(tmp_path / "amp/checkpoint.safetensors")
    assert ("scaler.scale" in saved) == ("f16" in amp)
    wrong = train(*options, "--epochs", 1, "--resume", "--out", tmp_path / "amp", status=1)
    assert "was trained with model cnn in" in wrong.stderr


def test_the_help_names_the_precisions():
    assert "--amp" in train("--help").stdout
    assert "bf16" in train("--amp", "f8", status=1).stderr


def test_counters_of_the_virtual_gpu(digits, tmp_path):
    options = [
        "--data",
        digits,
        "--device",
        "vgpu",
        "--limit",
        16,
        "--batch-size",
        8,
        "--test-limit",
        4,
        "--out",
        tmp_path,
    ]
    shown = train(*options, "--counters").stdout
    assert "16 images to train on, 4 to test with" in shown
    table = shown[shown.index("by op and kernel, slowest first") :]
    lines = table.splitlines()
    assert lines[1].split()[:4] == ["op", "kernel", "launches", "instr."]
    assert any(line.startswith("all ") for line in lines) and "no measurement" in table
    counted = json.loads(train(*options, "--counters", "--json").stdout)["counters"]
    kernels, total = counted["kernels"], counted["total"]
    assert sum(k["launches"] for k in kernels) == total["launches"]
    assert sum(k["thread_instructions"] for k in kernels) == total["thread_instructions"] > 1e6
    assert [k["estimated_seconds"] for k in kernels] == sorted((k["estimated_seconds"] for k in kernels), reverse=True)
    assert all(0 < k["simt_efficiency"] <= 1 and 0 < k["occupancy"] <= 1 for k in kernels)
    # Two convolutions and the gradient of what goes into the second, two steps. What the test launches is not counted.
    assert sum(k["launches"] for k in kernels if k["op"] == "convolution") == 6


def test_the_test_can_be_cut_short(digits, tmp_path):
    done = json.loads(train("--data", digits, "--limit", 64, "--test-limit", 3, "--out", tmp_path, "--json").stdout)
    assert any(done["accuracy"] == pytest.approx(k / 3) for k in range(4))


def test_checkpoint_holds_the_network(digits, tmp_path):
    train("--data", digits, "--epochs", 1, "--batch-size", 64, "--out", tmp_path, "--quiet")
    saved = strata.load(tmp_path / "checkpoint.safetensors")
    shapes = {k.removeprefix("model."): tuple(v.shape) for k, v in saved.items() if k.startswith("model.")}
    assert shapes["conv2.weight"] == (64, 32, 3, 3) and shapes["fc1.weight"] == (128, 3136)


def tensors(folder):
    return {
        k: v.numpy()
        for k, v in strata.load(folder / "checkpoint.safetensors").items()
        if not k.startswith("train.rows")
    }


def assert_same_bits(a, b):
    assert a.keys() == b.keys()
    for key in a:
        if key != "train.position":  # holds the time spent
            np.testing.assert_array_equal(a[key], b[key], err_msg=key)


def test_interrupted_and_resumed_gives_the_same_bits(digits, tmp_path):
    options = ["--data", digits, "--epochs", 3, "--batch-size", 32, "--seed", 5]
    train(*options, "--out", tmp_path / "whole", "--quiet")
    command = [STRATA, "train", *map(str, options), "--out", str(tmp_path / "parts")]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    for line in running.stderr:
        if line.startswith("epoch 2/3"):
            running.send_signal(signal.SIGINT)
            break
    rest = running.stderr.read()
    assert running.wait(timeout=60) == 130, rest
    assert "interrupted" in rest and "--resume" in rest
    done = train(*options, "--out", tmp_path / "parts", "--resume")
    assert "resumed after epoch 1" in done.stdout
    assert_same_bits(tensors(tmp_path / "whole"), tensors(tmp_path / "parts"))
    assert len((tmp_path / "parts/metrics.csv").read_text().splitlines()) == 4


def test_thread_count_does_not_change_the_bits(digits, tmp_path):
    options = ["--data", digits, "--limit", 512, "--batch-size", 64, "--quiet"]
    train(*options, "--threads", 1, "--out", tmp_path / "one")
    train(*options, "--threads", 2, "--out", tmp_path / "two")
    assert_same_bits(tensors(tmp_path / "one"), tensors(tmp_path / "two"))


def test_a_closed_pipe_ends_without_a_signal(digits, tmp_path):
    for arguments in (["ops"], ["train", "--data", digits, "--limit", 64, "--out", tmp_path]):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([STRATA, *map(str, arguments)], stdout=writer, stderr=subprocess.PIPE, timeout=60)
        os.close(writer)
        assert done.returncode == 2, done.stderr
    assert not list(tmp_path.glob("*.tmp"))


def test_output_to_a_full_disk_is_an_error():
    with open("/dev/full", "w") as full:
        done = subprocess.run([STRATA, "devices"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2 and "standard output" in done.stderr


def test_json_is_all_that_is_printed(digits, tmp_path):
    done = train("--data", digits, "--limit", 128, "--out", tmp_path, "--json")
    result = json.loads(done.stdout)
    assert result["device"] == "cpu" and 0 <= result["accuracy"] <= 1 and done.stderr == ""


def test_rows_of_other_devices_stay(digits, tmp_path):
    (tmp_path / "metrics.csv").write_text(
        "device,epoch,step_ms,images_per_s,loss,accuracy,memory_mb\ncuda,1,0.5,99,0.1,0.99,5\ncpu,7,1,1,1,1,1\n"
    )
    train("--data", digits, "--limit", 128, "--out", tmp_path, "--quiet")
    rows = list(csv.DictReader((tmp_path / "metrics.csv").open()))
    assert [(r["device"], r["epoch"]) for r in rows] == [("cuda", "1"), ("cpu", "1")]


def test_without_mnist_it_says_so_and_draws_digits(tmp_path):
    nowhere = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "STRATA_MNIST_URL": f"file://{tmp_path}/none"}
    done = train("--limit", 256, "--out", tmp_path / "out", cwd=tmp_path, env=nowhere)
    assert "using synthetic digits" in done.stderr and "synthetic digits" in done.stdout


def test_a_download_with_wrong_contents_is_refused(digits, tmp_path):
    wrong = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "STRATA_MNIST_URL": f"file://{digits}"}
    done = train("--data", "mnist", "--out", tmp_path / "out", cwd=tmp_path, env=wrong, status=2)
    assert "could not be downloaded" in done.stderr and "--data synthetic" in done.stderr
    assert [p.name for p in (tmp_path / ".cache").rglob("*") if p.is_file()] == ["download-failed"]


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--batch-size", "0"], 1, "--batch-size"),
        (["--batch-size", "-1"], 1, "--batch-size"),
        (["--batch-size", "1e30"], 1, "--batch-size"),
        (["--batch-size", "nan"], 1, "--batch-size"),
        (["--epochs", "0"], 1, "--epochs"),
        (["--epochs", "x"], 1, "--epochs"),
        (["--lr", "0"], 1, "--lr"),
        (["--lr", "nan"], 1, "--lr"),
        (["--lr", "-1"], 1, "--lr"),
        (["--seed", "-1"], 1, "--seed"),
        (["--model", "resnet"], 1, "--model"),
        (["--device", "mps"], 3, "is not available"),
        (["--device", "vgpu:9"], 3, "invalid device ordinal"),
        (["--device", "tpu"], 1, "strata devices"),
        (["--data", "/no/such/folder"], 2, "no such folder"),
        (["--data", "/dev/null"], 2, "this is a file"),
        (["--no-such-option"], 1, "--no-such-option"),
        (["--test-limit", "-1"], 1, "--test-limit"),
        (["--counters"], 1, "add --device vgpu"),
        (["--out", "/dev/null/x"], 2, "--out"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else None,
)
def test_bad_arguments(arguments, status, says, digits, tmp_path):
    given = ["--data", digits, "--limit", 64, *arguments]
    if "--data" in arguments:
        given = given[2:]
    done = train(*given, cwd=tmp_path, status=status)
    assert says in done.stderr
    assert not (tmp_path / "results/checkpoint.safetensors").exists()


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "missing", "other"])
def test_resume_from_a_bad_checkpoint(damage, digits, tmp_path):
    options = ["--data", digits, "--limit", 64, "--out", tmp_path]
    train(*options, "--quiet")
    file = tmp_path / "checkpoint.safetensors"
    whole = file.read_bytes()
    if damage == "missing":
        file.unlink()
    elif damage == "other":
        strata.save({"a": strata.ones(2)}, file)
    else:
        file.write_bytes({"cut": whole[: len(whole) // 2], "garbage": b"\xff" * 100, "empty": b""}[damage])
    done = subprocess.run([STRATA, "train", *map(str, options), "--resume"], capture_output=True, text=True, timeout=60)
    assert done.returncode in (1, 2), done.stderr
    assert "checkpoint.safetensors" in done.stderr


def test_resume_without_a_checkpoint_says_so_and_makes_nothing(tmp_path):
    done = train("--out", tmp_path / "none", "--resume", status=2)
    assert "checkpoint.safetensors to resume from" in done.stderr and "fetching" not in done.stderr
    assert not (tmp_path / "none").exists()


def test_resume_with_other_options_names_them(digits, tmp_path):
    train("--data", digits, "--limit", 64, "--out", tmp_path, "--quiet")
    done = train("--data", digits, "--limit", 64, "--out", tmp_path, "--resume", "--seed", 9, status=1)
    assert "seed 0" in done.stderr and "9" in done.stderr


def test_a_full_disk_leaves_the_old_checkpoint(digits, tmp_path):
    options = ["--data", digits, "--limit", 64, "--out", tmp_path]
    train(*options, "--quiet")
    before = (tmp_path / "checkpoint.safetensors").read_bytes()

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = train(*options, "--seed", 3, preexec_fn=small_files, status=2)
    assert "checkpoint.safetensors" in done.stderr
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "checkpoint.safetensors",
        "metrics.csv",
        "plot.svg",
        "report.html",
        "run-cpu.json",
    ]


def test_divergence_is_an_error_with_advice(digits, tmp_path):
    done = train("--data", digits, "--lr", 1e20, "--batch-size", 32, "--out", tmp_path, status=1)
    assert "diverged" in done.stderr and "--lr" in done.stderr
