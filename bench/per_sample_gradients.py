"""Times per-sample gradients of a small network by vmap(grad(loss)), with Strata or, as --peer, PyTorch.

PYTHONPATH=build/release/python python bench/per_sample_gradients.py [--device cuda] [--peer]
"""

import argparse
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--peer", action="store_true", help="use PyTorch")
    options = parser.parse_args()
    if options.peer:
        import torch
    else:
        import strata as torch
    nn, F, func = torch.nn, torch.nn.functional, torch.func
    for batch, width in ((16, 64), (64, 128), (256, 256)):
        model = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
        )
        model = model.to(options.device)
        params = {k: v.detach() for k, v in model.named_parameters()}
        x = torch.randn(batch, width, device=options.device)
        y = torch.randint(0, 10, (batch,), device=options.device)

        def loss(p, sample, target, model=model):
            return F.cross_entropy(func.functional_call(model, p, (sample.unsqueeze(0),)), target.unsqueeze(0))

        def batched(params=params, x=x, y=y, loss=loss):
            return func.vmap(func.grad(loss), in_dims=(None, 0, 0))(params, x, y)

        def one_by_one(params=params, x=x, y=y, loss=loss):
            return [func.grad(loss)(params, a, b) for a, b in zip(x, y, strict=False)]

        times = []
        for run, repeats in ((batched, 20), (one_by_one, 3)):
            run()
            best = float("inf")
            for _ in range(repeats):
                start = time.perf_counter()
                result = run()
                if options.device != "cpu":
                    torch.cuda.synchronize()
                best = min(best, time.perf_counter() - start)
            times.append(best)
            del result
        print(
            f"batch {batch:4}, width {width:4}: vmap {times[0] * 1e3:8.2f} ms, one by one {times[1] * 1e3:8.2f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
