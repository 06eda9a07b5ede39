"""Inference engines beside onnxruntime on the CPU: ResNet-50, a small network, and one that reads lines of text of any width.

    python bench/engine.py [--only TEXT] [--rounds 7] [--csv FILE] [--device cpu]

Both run in one process, in turn, with as many threads; the best round of each counts. Without `onnxruntime` only our times are
shown. Networks are those of modules here, written as ONNX models; weights are random.
"""

import argparse
import csv
import pathlib
import sys
import tempfile
import time

import numpy as np
import strata
import strata.onnx
from strata import engine, nn

try:
    import onnxruntime
except ImportError:
    onnxruntime = None


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride=1):
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inside, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.shortcut = (
            nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))
            if stride != 1 or inside != out
            else nn.Identity()
        )

    def forward(self, x):
        return (self.body(x) + self.shortcut(x)).relu()


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inside, width, stride if i == 0 else 1))
            inside = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def small_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 14 * 14, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


class Recognition(nn.Module):
    """Letters of an image of 48 rows and any width: convolutions, then attention over columns."""

    def __init__(self):
        super().__init__()
        layers, inside = [], 3
        for width, rows in ((32, 2), (64, 2), (128, 2), (192, 2), (192, 3)):
            layers += [nn.Conv2d(inside, width, 3, (rows, 1), 1), nn.BatchNorm2d(width), nn.Hardswish()]
            inside = width
        self.features = nn.Sequential(*layers)
        self.mix = nn.TransformerEncoderLayer(192, 4, 384, batch_first=True)
        self.head = nn.Linear(192, 97)

    def forward(self, x):
        columns = self.features(x).squeeze(2).transpose(1, 2)
        return self.head(self.mix(columns)).softmax(-1)


CASES = {
    "ResNet-50, 1 image": (resnet50, (1, 3, 224, 224), None),
    "ResNet-50, 8 images": (resnet50, (8, 3, 224, 224), None),
    "small CNN, 1 image": (small_cnn, (1, 1, 28, 28), None),
    "small CNN, 32 images": (small_cnn, (32, 1, 28, 28), None),
    "lines of text, 40 new widths": (Recognition, (1, 3, 48, 80), 3),
}


def seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def compare(name, rounds, device):
    """Milliseconds of both (None without onnxruntime), and the largest difference of their results."""
    make, shape, varies = CASES[name]
    strata.manual_seed(0)
    net = make().eval()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        axes = {"dynamic_axes": {"x": {varies: "width"}}} if varies else {}
        strata.onnx.export(net, (strata.randn(shape),), str(path), input_names=["x"], output_names=["y"], **axes)
        ours = engine.build(path, device=device, level=0 if varies else 3)
        theirs = None
        if onnxruntime:
            settings = onnxruntime.SessionOptions()
            settings.intra_op_num_threads = strata.get_num_threads()
            theirs = onnxruntime.InferenceSession(path.read_bytes(), settings, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    widths = [shape[-1]] if not varies else rng.choice(np.arange(40, 240), 40, replace=False)
    images = [rng.standard_normal((*shape[:-1], w)).astype(np.float32) for w in widths]
    run_ours = ours.create_context()

    def all_ours():
        return [run_ours.run({"x": image})[0].numpy() for image in images]

    def all_theirs():
        return [theirs.run(None, {"x": image})[0] for image in images]

    difference = (
        max(float(np.abs(a - b).max()) for a, b in zip(all_ours(), all_theirs(), strict=True)) if theirs else 0.0
    )
    mine, other = [], []
    for _ in range(1 if varies else rounds):
        if varies:  # each width for the first time
            run_ours = engine.Engine.of_model(strata.onnx.load(_again(net, shape, varies))).create_context()
        mine.append(seconds(all_ours))
        if theirs:
            if varies:
                theirs = onnxruntime.InferenceSession(_again(net, shape, varies), settings)
            other.append(seconds(all_theirs))
    return 1e3 * min(mine), 1e3 * min(other) if other else None, difference


def _again(net, shape, varies):
    return strata.onnx.export(
        net, (strata.randn(shape),), input_names=["x"], output_names=["y"], dynamic_axes={"x": {varies: "width"}}
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--csv", help="write the results to this file")
    options = parser.parse_args()
    rows = []
    for name in CASES:
        if options.only not in name:
            continue
        mine, other, difference = compare(name, options.rounds, options.device)
        rows.append({"network": name, "device": options.device, "milliseconds": round(mine, 3)})
        text = f"{name}: {mine:.2f} ms"
        if other:
            rows[-1] |= {"onnxruntime": round(other, 3), "ratio": round(other / mine, 3)}
            text += f", onnxruntime {other:.2f} ms, {other / mine:.2f}x, largest difference {difference:.1e}"
        print(text, flush=True)
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, ["network", "device", "milliseconds", "onnxruntime", "ratio"])
            writer.writeheader()
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
