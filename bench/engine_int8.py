"""An engine's precisions beside each other on the CPU: ResNet-50 in float32, bfloat16 and int8, and onnxruntime on the same model.

    python bench/engine_int8.py [--rounds 7] [--images 1]

int8 is calibrated on random images. Each line has the best round, the ratio to float32, and the error of the scores, relative to
their size. onnxruntime, if it is installed, runs the float32 model and the model with QuantizeLinear that quantize() writes.
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np
import strata
import strata.onnx
from strata import engine

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from engine import onnxruntime, resnet50, seconds, session_of  # the script beside this one


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--images", type=int, default=1)
    options = parser.parse_args()
    strata.manual_seed(0)
    rng = np.random.default_rng(0)
    images = [rng.standard_normal((options.images, 3, 224, 224)).astype(np.float32) for _ in range(4)]
    with tempfile.TemporaryDirectory() as folder:
        path, quantized = str(pathlib.Path(folder) / "model.onnx"), str(pathlib.Path(folder) / "int8.onnx")
        strata.onnx.export(resnet50().eval(), (strata.tensor(images[0]),), path, input_names=["x"], output_names=["y"])
        table = engine.quantize(path, quantized, images)
        engines = {
            "float32": engine.build(path, level=1),
            "bfloat16": engine.build(path, level=1, bf16=True),
            "int8": engine.build(path, level=1, int8=True, calibration=table),
            "int8, as a model": engine.build(quantized, level=1),
        }
        runs = {name: (lambda e=e: e.run([images[0]])[0].numpy()) for name, e in engines.items()}
        for name, file in (("onnxruntime float32", path), ("onnxruntime int8", quantized)) if onnxruntime else ():
            session = session_of(file)
            runs[name] = lambda s=session: s.run(None, {s.get_inputs()[0].name: images[0]})[0]
        scores = {name: run() for name, run in runs.items()}
        best = dict.fromkeys(runs, float("inf"))
        for _ in range(options.rounds):
            for name, run in runs.items():
                best[name] = min(best[name], seconds(run))
    exact = scores["float32"]
    for name, time in best.items():
        error = np.linalg.norm(scores[name] - exact) / np.linalg.norm(exact)
        print(f"{name:<20} {1e3 * time:8.2f} ms  {best['float32'] / time:5.2f}x  error {error:.1e}")


if __name__ == "__main__":
    main()
