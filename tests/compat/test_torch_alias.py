"""Strata in the place of torch: imports, names, printed types, and programs that are run as they are."""

import os
import subprocess
import sys
import textwrap

import pytest


def run(code, *options, status=0, folder=None, env=None):
    """What a program prints that is run with Strata as torch."""
    command = [sys.executable, "-W", "ignore", "-m", "strata.torch", *(options or ("-c", textwrap.dedent(code)))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env=env)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout.strip() if status == 0 else done.stderr


def test_modules_are_found_under_torch_names():
    assert (
        run("""
        import torch, torch.nn as nn, torch.nn.functional as F, torch.optim as optim, strata
        from torch.utils.data import DataLoader, Dataset
        from torch.utils.data.sampler import SubsetRandomSampler
        from torch.utils.data.distributed import DistributedSampler
        from torch.nn.modules.batchnorm import _BatchNorm
        from torch.nn.modules.conv import _ConvNd
        from torch.nn.modules.utils import _pair, _triple
        from torch.nn.parameter import Parameter
        from torch.nn.utils.rnn import pack_padded_sequence
        from torch.nn.parallel import DataParallel
        from torch.autograd import Variable, Function
        from torch.autograd.variable import Variable as Same
        from torch.optim.lr_scheduler import _LRScheduler, StepLR
        from torch.optim.optimizer import Optimizer
        from torch.optim.adamw import AdamW
        from torch.cuda.amp import GradScaler, autocast
        import torch.backends.cudnn as cudnn
        import torch.multiprocessing as mp
        import torch.utils.checkpoint, torch.utils.tensorboard, torch.jit, torch.hub, torch.onnx, torch.fx
        import torch.distributed as dist, torch.version, torch.linalg, torch.random, torch.testing
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch._utils import _flatten_dense_tensors
        import torchvision.transforms as T
        from torchvision import datasets, transforms
        from torchvision.datasets import MNIST, ImageFolder
        assert torch.nn is strata.nn and F is strata.nn.functional and Same is Variable
        assert strata.nn.__spec__.name == "strata.nn" and nn.modules.conv.Conv2d is nn.Conv2d
        assert "Strata" in torch.__config__.show() and DataLoader[int] and Dataset[int]
        print(torch.__name__, torch.__version__.split("+")[0], torch.version.__version__ == torch.__version__)
        """)
        == "torch 2.15.0 True"
    )


def test_types_are_printed_with_torch_names():
    lines = run("""
        import torch
        print(torch.float32, torch.Size([2]), torch.ones(1).half(), type(torch.ones(1)), torch.ones(1).type())
        print(torch.max(torch.ones(1, 2), 1))
        print(torch.nn.Linear, torch.nn.Sequential, torch.nn.BatchNorm2d, torch.nn.Parameter)
        print(torch.device, torch.dtype)
    """).splitlines()
    assert lines[0] == (
        "torch.float32 torch.Size([2]) tensor([1.], dtype=torch.float16) <class 'torch.Tensor'> torch.FloatTensor"
    )
    assert lines[1:4] == ["torch.return_types.max(", "values=tensor([1.]),", "indices=tensor([0]))"]
    assert lines[4] == (
        "<class 'torch.nn.modules.linear.Linear'> <class 'torch.nn.modules.container.Sequential'> "
        "<class 'torch.nn.modules.batchnorm.BatchNorm2d'> <class 'torch.nn.parameter.Parameter'>"
    )
    assert lines[5] == "<class 'torch.device'> <class 'torch.dtype'>"


def test_what_is_missing_raises_when_it_is_called():
    assert (
        run("""
        import torch
        from torch import sspaddmm
        from torch.ao.quantization import fuse_modules
        import torch.distributed.rpc as rpc
        class Mine(torch.distributed.fsdp.FSDPModule): pass
        def name(call):
            try: call()
            except NotImplementedError as error: return str(error).split(" is not in")[0]
        assert not isinstance(1, fuse_modules) and not torch.distributed.is_available()
        print(name(sspaddmm), name(fuse_modules), name(rpc.init_rpc), name(torch.distributed.init_process_group))
        print(name(lambda: torch.nn.parallel.DistributedDataParallel(torch.nn.ReLU())))
        import torchvision
        assert name(torchvision.models.resnet18) == "torchvision.models.resnet18"
        print(hasattr(torch, "nonsense"), hasattr(torch.nn, "nonsense"))
        """)
        == "torch.sspaddmm torch.ao.quantization.fuse_modules torch.distributed.rpc.init_rpc "
        "torch.distributed.init_process_group\nDistributedDataParallel\nFalse False"
    )


def test_sparse_tensors_of_older_programs():
    text = run("""
        import torch
        places = torch.LongTensor([[0, 1, 1], [2, 0, 2]])
        graph = torch.sparse.FloatTensor(places, torch.FloatTensor([3, 4, 5]), torch.Size([2, 3]))
        print(torch.spmm(graph, torch.ones(3, 1)).tolist(), graph.is_sparse, graph.layout == torch.sparse_coo)
        print(graph)
        """)
    assert text.startswith("[[3.0], [9.0]] True True\ntensor(indices=tensor([[0, 1, 1],")
    assert text.endswith("size=(2, 3), nnz=3, layout=torch.sparse_coo)")


def test_an_unknown_module_is_an_import_error():
    assert "No module named 'torch.nonsense'" in run("import torch.nonsense", status=1)


def test_programs_run_with_their_arguments(tmp_path):
    (tmp_path / "beside.py").write_text("value = 5\n")
    (tmp_path / "program.py").write_text(
        "import sys, torch, pickle, beside\n"
        "class Thing: pass\n"
        "assert isinstance(pickle.loads(pickle.dumps(Thing())), Thing)\n"
        "if __name__ == '__main__':\n"
        "    print(sys.argv, beside.value, __file__, torch.ones(1))\n"
        "    sys.exit(int(sys.argv[1]))\n"
    )
    assert run("", "program.py", "0", "--x", folder=tmp_path) == "['program.py', '0', '--x'] 5 program.py tensor([1.])"
    run("", "program.py", "3", folder=tmp_path, status=3)
    assert "there is no file 'absent.py'" in run("", "absent.py", folder=tmp_path, status=2)
    assert "usage" in run("", "--help")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text("import sys, torch\nprint(sys.argv[1:], torch.__name__)\n")
    assert run("", "-m", "package", "a", folder=tmp_path) == "['a'] torch"


def test_processes_of_a_program_have_the_alias_too(tmp_path):
    (tmp_path / "program.py").write_text(
        textwrap.dedent("""
        import torch
        import torch.multiprocessing as mp

        def work(rank, x):
            x[rank] = rank + 1

        if __name__ == "__main__":
            x = torch.zeros(2).share_memory_()
            mp.spawn(work, (x,), nprocs=2)
            print(x)
        """)
    )
    # PyTorch may be installed as well: the alias comes before it, in all processes.
    (tmp_path / "installed" / "torch").mkdir(parents=True)
    (tmp_path / "installed" / "torch" / "__init__.py").write_text("class Tensor: pass\n")
    path = os.pathsep.join([str(tmp_path / "installed"), *filter(None, [os.environ.get("PYTHONPATH")])])
    printed = run("", "program.py", folder=tmp_path, env={**os.environ, "PYTHONPATH": path})
    assert printed == "tensor([1., 2.])"


def test_the_alias_by_import_and_by_the_stand_in(tmp_path):
    import strata

    code = "import strata.torch_alias, torch; print(torch.__name__, torch.ones(1).dtype)"
    stand_in = os.path.join(os.path.dirname(strata.__file__), "torch", "stand_in")
    for program, path in (
        (code, []),
        ("import torch, torch.nn as nn; print(torch.__name__, torch.ones(1).dtype)", [stand_in]),
    ):
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")]))
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert done.stdout.strip() == "torch torch.float32", done.stderr
    fake = tmp_path / "torch"
    fake.mkdir()
    (fake / "__init__.py").write_text("")
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", "import torch, strata.torch_alias"], capture_output=True, text=True, env=environment
    )
    assert "PyTorch has been imported already" in done.stderr


def test_importing_strata_imports_none_of_this():
    code = "import strata, sys; print([m for m in sys.modules if m.startswith(('strata.torch.', 'strata.multi', 'strata.utils.t'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.parametrize("seed", range(2))
def test_a_small_program_trains(tmp_path, seed):
    (tmp_path / "train.py").write_text(
        textwrap.dedent("""
        from __future__ import print_function
        import argparse
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        import torch.optim as optim
        from torch.utils.data import DataLoader, TensorDataset
        from torch.optim.lr_scheduler import StepLR

        class Net(nn.Module):
            def __init__(self):
                super(Net, self).__init__()
                self.conv = nn.Conv2d(1, 4, 3)
                self.fc = nn.Linear(4 * 3 * 3, 2)

            def forward(self, x):
                x = F.max_pool2d(F.relu(self.conv(x)), 2)
                return F.log_softmax(self.fc(torch.flatten(x, 1)), dim=1)

        parser = argparse.ArgumentParser()
        parser.add_argument("--seed", type=int)
        args = parser.parse_args()
        torch.manual_seed(args.seed)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        x = torch.randn(64, 1, 8, 8)
        y = (x.mean(dim=(1, 2, 3)) > 0).long()
        loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
        model = Net().to(device)
        optimizer = optim.Adam(model.parameters(), lr=0.02)
        scheduler = StepLR(optimizer, step_size=5, gamma=0.7)
        for epoch in range(15):
            for data, target in loader:
                data, target = data.to(device), target.to(device)
                optimizer.zero_grad()
                loss = F.nll_loss(model(data), target)
                loss.backward()
                optimizer.step()
            scheduler.step()
        torch.save(model.state_dict(), "model.pt")
        model.load_state_dict(torch.load("model.pt", map_location=device))
        pred = model(x).argmax(dim=1, keepdim=True)
        correct = pred.eq(y.view_as(pred)).sum().item()
        print("{:.0f}".format(100.0 * correct / len(x)))
        """)
    )
    assert float(run("", "train.py", "--seed", str(seed), folder=tmp_path)) > 80
