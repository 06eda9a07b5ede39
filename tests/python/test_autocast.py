"""autocast: scopes, the cache of casts, threads, forms that are not cast, layers, reports."""

import threading
import warnings

import numpy as np
import pytest
import strata

F = strata.nn.functional


@pytest.fixture(params=["cpu", "vgpu"])
def device(request):
    return request.param


@pytest.fixture(autouse=True)
def state_is_restored():
    yield
    for kind, dtype in (("cpu", strata.bfloat16), ("vgpu", strata.float16), ("cuda", strata.float16)):
        assert not strata.is_autocast_enabled(kind)
        assert strata.get_autocast_dtype(kind) is dtype
    assert strata.is_autocast_cache_enabled()
    assert strata.autocast_increment_nesting() == 1
    assert strata.autocast_decrement_nesting() == 0


def test_scopes_nest_and_can_be_switched_off(device):
    a = strata.randn(3, 3, device=device)
    with strata.autocast(device, dtype=strata.bfloat16):
        assert (a @ a).dtype is strata.bfloat16
        with strata.autocast(device, enabled=False):
            assert not strata.is_autocast_enabled(device)
            assert (a @ a).dtype is strata.float32
            with strata.autocast(device, dtype=strata.float16):
                assert (a @ a).dtype is strata.float16
        assert (a @ a).dtype is strata.bfloat16
    assert (a @ a).dtype is strata.float32


def test_a_scope_is_of_one_device_type():
    here, there = strata.randn(2, 2), strata.randn(2, 2, device="vgpu")
    with strata.autocast("vgpu"):
        assert (here @ here).dtype is strata.float32 and (there @ there).dtype is strata.float16
        with strata.autocast("cpu"):
            assert (here @ here).dtype is strata.bfloat16 and (there @ there).dtype is strata.float16


def test_one_object_can_be_entered_again_and_decorate_a_recursion():
    scope = strata.autocast("cpu")
    a = strata.randn(2, 2)
    with scope, scope:
        assert (a @ a).dtype is strata.bfloat16

    @scope
    def product(depth):
        return product(depth - 1) if depth else a @ a

    assert product(3).dtype is strata.bfloat16 and product.__name__ == "product"
    assert (a @ a).dtype is strata.float32


def test_an_exception_ends_the_scope():
    with pytest.raises(KeyError), strata.autocast("cpu"):
        raise KeyError
    assert not strata.is_autocast_enabled("cpu")
    with strata.autocast("cpu"), pytest.raises(RuntimeError):
        strata.mm(strata.ones(2, 3), strata.ones(2, 3))
    assert strata.exp(strata.ones(2)).dtype is strata.float32


def test_threads_have_their_own_state():
    a = strata.randn(2, 2)
    seen = []
    with strata.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((strata.is_autocast_enabled("cpu"), (a @ a).dtype)))
        thread.start()
        thread.join()
    assert seen == [(False, strata.float32)]


def test_backward_runs_without_autocast(device):
    seen = []

    class Watch(strata.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(strata.is_autocast_enabled(device))
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.append(strata.is_autocast_enabled(device))
            with strata.autocast(device):
                pass
            return g

    x = strata.ones(2, device=device, requires_grad=True)
    with strata.autocast(device):
        Watch.apply(x).sum().backward()
        assert strata.is_autocast_enabled(device)
    assert seen == [True, False]


def casts(model, x, device, **options):
    """The number of casts in two calls of a model inside one scope."""
    with strata.tracing() as t, strata.autocast(device, **options):
        model(x)
        model(x)
    return sum(e["layer"] == "op" and e["name"] == "to_copy" for e in t.events)


def test_weights_are_cast_once_per_scope(device):
    model = strata.nn.Linear(4, 4, device=device)
    x = strata.randn(2, 4, device=device)
    assert casts(model, x, device) == 4  # weight and bias once, the input twice
    assert casts(model, x, device, cache_enabled=False) == 6
    assert casts(model.requires_grad_(False), x, device) == 6


def test_a_write_inside_the_scope_is_seen(device):
    w = strata.nn.Parameter(strata.ones(2, 2, device=device))
    x = strata.ones(2, 2, device=device)
    with strata.autocast(device):
        assert (x @ w).tolist() == [[2, 2], [2, 2]]
        with strata.no_grad():
            w.fill_(3)
        assert (x @ w).tolist() == [[6, 6], [6, 6]]
        w.data = strata.zeros(2, 2, device=device)
        assert (x @ w).tolist() == [[0, 0], [0, 0]]


def test_a_cast_made_without_recording_carries_no_gradient_later(device):
    w = strata.nn.Parameter(strata.ones(2, 2, device=device))
    x = strata.ones(2, 2, device=device)
    with strata.autocast(device):
        with strata.no_grad():
            x @ w
        with strata.inference_mode():
            x @ w
        (x @ w).sum().backward()
    assert w.grad.tolist() == [[2, 2], [2, 2]] and w.grad.dtype is strata.float32


def test_the_cache_ends_with_the_outermost_scope_or_on_request():
    import gc
    import weakref

    w = strata.nn.Parameter(strata.ones(2, 2))
    alive = weakref.ref(w)
    with strata.autocast("cpu"):
        with strata.autocast("cpu"):
            w @ w
    del w
    gc.collect()
    assert alive() is None
    w = strata.nn.Parameter(strata.ones(2, 2))
    with strata.autocast("cpu"):
        w @ w
        strata.clear_autocast_cache()
        with strata.tracing() as t:
            w @ w
    assert any(e["name"] == "to_copy" for e in t.events)


def test_in_place_and_out_are_not_cast(device):
    a, b, out = (strata.ones(2, 2, device=device) for _ in range(3))
    low = strata.ones(2, 2, device=device, dtype=strata.bfloat16)
    with strata.autocast(device, dtype=strata.bfloat16):
        assert a.addmm_(b, b).dtype is strata.float32
        strata.mm(b, b, out=out)
        assert out.dtype is strata.float32
        assert low.exp_().dtype is strata.bfloat16
        with pytest.raises(RuntimeError):
            strata.mm(b, low, out=out)


def test_float64_and_integers_are_left_alone(device):
    wide, whole = strata.ones(2, 2, device=device, dtype=strata.float64), strata.ones(2, 2, device=device).long()
    with strata.autocast(device):
        assert (wide @ wide).dtype is strata.float64
        assert (whole @ whole).dtype is strata.int64
        assert strata.sum(whole).dtype is strata.int64


def test_a_dtype_that_the_user_gives_is_kept():
    x = strata.ones(4, device="vgpu", dtype=strata.float16)
    with strata.autocast("vgpu"):
        assert strata.sum(x).dtype is strata.float32
        assert strata.sum(x, dtype=strata.float16).dtype is strata.float16
        assert F.softmax(x, 0, dtype=strata.float64).dtype is strata.float64
        assert F.softmax(x.double(), 0).dtype is strata.float64


def test_binary_cross_entropy_is_refused_on_gpus():
    p, t = strata.full((3,), 0.5), strata.ones(3)
    with strata.autocast("cpu"):
        assert F.binary_cross_entropy(p.bfloat16(), t).dtype is strata.float32
    with strata.autocast("vgpu"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        F.binary_cross_entropy(p.to("vgpu"), t.to("vgpu"))


def test_promote_refuses_a_third_dtype():
    x = strata.ones(3, device="vgpu")
    with strata.autocast("vgpu"):
        assert strata.atan2(x.half(), x).dtype is strata.float32
        assert strata.atan2(x.half(), x.half()).dtype is strata.float16
        with pytest.raises(RuntimeError, match="found an argument of dtype bfloat16"):
            strata.atan2(x.half(), x.bfloat16())


@pytest.mark.parametrize("kind", ["cpu", "vgpu"])
def test_layers_with_state_train(kind):
    """Batch norm keeps its statistics in float32, recurrent layers take states of any dtype."""
    strata.manual_seed(0)
    images = strata.randn(2, 3, 6, 6, device=kind)
    net = strata.nn.Sequential(strata.nn.Conv2d(3, 4, 3), strata.nn.BatchNorm2d(4), strata.nn.ReLU()).to(kind)
    with strata.autocast(kind, dtype=strata.bfloat16):
        out = net(images)
    assert out.dtype is strata.bfloat16
    out.float().sum().backward()
    assert all(p.grad.dtype is strata.float32 for p in net.parameters())
    assert net[1].running_mean.dtype is strata.float32
    words = strata.randn(5, 2, 3, device=kind)
    for layer in (strata.nn.LSTM, strata.nn.GRU, strata.nn.RNN):
        model = layer(3, 4).to(kind)
        want = model(words)[0]
        with strata.autocast(kind, dtype=strata.bfloat16):
            got = model(words)[0]
        np.testing.assert_allclose(got.float().cpu().detach(), want.cpu().detach(), atol=0.03)
        got.float().sum().backward()
    for cell in (strata.nn.LSTMCell, strata.nn.GRUCell, strata.nn.RNNCell):
        with strata.autocast(kind, dtype=strata.bfloat16):
            cell(3, 4).to(kind)(words[0])
    attention = strata.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).to(kind)
    with strata.autocast(kind, dtype=strata.bfloat16):
        out = attention(strata.randn(2, 5, 8, device=kind))
    out.float().sum().backward()
    assert all(p.grad is not None for p in attention.parameters())


def test_checkpointing_recomputes_in_the_same_dtypes(device):
    seen = []
    layer = strata.nn.Linear(3, 3, device=device)

    def part(x):
        out = layer(x)
        seen.append(out.dtype)
        return out

    x = strata.randn(2, 3, device=device, requires_grad=True)
    with strata.autocast(device, dtype=strata.bfloat16):
        out = strata.utils.checkpoint.checkpoint(part, x)
    out.float().sum().backward()
    assert seen == [strata.bfloat16, strata.bfloat16] and layer.weight.grad is not None


def test_custom_functions_take_the_state_of_their_forward(device):
    seen = []

    class Product(strata.autograd.Function):
        @staticmethod
        @strata.amp.custom_fwd(device_type=device)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @strata.amp.custom_bwd(device_type=device)
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            seen.append((strata.is_autocast_enabled(device), (a @ b).dtype))
            return g.float() @ b.T.float(), a.T.float() @ g.float()

    a = strata.ones(2, 2, device=device, requires_grad=True)
    with strata.autocast(device, dtype=strata.bfloat16):
        out = Product.apply(a, a)
    assert out.dtype is strata.bfloat16
    out.sum().backward()
    assert seen == [(True, strata.bfloat16)]

    class Wide(strata.autograd.Function):
        @staticmethod
        @strata.amp.custom_fwd(device_type=device, cast_inputs=strata.float32)
        def forward(ctx, items, scale):
            seen.append((strata.is_autocast_enabled(device), items[0].dtype))
            return items[0] * scale

    with strata.autocast(device, dtype=strata.bfloat16):
        Wide.apply([a.detach().bfloat16()], 2.0)
    assert seen[-1] == (False, strata.float32)
    Wide.apply([a.detach().bfloat16()], 2.0)
    assert seen[-1] == (False, strata.bfloat16)


def test_arguments_are_checked():
    for wrong in (3, None, strata.device("cpu")):
        with pytest.raises(ValueError, match="device_type"):
            strata.autocast(wrong)
    for unknown in ("meta", "mps"):
        with pytest.raises(RuntimeError, match="unsupported autocast device_type"):
            strata.autocast(unknown)
    with pytest.raises(RuntimeError):
        strata.autocast("abacus")
    for wrong in (3, "bfloat16"):
        with pytest.raises(TypeError, match="dtype must be a strata.dtype"):
            strata.autocast("cpu", dtype=wrong)
    for dtype in (strata.float32, strata.int8):
        with pytest.warns(UserWarning, match="target dtype is not supported"):
            scope = strata.autocast("cpu", dtype=dtype)
        with scope:
            assert not strata.is_autocast_enabled("cpu")
    with pytest.raises(TypeError, match="requires a callable"):
        strata.autocast("cpu")(3)
    with pytest.raises(TypeError):
        strata.set_autocast_dtype("cpu", 3)
    with pytest.raises(TypeError, match="must be bool"):
        strata.set_autocast_enabled("cpu", 1)
    with pytest.raises(RuntimeError):
        strata.is_autocast_enabled("meta")
    assert strata.amp.is_autocast_available("vgpu") and not strata.amp.is_autocast_available("meta")
    if not strata.cuda.is_available():
        with pytest.warns(UserWarning, match="CUDA is not available"):
            assert not strata.autocast("cuda")._enabled


def test_older_names_warn():
    for call, value in (
        (strata.is_autocast_cpu_enabled, False),
        (strata.get_autocast_gpu_dtype, strata.float16),
        (strata.get_autocast_cpu_dtype, strata.bfloat16),
        (lambda: strata.set_autocast_gpu_dtype(strata.float16), None),
        (lambda: strata.set_autocast_cpu_dtype(strata.bfloat16), None),
        (lambda: strata.set_autocast_cpu_enabled(False), None),
    ):
        with pytest.warns(DeprecationWarning, match="deprecated"):
            assert call() is value
    with pytest.warns(FutureWarning, match="deprecated"):
        scope = strata.cpu.amp.autocast()
    with scope:
        assert strata.get_autocast_dtype("cpu") is strata.bfloat16 and strata.is_autocast_enabled("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert strata.cuda.amp.autocast(enabled=False).fast_dtype is strata.float16
        assert isinstance(strata.cpu.amp.GradScaler(), strata.amp.GradScaler)


class _Branches(strata.nn.Module):
    """Calls its second layer only, or not, in float32."""

    def __init__(self, when):
        super().__init__()
        self.first, self.second, self.when = strata.nn.Linear(3, 3), strata.nn.Linear(3, 3), when

    def forward(self, x):
        y = self.first(x)
        return self.second(y) if (y.dtype == strata.float32) == self.when else y


@pytest.mark.parametrize("when, text", [(True, "does not call second"), (False, "calls second where")])
def test_a_report_of_a_model_that_branches_on_the_dtype(when, text):
    with pytest.raises(ValueError, match=text):
        strata.amp.report(_Branches(when), strata.ones(2, 3))


def test_a_report_of_layers_that_write_their_input():
    strata.manual_seed(0)
    linear = strata.nn.Linear(4, 4)
    x = strata.ones(2, 4)
    errors = []
    for inplace in (False, True):
        net = strata.nn.Sequential(strata.nn.SiLU(inplace=inplace), linear, strata.nn.SiLU(inplace=inplace), linear)
        errors.append([(row.error, row.accumulated) for row in strata.amp.report(net, x).rows])
    assert errors[0] == errors[1] and x.tolist() == strata.ones(2, 4).tolist()


def test_casts_are_not_kept_while_a_graph_is_captured():
    w, x = strata.ones(8, 8, device="vgpu", requires_grad=True), strata.ones(8, 8, device="vgpu")
    with strata.no_grad(), strata.autocast("vgpu", dtype=strata.bfloat16):
        strata.mm(x, w)  # kept, before the capture
        graph = strata.vgpu.CUDAGraph()
        with strata.vgpu.graph(graph):
            y = strata.mm(x, w)
        w.fill_(3)
        assert strata.mm(x, w)[0, 0].item() == 24  # nothing of the capture is used here
    for value in (1, 2):
        w.data.fill_(value)
        graph.replay()
        assert y[0, 0].item() == 8 * value


def test_the_dtype_of_a_scope_is_a_floating_one():
    with pytest.raises(TypeError, match="floating-point"):
        strata.set_autocast_dtype("cpu", strata.int32)


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("kwargs", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}])
def test_recurrent_layers_take_the_results_of_other_layers(device, layer, kwargs):
    strata.manual_seed(0)
    net = strata.nn.Sequential(strata.nn.Linear(6, 4), getattr(strata.nn, layer)(4, 5, **kwargs)).to(device)
    x = strata.randn(3, 7, 6).to(device)
    want = net(x)[0]
    with strata.autocast(device, dtype=strata.bfloat16):
        got, state = net(x)
    assert got.dtype is strata.bfloat16
    assert (got.float() - want).abs().max().item() < 0.05
    got.float().square().sum().backward()
    assert all(p.grad is not None and p.grad.dtype is strata.float32 for p in net.parameters())
    with pytest.raises(ValueError, match="does not match weight dtype"):
        net[1](x[..., :4].bfloat16())
    packed = strata.nn.utils.rnn.pack_padded_sequence(x, strata.tensor([3, 2, 2, 2, 1, 1, 1]))
    with strata.autocast(device, dtype=strata.bfloat16):
        low = strata.nn.utils.rnn.PackedSequence(net[0](packed.data), *packed[1:])
        assert net[1](low)[0].data.dtype is strata.bfloat16


@pytest.mark.parametrize("dtype", [strata.float16, strata.bfloat16])
def test_transforms_of_16_bit_tensors_are_in_float32_on_the_cpu(dtype):
    x = strata.randn(4, 8).to(dtype)
    z = x.float()
    window = strata.hann_window(8)
    calls = [getattr(strata.fft, name) for name in ("fft", "ifft", "rfft", "hfft", "ihfft", "fft2", "ifftn", "rfft2")]
    calls += [
        lambda t: strata.stft(t, 8, window=window, return_complex=True),
        lambda t: strata.polar(t, t),
        lambda t: strata.view_as_complex(t[:, :2].contiguous()),
        strata.trace,
        lambda t: strata.linalg.matrix_sqrth((t[:, :4] * 0 + strata.eye(4)).to(t.dtype)),
    ]
    for call in calls:
        with strata.autocast("cpu"):
            got = call(x)
        assert strata.equal(got, call(z)), call


@pytest.mark.parametrize("dtype", [strata.bfloat16, strata.float16])
def test_gradients_per_sample(device, dtype):
    strata.manual_seed(0)
    net = strata.nn.Sequential(strata.nn.Linear(8, 16), strata.nn.GELU(), strata.nn.Linear(16, 4)).to(device)
    params, x = dict(net.named_parameters()), strata.randn(5, 8).to(device)

    def loss(params, sample):
        with strata.autocast(device, dtype=dtype):
            y = strata.func.functional_call(net, params, (sample[None],))
        assert y.dtype is dtype
        return y.float().square().sum()

    got = strata.func.vmap(strata.func.grad(loss), in_dims=(None, 0))(params, x)
    for name, parameter in params.items():
        assert got[name].dtype is strata.float32
        for i in range(5):
            want = strata.autograd.grad(loss(params, x[i]), parameter)[0]
            assert strata.allclose(got[name][i], want, rtol=3e-2, atol=3e-2), name
    # gradients of the gradients pass through the casts too
    penalty = strata.func.grad(lambda p: sum(g.square().sum() for g in strata.func.grad(loss)(p, x[0]).values()))(
        params
    )
    assert all(g.isfinite().all().item() for g in penalty.values())
    twice = strata.func.vmap(
        strata.func.grad(lambda p, s: strata.func.grad(loss, argnums=1)(p, s).square().sum()), in_dims=(None, 0)
    )
    for name, gradient in twice(params, x).items():
        want = strata.func.grad(lambda p: strata.func.grad(loss, argnums=1)(p, x[0]).square().sum())(params)[name]
        error, size = (gradient[0] - want).norm().item(), want.norm().item()
        assert error <= 0.05 * size + 1e-4, (name, error, size)


@pytest.mark.parametrize("norm", ["parametrizations", "older"])
@pytest.mark.parametrize("layer", ["Linear", "Conv2d", "ConvTranspose1d"])
def test_spectral_norm(device, norm, layer):
    strata.manual_seed(0)
    make = strata.nn.utils.parametrizations.spectral_norm
    if norm == "older":
        make = strata.nn.utils.spectral_norm
    arguments, shape = {
        "Linear": ((6, 4), (3, 6)),
        "Conv2d": ((2, 4, 3), (1, 2, 5, 5)),
        "ConvTranspose1d": ((2, 4, 3), (1, 2, 5)),
    }[layer]
    module = make(getattr(strata.nn, layer)(*arguments).to(device))
    assert all(b.device.type == device for b in module.buffers())
    x = strata.randn(*shape).to(device)
    with strata.autocast(device, dtype=strata.bfloat16):
        y = module(x)
        y.float().sum().backward()
    assert y.dtype is strata.bfloat16
    rows = module.weight.movedim(1 if "Transpose" in layer else 0, 0).flatten(1)
    assert abs(strata.linalg.matrix_norm(rows.detach().cpu().float(), 2).item() - 1) < 0.05
    assert all(p.grad is not None for p in module.parameters())
