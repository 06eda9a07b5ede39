"""Imports of PyTorch's names under the alias: none fails, and what Strata lacks raises when it is called."""

import pathlib
import subprocess
import sys
import textwrap

import pytest


def run(code):
    command = [sys.executable, "-W", "ignore", "-m", "strata.torch", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_listed_file_can_be_imported():
    out = run(
        """
        import importlib
        from strata.torch._files import FILES
        for name in sorted(FILES):
            assert importlib.import_module(name).__name__ == name, name
        print(len(FILES) > 100)
        """
    )
    assert out == "True\n"


def test_every_listed_name_can_be_imported_and_says_what_it_is():
    out = run(
        """
        import importlib
        from strata.torch._missing import MissingType
        from strata.torch._names import ABSENT
        stand_ins = 0
        for module, names in ABSENT.items():
            found = importlib.import_module(module)
            for name in names.split():
                value = getattr(found, name)
                if isinstance(value, MissingType):
                    stand_ins += 1
                    try:
                        value()
                    except NotImplementedError as error:
                        assert name in str(error), (module, name)
                    else:
                        raise AssertionError((module, name))
        print(stand_ins > 500)
        """
    )
    assert out == "True\n"


IMPORTS = """
from torch.nn.utils.clip_grad import clip_grad_norm_, clip_grad_value_
from torch.nn.utils.convert_parameters import parameters_to_vector
from torch.nn.utils.weight_norm import WeightNorm
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.modules.pooling import _AdaptiveAvgPoolNd, _MaxPoolNd
from torch.nn.modules.rnn import RNNCellBase
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present
from torch.nn.common_types import _size_2_t, _ratio_2_t
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge, register_multi_grad_hook
from torch.autograd.function import FunctionCtx, InplaceFunction
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary
from torch.utils.collect_env import get_pretty_env_info
from torch.utils.deterministic import fill_uninitialized_memory
from torch.utils.data._utils.collate import collate, default_collate_fn_map
from torch.utils.benchmark import Compare, Timer
from torch.utils.flop_counter import FlopCounterMode
from torch.cuda import OutOfMemoryError
from torch.cuda.memory import memory_allocated
from torch.cuda.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from torch.cuda.amp.grad_scaler import GradScaler
from torch.backends.cuda import SDPAParams, can_use_flash_attention
from torch.masked.maskedtensor.core import MaskedTensor
from torch.multiprocessing import ProcessExitedException, SpawnContext
from torch.signal.windows import gaussian, kaiser
from torch.ao.quantization import MovingAveragePerChannelMinMaxObserver
from torch.testing import FileCheck, make_tensor
from torch.torch_version import TorchVersion
from torch.__future__ import set_overwrite_module_params_on_conversion
""".strip().splitlines()


def test_imports_of_widely_used_names():
    assert run("\n".join([*IMPORTS, "print('all')"])) == "all\n"


def test_questions_that_packages_ask_of_every_tensor_are_answered():
    """huggingface_hub asks the first of each tensor that it saves, and has another way only if it cannot be imported."""
    out = run(
        """
        import torch
        from torch.utils._python_dispatch import is_traceable_wrapper_subclass
        from torch._prims_common import is_contiguous, is_contiguous_or_false

        class Pair(torch.Tensor):
            def __tensor_flatten__(self):
                return ["a", "b"], None

            @staticmethod
            def __tensor_unflatten__(parts, context, size, stride):
                return parts["a"]

        x = torch.ones(2, 3)
        print(is_traceable_wrapper_subclass(x), is_traceable_wrapper_subclass(torch.nn.Parameter(x)))
        print(is_traceable_wrapper_subclass(x.as_subclass(Pair)), is_traceable_wrapper_subclass(3))
        print(is_contiguous(x), is_contiguous_or_false(x.t()))
        """
    )
    assert out.split() == ["False", "False", "True", "False", "True", "False"]


def test_a_file_has_the_names_of_its_package():
    out = run(
        """
        import torch, torch.nn.utils.weight_norm, torch.nn.utils.clip_grad, torch.cuda.memory, torch.cuda.amp.autocast_mode
        from torch.nn.utils.clip_grad import clip_grad_norm_
        assert clip_grad_norm_ is torch.nn.utils.clip_grad_norm_
        assert torch.cuda.memory.memory_allocated() == torch.cuda.memory_allocated()
        assert torch.cuda.amp.autocast_mode.autocast is torch.cuda.amp.autocast
        linear = torch.nn.utils.weight_norm(torch.nn.Linear(2, 2))  # a function beside the file of its name
        print(sorted(linear.state_dict()))
        try:
            torch.utils.collect_env.get_pretty_env_info()
        except NotImplementedError as error:
            print("collect_env" in str(error))
        try:
            torch.nn.utils.nothing
        except AttributeError:
            print("no such name")
        try:
            import torch.nn.utils.nothing
        except ModuleNotFoundError:
            print("no such file")
        """
    )
    assert out == "['bias', 'weight_g', 'weight_v']\nTrue\nno such name\nno such file\n"


def test_attributes_that_are_missing_raise_when_they_are_called():
    out = run(
        """
        import torch
        for name in ("optim.Adafactor", "backends.cuda.can_use_flash_attention", "jit.CompilationUnit", "func.functionalize"):
            value = torch
            for part in name.split("."):
                value = getattr(value, part)
            try:
                value()
            except NotImplementedError as error:
                print(str(error).split(" is not in")[0])
        """
    )
    names = ("optim.Adafactor", "backends.cuda.can_use_flash_attention", "jit.CompilationUnit", "func.functionalize")
    assert out == "".join(f"torch.{n}\n" for n in names)


@pytest.mark.parametrize(
    "old, new", [("2.15.0+strata0.1", "2.2"), ("2.2.0", "2.2.0rc1"), ("2.10", "2.9.1"), ("2.0", (1, 13))]
)
def test_versions_compare_by_their_numbers(old, new):
    from strata.torch.torch_version import TorchVersion

    assert TorchVersion(old) > new and TorchVersion(old) >= new and not TorchVersion(old) < new
    assert TorchVersion(old) != new and TorchVersion(old) == old and not TorchVersion(old) <= new
    assert TorchVersion("2.1.0") == "2.1" and hash(TorchVersion(old)) == hash(old)


def test_no_file_of_ours_is_listed_as_missing():
    from strata.torch._files import FILES

    package = pathlib.Path(__file__).parents[2] / "python/strata"
    for name in FILES:
        inner = name.split(".", 1)[1].replace(".", "/")
        for home in (package / "torch", package):
            assert not (home / f"{inner}.py").exists() and not (home / inner / "__init__.py").exists(), name
