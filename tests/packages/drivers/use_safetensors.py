"""safetensors: its own reader and writer with tensors of every dtype."""

import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

tensors = {
    str(dtype): torch.arange(6).reshape(2, 3).to(dtype)
    for dtype in (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
}
with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/a.safetensors"
    save_file(tensors, path, metadata={"from": "strata"})
    back = load_file(path)
    for name, value in tensors.items():
        assert back[name].dtype == value.dtype and torch.equal(back[name], value), name
    with safe_open(path, framework="pt", device="cpu") as file:
        assert file.metadata() == {"from": "strata"} and set(file.keys()) == set(tensors)
        assert file.get_slice("torch.float32")[:, 1:].tolist() == [[1.0, 2.0], [4.0, 5.0]]
    one, two = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    save_model(one, path)
    load_model(two, path)
    assert torch.equal(one.weight, two.weight)
assert torch.equal(load(save({"x": torch.ones(2)}))["x"], torch.ones(2))
