"""Recurrent layers beside PyTorch on one GPU: recurrent.py [--rounds 7] [--cases REGEX].

Training (forward, backward of a sum) and inference of LSTM, GRU and RNN, on whole batches and on packed sequences whose lengths
fall linearly to a quarter. Eager calls, both libraries in turn; the time is the median of the rounds, host and device together.
Without PyTorch only Strata's times are printed.
"""

import argparse
import importlib.util
import re
import statistics
import time

import strata

SIDES = [strata] + ([__import__("torch")] if importlib.util.find_spec("torch") else [])
STEPS, BATCH, INPUTS, HIDDEN = 128, 64, 128, 512


def case(m, kind, packed, training):
    options = {"num_layers": 2, "device": "cuda"}
    net = {"RNN": m.nn.RNN, "GRU": m.nn.GRU, "LSTM": m.nn.LSTM}[kind](INPUTS, HIDDEN, **options)
    x = m.randn(STEPS, BATCH, INPUTS, device="cuda")
    if packed:
        lengths = [STEPS - i * (STEPS * 3 // 4) // BATCH for i in range(BATCH)]
        x = m.nn.utils.rnn.pack_padded_sequence(x, m.tensor(lengths))

    def forward():
        y, _ = net(x)
        return y.data if packed else y

    def train():
        for p in net.parameters():
            p.grad = None
        forward().sum().backward()

    def infer():
        with m.no_grad():
            forward()

    return train if training else infer


def seconds(m, f, calls=10):
    m.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        f()
    m.cuda.synchronize()
    return (time.perf_counter() - begin) / calls


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cases", default=".")
    options = parser.parse_args()
    for kind in ("LSTM", "GRU", "RNN"):
        for packed in (False, True):
            for training in (True, False):
                name = f"{kind} {'packed' if packed else 'whole'} {'training' if training else 'inference'}"
                if not re.search(options.cases, name):
                    continue
                calls = [(m, case(m, kind, packed, training)) for m in SIDES]
                for m, f in calls:
                    seconds(m, f, 3)
                rounds = [[seconds(m, f) for m, f in calls] for _ in range(options.rounds)]
                times = [statistics.median(r[i] for r in rounds) for i in range(len(calls))]
                beside = f", PyTorch {times[1] * 1e3:.2f} ms: {times[1] / times[0]:.2f}x" if len(times) > 1 else ""
                print(f"{name}: {times[0] * 1e3:.2f} ms{beside}", flush=True)


if __name__ == "__main__":
    main()
