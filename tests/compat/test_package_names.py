"""Names and answers that widely used packages expect of torch: each was missing when a package was run unmodified."""

import collections
import subprocess
import sys
import textwrap

import pytest
import strata
from strata import nn


def run(code):
    """What a program prints that is run with Strata as torch."""
    command = [sys.executable, "-W", "ignore", "-m", "strata.torch", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_the_version_of_torch_is_in_its_metadata():
    lines = run("""
        import importlib.metadata, torch
        print(importlib.metadata.version("torch") == torch.__version__, importlib.metadata.version("Torch") == torch.__version__)
        print(torch.torch is torch, torch.torch.Tensor is torch.Tensor)
        """)
    assert lines == "True True\nTrue True"


def test_an_installed_torchvision_is_used(tmp_path):
    package = tmp_path / "torchvision"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("import torch\nanswer = torch.ones(2).sum().item()\n")
    (package / "models" / "__init__.py").write_text("")
    for place in ("insert(0, ", "append("):  # before and after the stand-in
        code = f"import sys; sys.path.{place}{str(tmp_path)!r}); import torchvision, torchvision.models"
        assert run(code + "; print(torchvision.answer)") == "2.0"
    assert (
        run("import torchvision; print(torchvision.__name__, torchvision.ops.nms is not None)") == "strata.vision True"
    )


def test_questions_about_devices_and_modes_are_answered():
    lines = run("""
        import torch, torch._C._functorch, torch.onnx.symbolic_helper, torch._dynamo.utils
        print(torch.xpu.is_available(), torch.mtia.is_available(), torch.xpu.device_count(), torch.mps.device_count())
        print(torch.onnx.is_in_onnx_export(), torch._C._get_tracing_state(), torch._C._functorch.is_batchedtensor(torch.ones(1)))
        print(torch.cuda.is_bf16_supported(), torch.cuda.get_rng_state_all(), isinstance(torch.nn.Linear(1, 1), torch._dynamo.OptimizedModule))
        print(torch._C._nn._parse_to("cpu", torch.float64), torch._dynamo.utils.is_compile_supported("cuda"))
        print(hasattr(torch.ops.some_package, "f"), torch.ops.aten.add.Tensor(torch.ones(2), 1).tolist())
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU) | torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
            with torch._C._ExcludeDispatchKeyGuard(keys):
                print(a, (torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
        """)
    assert lines.splitlines() == [
        "False False 0 0",
        "False None False",
        "False [] False",
        "(device(type='cpu'), torch.float64, False, None) False",
        "False [2.0, 2.0]",
        "torch.bfloat16 torch.float32",
    ]


def test_files_of_torch_that_packages_import_from():
    imports = """
        from torch.distributions.utils import _standard_normal, _sum_rightmost, broadcast_all
        from torch.hub import _get_torch_home, tqdm
        from torch.utils.model_zoo import tqdm as same
        from torch.jit import _overload, _overload_method, _script_if_tracing
        from torch.jit.annotations import BroadcastingList2
        from torch._jit_internal import _copy_to_script_wrapper
        from torch.nn.modules.module import _IncompatibleKeys, _EXTRA_STATE_KEY_SUFFIX
        from torch.nn.modules.transformer import _get_activation_fn, _get_clones
        from torch.nn.parallel.scatter_gather import gather, scatter
        from torch.nn.parameter import UninitializedTensorMixin
        from torch.nn.utils.stateless import functional_call
        from torch.optim.optimizer import ParamsT, _use_grad_for_differentiable, required
        from torch.profiler.profiler import kineto_available
        from torch.autograd.profiler import EventList
        from torch.multiprocessing.spawn import ProcessRaisedException
        from torch.multiprocessing import start_processes
        from torch.serialization import FILE_LIKE, MAP_LOCATION
        from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter
        from torch.futures import Future
        from torch._tensor_str import printoptions
        import torch._custom_ops, torch._guards, torch._subclasses.fake_tensor, torch.utils.flop_counter
        def f(x: BroadcastingList2[int], y: "Future[int]", z: Future[int]): pass
        """
    assert run(textwrap.dedent(imports) + "print('all')") == "all"


def test_lists_of_tensors():
    x, y = [strata.ones(2), strata.zeros(3)], [strata.full((2,), 2.0), strata.ones(3)]
    assert [t.tolist() for t in strata._foreach_add(x, y)] == [[3, 3], [1, 1, 1]]
    assert strata._foreach_mul_(x, 3) is None and x[0].tolist() == [3, 3]
    strata._foreach_addcdiv_(x, y, y, [1.0, 2.0])
    assert x[0].tolist() == [4, 4] and x[1].tolist() == [2, 2, 2]
    strata._foreach_lerp_(x, y, 0.5)
    assert x[0].tolist() == [3, 3]
    assert [n.item() for n in strata._foreach_norm(y)] == pytest.approx([8**0.5, 3**0.5])
    strata._foreach_zero_(x)
    assert x[1].tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="found 2 tensors and a list of 1"):
        strata._foreach_add(x, [strata.ones(2)])
    with pytest.raises(AttributeError):
        strata._foreach_zork  # noqa: B018


def test_checks():
    strata._check(True)
    with pytest.raises(RuntimeError, match="the message"):
        strata._check(False, lambda: "the message")
    with pytest.raises(ValueError, match="Expected cond"):
        strata._check_value(False)
    with pytest.raises(TypeError, match="must be a callable"):
        strata._check(False, "text")
    with pytest.raises(RuntimeError, match="nonzero"):
        strata._assert_async(strata.zeros(1))
    assert strata._shape_as_tensor(strata.ones(2, 3)).tolist() == [2, 3]
    x = strata.randn(3, 4, dtype=strata.float64, requires_grad=True)
    y = x.softmax(1)
    g = strata.randn(3, 4, dtype=strata.float64)
    (want,) = strata.autograd.grad(y, x, g)
    strata.testing.assert_close(strata._softmax_backward_data(g, y.detach(), 1, strata.float64), want)


def test_trees_have_paths():
    from strata.utils import _pytree as tree

    point = collections.namedtuple("point", "x y")
    made = {"a": [1, (2, 3)], "b": point(4, {"c": 5})}
    found, spec = tree.tree_flatten_with_path(made)
    assert [(tree.keystr(path), leaf) for path, leaf in found] == [
        ("['a'][0]", 1),
        ("['a'][1][0]", 2),
        ("['a'][1][1]", 3),
        ("['b'].x", 4),
        ("['b'].y['c']", 5),
    ]
    assert tree.tree_unflatten([leaf for _, leaf in found], spec) == made
    assert all(tree.key_get(made, path) == leaf for path, leaf in found)
    assert tree.tree_map_with_path(lambda path, x, y: (len(path), x + y), [1, [2]], [3, [4]]) == [(1, 4), [(2, 6)]]
    kind = tree._get_node_type(point(1, 2))
    children, context = tree.SUPPORTED_NODES[kind].flatten_fn(point(1, 2))
    assert tree.SUPPORTED_NODES[kind].unflatten_fn(children, context) == point(1, 2)
    assert tree.tree_is_leaf(3) and not tree.tree_is_leaf([])

    class Pair:
        pass

    tree.register_pytree_node(Pair, lambda p: ([1], None), lambda c, _: Pair())
    with pytest.raises(ValueError, match="flatten_with_keys_fn"):
        tree.tree_flatten_with_path(Pair())
    del tree.SUPPORTED_NODES[Pair]


def test_methods_of_pruning_are_classes():
    from strata.nn.utils import prune

    layer = nn.Linear(4, 2)
    assert issubclass(prune.LnStructured, prune.BasePruningMethod)
    prune.LnStructured.apply(layer, "weight", amount=1, n=2, dim=0)
    assert sorted(layer.weight_mask.sum(1).tolist()) == [0, 4]
    other = nn.Linear(4, 2)
    prune.global_unstructured([(layer, "weight"), (other, "weight")], prune.L1Unstructured, amount=4)
    assert (layer.weight_mask.sum() + other.weight_mask.sum()).item() == 8
    mask = prune.RandomUnstructured(0.5).compute_mask(strata.ones(4, 2), strata.ones(4, 2))
    assert mask.sum().item() == 4
    assert prune.CustomFromMask(strata.tensor([1, 0])).prune(strata.ones(2)).tolist() == [1, 0]
    with pytest.raises(TypeError, match="unstructured"):
        prune.global_unstructured([(other, "weight")], prune.RandomStructured, amount=1)


def test_distances_of_classes_that_count_others_as_subclasses():
    import strata.distributions as D

    class Meta(type):
        def __subclasscheck__(cls, kind):
            return issubclass(kind, D.Distribution) or super().__subclasscheck__(kind)

    class Mine(metaclass=Meta):
        pass

    from strata.distributions import kl

    D.register_kl(Mine, Mine)(lambda p, q: strata.tensor(7.0))
    try:
        one, two = D.Normal(0.0, 1.0), D.Normal(0.0, 2.0)
        assert D.kl_divergence(one, two).item() != 7  # the pair of exact classes is nearer
        assert D.kl_divergence(D.Cauchy(0.0, 1.0), D.StudentT(1.0)).item() == 7
    finally:
        del kl._REGISTRY[Mine, Mine]
        kl._FOUND.clear()


def test_one_pass_over_a_loader_as_an_object():
    from strata.utils.data import DataLoader
    from strata.utils.data.dataloader import _SingleProcessDataLoaderIter

    passes = _SingleProcessDataLoaderIter(DataLoader(list(range(5)), batch_size=2))
    assert len(passes) == 3 and [b.tolist() for b in passes] == [[0, 1], [2, 3], [4]]


def test_storages_of_files_are_shared(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(16)))
    stored = strata.UntypedStorage.from_file(str(path), shared=False, nbytes=16)
    part = stored[4:12]
    assert stored.untyped() is stored and len(part) == 8 and part.tolist() == list(range(4, 12))
    x = strata.asarray(part, dtype=strata.uint8).view(strata.int32)
    assert x.tolist() == [0x07060504, 0x0B0A0908] and x.data_ptr() == part.data_ptr()
    x[0] = 0
    assert part[0] == 0 and path.read_bytes()[4] == 4  # the file stays
    shared = strata.UntypedStorage.from_file(str(path), shared=True, nbytes=20)
    shared[19] = 7
    assert path.read_bytes()[19] == 7 and len(strata.UntypedStorage.from_file(str(path), False, 0)) == 0


def test_asarray_shares_what_dlpack_shows():
    class Owner:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **options):
            return self.tensor.__dlpack__(**options)

    x = strata.zeros(3)
    strata.asarray(Owner(x))[1] = 5
    assert x.tolist() == [0, 5, 0] and strata.asarray(Owner(x), dtype=strata.int64).dtype is strata.int64


def test_numpy_without_grad_mode():
    x = strata.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()
    with strata.no_grad():
        assert x.numpy().tolist() == [1, 1]


def test_functions_take_attributes():
    import copy

    strata.relu.some_mark = 3
    try:
        assert strata.relu.some_mark == 3 and copy.deepcopy(strata.relu) is strata.relu
        assert strata.relu.__dict__ == {"some_mark": 3} and not hasattr(strata.tanh, "some_mark")
    finally:
        del strata.relu.some_mark


def test_hooks_and_arguments_of_loading_have_torchs_names():
    class Layer(nn.Linear):
        def _load_from_state_dict(self, *args, **kwargs):
            names = (
                "state_dict",
                "prefix",
                "local_metadata",
                "strict",
                "missing_keys",
                "unexpected_keys",
                "error_msgs",
            )
            super()._load_from_state_dict(**dict(zip(names, args, strict=True)), **kwargs)

    seen = []
    layer = Layer(2, 2)
    layer._register_load_state_dict_pre_hook(
        lambda state, prefix, *rest: seen.append((sorted(state), prefix, len(rest)))
    )
    layer._register_load_state_dict_pre_hook(lambda module, *args: seen.append(module is layer), with_module=True)
    layer.load_state_dict(nn.Linear(2, 2).state_dict())
    assert seen == [(["bias", "weight"], "", 5), True]


def test_type_hints_of_modules():
    import typing

    assert typing.get_type_hints(nn.CrossEntropyLoss())["training"] is bool


def test_a_normal_distribution_may_compute_its_factor_late():
    import strata.distributions as D

    class Late(D.MultivariateNormal):
        def __init__(self, loc, covariance):
            self.loc, self._covariance = loc, covariance
            D.Distribution.__init__(self, loc.shape[:-1], loc.shape[-1:], validate_args=False)

        @property
        def _unbroadcasted_scale_tril(self):
            return strata.linalg.cholesky(self._covariance)

    loc, covariance, x = strata.zeros(2), strata.tensor([[2.0, 0.5], [0.5, 1.0]]), strata.tensor([0.3, -1.0])
    want = D.MultivariateNormal(loc, covariance).log_prob(x)
    strata.testing.assert_close(Late(loc, covariance).log_prob(x), want)


def test_sobol_points():
    SobolEngine = strata.quasirandom.SobolEngine

    engine = SobolEngine(5)
    want = [
        [0, 0, 0, 0, 0],
        [4, 4, 4, 4, 4],
        [6, 2, 2, 2, 6],
        [2, 6, 6, 6, 2],
        [3, 3, 5, 7, 3],
        [7, 7, 1, 3, 7],
        [5, 1, 7, 5, 5],
    ]
    assert (engine.draw(7) * 8).tolist() == want  # PyTorch's
    assert engine.reset().draw(2).tolist() + engine.draw(1).tolist() == (strata.tensor(want[:3]) / 8).tolist()
    far = SobolEngine(200).fast_forward(37).draw(2)[:, 150:154]
    strata.testing.assert_close(
        far, strata.tensor([[0.890625, 0.546875, 0.234375, 0.859375], [0.140625, 0.796875, 0.984375, 0.609375]])
    )
    for options in (dict(), dict(scramble=True, seed=3)):
        points = SobolEngine(6, **options).draw_base2(8, dtype=strata.float64)
        for column in points.T:  # one point in each of 256 intervals
            assert sorted((column * 256).long().tolist()) == list(range(256))
    one, two = (SobolEngine(3, scramble=True, seed=s).draw(4) for s in (1, 1))
    assert strata.equal(one, two) and not strata.equal(one, SobolEngine(3, scramble=True, seed=2).draw(4))
    with pytest.raises(ValueError, match="supported range"):
        SobolEngine(SobolEngine.MAXDIM + 1)
    with pytest.raises(ValueError, match="not a power of 2"):
        SobolEngine(1).fast_forward(3).draw_base2(1)


def test_autocast_of_devices_that_are_not_there():
    assert not any(strata.is_autocast_enabled(kind) for kind in ("mps", "xpu"))
    with pytest.raises(RuntimeError, match="invalid device 'zork'"):
        strata.is_autocast_enabled("zork")


def test_the_method_as_subclass_may_be_replaced(monkeypatch):
    class Mine(strata.Tensor):
        pass

    monkeypatch.setattr(strata.Tensor, "as_subclass", lambda self, kind: strata.as_subclass(self, kind))
    assert type(strata.ones(1).as_subclass(Mine)) is Mine


def test_erfcx():
    x = strata.tensor([-26.0, -1.0, 0.0, 0.5, 10.0, 19.9, 20.1, 1e3, 1e200, float("inf")], dtype=strata.float64)
    want = [  # SciPy's
        7.657724931490568e293, 5.008980080762283, 1.0, 0.6156903441929258, 0.05614099274382259, 0.028315573983185766,
        0.028034523526966875, 0.0005641893014533876, 5.641895835477563e-201, 0.0,
    ]  # fmt: skip
    strata.testing.assert_close(strata.special.erfcx(x), strata.tensor(want, dtype=strata.float64), rtol=1e-11, atol=0)
    assert strata.special.erfcx(strata.tensor([1, 2])).dtype is strata.float32
