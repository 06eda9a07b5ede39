"""What notebooks show: tensors, modules, traces, explanations."""

import random
import re

import pytest
import strata
from html_page import Page
from strata import nn

EVIL = "<script>alert(1)</script>"


def cells(text):
    return [re.sub("<.*?>", "", row).strip() for row in re.findall(r"<td.*?</td>", text)]


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_tensors_as_tables(device):
    page = strata.tensor([[1.5, float("nan")], [-2.0, 3.25]], device=device)._repr_html_()
    assert cells(page) == ["1.5", "nan", "-2", "3.25"] and "float32 · [2, 2]" in page and device in page
    assert cells(strata.arange(3, device=device)._repr_html_()) == ["0", "1", "2"]
    large = strata.arange(40000.0, device=device).reshape(200, 200)._repr_html_()
    assert (
        cells(large)[:7] == ["0", "1", "2", "3", "4", "5", "…"]
        and cells(large)[-1] == "39999"
        and "[200, 200]" in large
    )
    long = strata.arange(5000, device=device)._repr_html_()
    assert cells(long) == ["0", "1", "2", "3", "4", "5", "…", "4994", "4995", "4996", "4997", "4998", "4999"]


def test_tensors_of_every_kind():
    chooser = random.Random(random.SystemRandom().getrandbits(32))
    for dtype in (
        strata.bool,
        strata.uint8,
        strata.int64,
        strata.float16,
        strata.bfloat16,
        strata.complex64,
        strata.float8_e4m3fn,
    ):
        for _ in range(6):
            shape = [chooser.choice([0, 1, 2, 13, 30]) for _ in range(chooser.randrange(4))]
            t = strata.ones(*shape).to(dtype) if shape else strata.ones(()).to(dtype)
            page = t._repr_html_()
            assert str(list(shape)) in page and "script" not in Page(page).tags
            if len(shape) == 2:
                page = t.t()._repr_html_()
                assert str(shape[::-1]) in page
    assert "requires a gradient" in strata.ones(3, requires_grad=True)._repr_html_()
    assert "grad_fn" in (strata.ones(3, requires_grad=True) * 2)._repr_html_()
    assert "meta" in strata.ones(2, 2, device="meta")._repr_html_()
    assert "<pre>" in strata.ones(2, 2).to_sparse()._repr_html_()
    assert nn.Parameter(strata.ones(2, 2))._repr_html_()


def test_a_module_is_a_tree_with_its_parameters():
    inner = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    net = nn.Sequential(inner, nn.ReLU())
    net.add_module(EVIL, nn.Linear(4, 2, bias=False))
    page = net._repr_html_()
    seen = Page(page)
    assert "script" not in seen.tags and EVIL in seen.text
    assert seen.tags.count("details") == 5 and page.startswith("<details open>") and page.count("<details open>") == 1
    assert "32 parameters" in seen.text and "in_features=3, out_features=4" in seen.text and "ReLU() " not in seen.text
    assert "weight float32 · [4, 3] · cpu" in seen.text and "running_mean" in seen.text and "no parameters" in seen.text
    shared = nn.Linear(3, 3)
    assert "12 parameters" in Page(nn.Sequential(shared, shared)._repr_html_()).text.split("0:")[0]


def test_lazy_modules_and_custom_ones():
    assert "LazyLinear" in nn.LazyLinear(3)._repr_html_()

    class Odd(nn.Module):
        def extra_repr(self):
            return EVIL

    assert "script" not in Page(Odd()._repr_html_()).tags


def test_traces_and_explanations():
    x = strata.ones(3)
    with strata.tracing() as t:
        x + x
    for shown in (t, strata.explain(lambda: x + x), strata.explain_layers(nn.Linear(3, 2), x)):
        assert "add" in shown._repr_html_() or "linear" in shown._repr_html_().lower()
