"""What tracing costs: trace.py [--spans N]. An eager op of 16 elements without and with a recording, the time per span, and
the time to write N spans as JSON. With two builds, bench/two_builds.py compares what spans cost while nothing is recorded.
"""

import argparse
import os
import tempfile
import time

import strata


def fastest(run, repeats=40):
    """Nanoseconds of CPU time of this thread: other processes do not count."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.thread_time_ns()
        run()
        best = min(best, time.thread_time_ns() - begin)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spans", type=int, default=1_000_000)
    options = parser.parse_args()
    x, y, n = strata.randn(16), strata.randn(16), 10_000

    def run():
        for _ in range(n):
            x + y

    off = fastest(run) / n
    with strata.tracing(memory=4 << 30, modules=False) as t:
        on = fastest(run, 10) / n
    spans = len(t) / (10 * n)
    print(
        f"x + y, 16 elements: {off:.1f} ns; recorded {on:.1f} ns, {(on - off) / spans:.1f} ns for each of {spans:.0f} spans"
    )
    with strata.tracing(memory=16 << 30, modules=False) as t:
        for _ in range(options.spans // 4):
            x + y
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        begin = time.perf_counter()
        t.save(path)
        seconds = time.perf_counter() - begin
        size = os.path.getsize(path) / 1e6
    print(
        f"{len(t)} spans written in {seconds:.2f} s ({size:.0f} MB): {1e7 * seconds / len(t):.1f} s for 10 million; {t.dropped} dropped"
    )


if __name__ == "__main__":
    main()
