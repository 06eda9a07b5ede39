"""Inference engines beside onnxruntime on the CPU: ResNet-50, a small network, and one that reads lines of text of any width.

    python bench/engine.py [--only TEXT] [--rounds 7] [--csv FILE] [--device cpu] [--cpu-time]
    python bench/engine.py --export FILE.onnx --checkpoint results/checkpoint.safetensors
    python bench/engine.py --model FILE.onnx [--csv FILE]

Both run in one process, in turn, with as many threads; the best round of each counts. --cpu-time measures the time of the processor with
one thread each (OMP_NUM_THREADS=1), which other programs on the machine disturb less. Without `onnxruntime` only our times are
shown. Networks are those of modules here, written as ONNX models; weights are random. --export writes the network that `strata
train` has trained; --model measures a model with inputs of fixed sizes, or one size that varies, for 1 and 64 images, on every device.
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
import strata.onnxruntime
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


class Demo(nn.Module):
    """The network of `strata train`."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(3136, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.conv1(x).relu(), 2)
        x = nn.functional.max_pool2d(self.conv2(x).relu(), 2)
        return self.fc2(self.fc1(x.flatten(1)).relu())


def export_demo(path, checkpoint):
    """Writes the network of a checkpoint of `strata train`. Its inputs are pixels, normalized as in training."""
    saved = strata.load(checkpoint)
    net = Demo().eval()
    prefix = "model."
    net.load_state_dict({name.removeprefix(prefix): t for name, t in saved.items() if name.startswith(prefix)})
    strata.onnx.export(
        net,
        (strata.randn(2, 1, 28, 28),),
        path,
        input_names=["images"],
        output_names=["scores"],
        dynamic_axes={"images": {0: "batch"}},
    )
    print(f"{path}: the network of {checkpoint}")


def devices():
    found = ["cpu", "vgpu"]
    return ["cuda", *found] if strata.cuda.is_available() else found


def measure_model(path, rounds):
    """Rows of a model on every device, for 1 and 64 images."""
    rng = np.random.default_rng(0)
    for device in devices():
        for batch in (1, 64):
            if device == "vgpu" and batch > 1:
                continue  # it interprets every instruction
            shape = [batch if not isinstance(n, int) else n for n in strata.onnx.load(path).inputs[0].shape]
            name = strata.onnx.load(path).inputs[0].name
            image = rng.standard_normal(shape).astype(np.float32)
            fast = engine.build(path, device=device, profiles={name: (shape, shape, shape)})
            context = fast.create_context()

            def run(context=context, image=image):
                return context.run([image])[0].cpu()

            theirs = None
            if onnxruntime and device == "cpu":
                session = session_of(path)

                def theirs(session=session, image=image, name=name):
                    return session.run(None, {name: image})

            mine, other = [], []
            for _ in range(3 if device == "vgpu" else 10 * rounds):
                mine.append(seconds(run))
                if theirs:
                    other.append(seconds(theirs))
            yield row(
                f"{pathlib.Path(path).name}, {batch} images",
                device,
                1e3 * min(mine),
                1e3 * min(other) if other else None,
            )


def session_of(source):
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = strata.get_num_threads()
    return onnxruntime.InferenceSession(source, settings, providers=["CPUExecutionProvider"])


def row(name, device, mine, other, difference=None):
    text = f"{name} on {device}: {mine:.3f} ms"
    found = {"network": name, "device": device, "milliseconds": round(mine, 4)}
    if other:
        found |= {"onnxruntime": round(other, 4), "ratio": round(other / mine, 3)}
        text += f", onnxruntime {other:.3f} ms, {other / mine:.2f}x"
    if difference is not None:
        text += f", largest difference {difference:.1e}"
    print(text, flush=True)
    return found


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


clock = time.perf_counter


REST = 0.05  # seconds: threads of the other library poll for work for a while after its call, and take cores


def seconds(function):
    time.sleep(REST)
    start = clock()
    function()
    return clock() - start


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
            theirs = session_of(path.read_bytes())
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
            fresh = strata.onnxruntime.InferenceSession(_again(net, shape, varies))

            def all_ours(session=fresh):
                return [session.run(None, {"x": image})[0] for image in images]

        mine.append(seconds(all_ours))
        if theirs:
            if varies:
                theirs = session_of(_again(net, shape, varies))
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
    parser.add_argument("--export", help="write the network of a checkpoint as this model")
    parser.add_argument("--checkpoint", default="results/checkpoint.safetensors")
    parser.add_argument("--model", help="measure this model on every device instead")
    parser.add_argument("--cpu-time", action="store_true", help="the time of the processor, with one thread")
    options = parser.parse_args()
    if options.cpu_time:
        global clock
        clock = time.process_time
        strata.set_num_threads(1)
    if options.export:
        export_demo(options.export, options.checkpoint)
        return 0
    if options.model:
        rows = list(measure_model(options.model, options.rounds))
    else:
        rows = [
            row(name, options.device, *compare(name, options.rounds, options.device))
            for name in CASES
            if options.only in name
        ]
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, ["network", "device", "milliseconds", "onnxruntime", "ratio"])
            writer.writeheader()
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
