"""The report of training runs: the page of `strata train`, and `strata report` of several runs, in a browser."""

import json
import os
import pathlib
import random
import subprocess

import pytest
from chromium import shown
from html_page import Page

BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build" / "release"))
STRATA = str(BUILD / "bin" / "strata")
EVIL = "<script>alert(1)</script>&\"'</style>"


def run(*arguments, status=0):
    done = subprocess.run([STRATA, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def trained(digits, tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "out"
    run("train", "--data", digits, "--limit", 640, "--batch-size", 64, "--epochs", 3, "--name", EVIL, "--out", out)
    return out


def record(folder):
    return json.loads(next(folder.glob("run-*.json")).read_text())


def test_the_record_has_the_facts_of_the_run(trained):
    facts = record(trained)
    assert facts["name"] == EVIL and facts["device"] == "cpu" and facts["steps_per_epoch"] == 10
    assert len(facts["losses"]) == 30 and len(facts["epochs"]) == 3
    right = sum(facts["confusion"][i][i] for i in range(10))
    assert right / sum(map(sum, facts["confusion"])) == pytest.approx(facts["epochs"][-1]["accuracy"])
    assert {"conv1", "conv2", "fc1", "fc2"} <= {part["name"] for part in facts["layers"]}
    ops = {part["name"]: part for part in facts["ops"]}
    assert ops["convolution"]["kernels"] and any(part["rejected"] for part in facts["ops"])
    assert sum(p["us"] for p in facts["layers"]) == pytest.approx(sum(p["us"] for p in facts["ops"]))
    assert len(facts["memory_mb"]) == 30 and min(facts["memory_mb"]) > 0
    assert facts["command"].startswith("strata train --data") and "'\\''" in facts["command"]
    assert all(len(d["pixels"]) == 784 for d in facts["digits"]) and facts["digits"]


def test_a_recorded_step_changes_no_number(digits, tmp_path, monkeypatch):
    """A run that is traced as a whole records no step of its own; its losses are the same."""
    losses = []
    for trace in ("", str(tmp_path / "trace.txt")):
        monkeypatch.setenv("STRATA_TRACE", trace)
        out = tmp_path / f"out{len(losses)}"
        run("train", "--data", digits, "--limit", 96, "--batch-size", 16, "--threads", 1, "--out", out)
        losses.append(record(out)["losses"])
    assert losses[0] == losses[1] and not record(out)["layers"]


def test_the_page_stands_alone_and_escapes_names(trained):
    page = Page((trained / "report.html").read_text())
    assert not page.outside and page.tags.count("script") == 1 and EVIL in page.text
    assert page.tags.count("svg") == 4 and page.tags.count("img") == len(record(trained)["digits"])


HOVER = """
  const svg = document.querySelectorAll('svg.chart')[1], box = svg.getBoundingClientRect();
  svg.dispatchEvent(new page.PointerEvent('pointermove', {clientX: box.left + box.width * 0.55, clientY: box.top + 80}));
  const tip = document.getElementById('tip');
  const seen = [tip.hidden, tip.innerText, svg.querySelector('.cursor').getAttribute('d').length > 0];
  svg.dispatchEvent(new page.PointerEvent('pointerleave'));
  const root = document.documentElement;
  return {hover: seen, after: tip.hidden, title: document.title, heading: document.querySelector('h1').textContent,
    scripts: document.scripts.length, wide: root.scrollWidth - root.clientWidth,
    curves: [...document.querySelectorAll('polyline.curve')].map(p => p.points.length),
    images: [...document.images].every(i => i.naturalWidth === 28 && i.naturalHeight === 28),
    ground: page.getComputedStyle(document.body).backgroundColor,
    text: page.getComputedStyle(document.querySelector('svg.chart text')).fill};
"""


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (400, False), (400, True)])
def test_in_a_browser(trained, tmp_path, width, dark):
    seen, errors = shown(trained / "report.html", tmp_path, HOVER, width, dark)
    accuracy = 100 * record(trained)["epochs"][1]["accuracy"]
    assert errors == [] and isinstance(seen, dict), seen
    assert seen["hover"][0] is False and seen["hover"][2] and seen["after"] is True
    assert seen["hover"][1].splitlines() == ["epoch 2", f"cpu: {float(f'{accuracy:.5g}'):g}"]
    assert EVIL in seen["heading"] and seen["title"].startswith(EVIL) and seen["scripts"] == 1
    assert seen["wide"] == 0 and seen["images"]
    assert seen["curves"] == [30, 30, 3, 3, 30]
    assert (seen["ground"] == "rgb(255, 255, 255)") is not dark
    assert seen["text"] == ("rgb(227, 232, 238)" if dark else "rgb(32, 38, 46)")


def test_several_devices_side_by_side(digits, tmp_path):
    words = ["--data", digits, "--limit", 64, "--batch-size", 32, "--test-limit", 20, "--out", tmp_path / "all"]
    done = run("train", "--device", "cpu,vgpu", *words)
    assert "speed-up" in done.stdout and (tmp_path / "all/cpu/metrics.csv").exists()
    text = Page((tmp_path / "all/report.html").read_text()).text
    assert "Devices side by side" in text and "vgpu" in text and "1.00x" in text
    found = json.loads(run("train", "--device", "cpu,vgpu", "--json", *words).stdout)
    assert [r["device"] for r in found] == ["cpu", "vgpu"]
    run("train", "--device", "all", "--quiet", *words)
    assert "cpu,zork" not in run("train", "--device", "cpu,zork", *words, status=1).stdout
    run("train", "--device", "cpu,", *words, status=1)
    # Later runs of other devices in one folder appear in its page.
    one = [*words[:-1], tmp_path / "one", "--quiet"]
    run("train", *one)
    run("train", *one, "--device", "vgpu")
    assert "vgpu" in Page((tmp_path / "one/report.html").read_text()).text


@pytest.mark.parametrize("count", [1, 2, 50])
def test_up_to_fifty_runs(trained, tmp_path, count):
    facts, chooser = record(trained), random.Random(count)
    for i in range(count):
        folder = tmp_path / f"run {i} <b>"
        folder.mkdir()
        made = {
            **facts,
            "name": f"<i>{i}</i>",
            "losses": [chooser.random() * 3 for _ in range(chooser.choice([1, 30, 9000]))],
        }
        made["epochs"] = made["epochs"][: chooser.choice([1, 3])]
        (folder / "run-cpu.json").write_text(json.dumps(made))
    folders = sorted(tmp_path.glob("run *"))
    assert f"with {count} run" in run("report", *folders, "--out", tmp_path / "page.html").stdout
    page = tmp_path / "page.html"
    text = Page(page.read_text())
    assert "i" not in [t for t in text.tags if t in ("b", "script")] and all(
        f"<i>{i}</i>" in text.text for i in range(count)
    )
    assert page.stat().st_size < 3_000_000
    if count == 50:
        seen, errors = shown(page, tmp_path, HOVER, 400)
        assert errors == [] and seen["wide"] == 0 and len(seen["curves"]) == 200, seen
        assert len(seen["hover"][1].splitlines()) == 13  # the axis and the first twelve


def test_runs_of_one_name_are_told_apart_by_their_folders(trained, tmp_path):
    run("report", trained, trained, "--out", tmp_path / "page.html")
    assert str(trained) in Page((tmp_path / "page.html").read_text()).text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is no record"),
        ("[]", "is no record"),
        ("{}", "is no record"),
        ('{"format": 2}', "another version"),
        ("\x00\xff", "is no record"),
    ],
)
def test_files_that_are_no_records(tmp_path, text, says):
    (tmp_path / "run-cpu.json").write_text(text, encoding="latin-1")
    assert says in run("report", tmp_path, "--out", tmp_path / "page.html", status=1).stderr
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("losses", ["x"]),
        ("losses", {}),
        ("confusion", [[1, 2]]),
        ("digits", [{"pixels": [1], "label": 1, "predicted": 2}]),
        ("digits", [{"pixels": [1e9] * 784, "label": 1, "predicted": 2}]),
        ("images", 1e300),
        ("confusion", {"a": [1]}),
        ("memory_steps", [1, 2, 3]),
        ("epochs", [{}]),
        ("environment", [["a"]]),
        ("layers", [{"name": 3}]),
        ("name", 7),
        ("steps_per_epoch", None),
    ],
)
def test_damaged_records(trained, tmp_path, key, value):
    file = tmp_path / "run-cpu.json"
    file.write_text(json.dumps({**record(trained), key: value}))
    done = run("report", file, "--out", tmp_path / "page.html", status=1)
    assert str(file) in done.stderr


def test_records_of_other_runs_with_odd_values(trained, tmp_path):
    """What is empty or not finite is left out of charts."""
    file, page = tmp_path / "run-cpu.json", tmp_path / "page.html"
    odd = {"losses": [None, 0, -1, 1e300, 1e-300], "memory_mb": [], "memory_steps": [], "confusion": [], "digits": []}
    file.write_text(json.dumps({**record(trained), **odd, "epochs": [], "layers": [], "ops": [], "environment": []}))
    run("report", file, "--out", page)
    seen, errors = shown(page, tmp_path, "return [...document.querySelectorAll('svg.chart')].length")
    assert errors == [] and seen == 3
    assert "NaN" not in page.read_text().replace("isNaN", "")


def test_a_foreign_record_does_not_end_a_training(digits, tmp_path):
    (tmp_path / "run-zork.json").write_text('{"format": 99}')
    run("train", "--data", digits, "--limit", 64, "--test-limit", 10, "--out", tmp_path, "--quiet")
    assert "cpu" in Page((tmp_path / "report.html").read_text()).text


def test_wrong_places(tmp_path):
    assert "there is no" in run("report", tmp_path / "nothing", status=2).stderr
    assert "has no run-*.json" in run("report", tmp_path, status=1).stderr


def test_a_failed_download_is_not_tried_at_every_run(tmp_path):
    def train(*words):
        environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "STRATA_MNIST_URL": f"file://{tmp_path}/none"}
        command = [STRATA, "train", "--limit", "64", "--test-limit", "10", "--out", str(tmp_path / "out"), *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    assert "fetching" in train().stderr
    second = train().stderr
    assert "fetching" not in second and "in the last day" in second
    asked = train("--data", "mnist")
    assert "fetching" in asked.stderr and asked.returncode == 2
    note = next(tmp_path.rglob("download-failed"))
    os.utime(note, (0, 0))
    assert "fetching" in train().stderr
