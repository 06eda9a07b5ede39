"""The public names of nn, optim and data exist in C++ and in Python."""

import importlib
import inspect
import re

import pytest
from cpp_names import names_by_namespace

SPACES = {
    "strata.nn": "strata::nn",
    "strata.nn.functional": "strata::nn::functional",
    "strata.nn.init": "strata::nn::init",
    "strata.nn.utils": "strata::nn::utils",
    "strata.nn.utils.rnn": "strata::nn::utils::rnn",
    "strata.optim": "strata::optim",
    "strata.optim.lr_scheduler": "strata::optim::lr_scheduler",
    "strata.optim.swa_utils": "strata::optim::swa_utils",
    "strata.utils.data": "strata::data",
}

# Names of one language, by regular expression, each with its reason.
PYTHON_ONLY = {
    "strata.nn": {
        "DataParallel|SyncBatchNorm": "for PyTorch programs that wrap or convert a model; in one process they change nothing",
        "Parameter|Buffer": "C++ registers tensors with add_parameter and add_buffer",
        "Lazy.*|Uninitialized.*": "objects that change their class when they see their first input",
    },
    "strata.nn.utils": {
        "weight_norm|spectral_norm|remove_.*_norm": "attributes that become functions of others, a property of Python classes",
        "skip_init": "takes a class as its argument",
    },
    "strata.optim.swa_utils": {".*": "averages a deep copy of any model; a C++ module is a handle to shared state"},
    "strata.utils.data": {
        "default_collate": "collate in C++, where every sample is a list of tensors",
        "default_convert": "the samples of C++ are tensors already",
    },
}
CPP_ONLY = {
    "strata::nn": {
        ".*Options|.*Arguments": "named arguments",
        ".*Recurrence|LSTMState|LoadResult": "results of several parts, tuples in Python",
        "Ints|ListArg|SizeArg|FloatArg|KeepArg|Padding|NamedTensors|DistanceFunction|Forward.*Hook": "types of arguments",
        "None|AnyModule|ModuleState": "handles and what they refer to",
        "CellBase|PackedSequence": "a base class, and another name of utils::rnn::PackedSequence",
    },
    "strata::optim": {
        ".*Options?|OptionPair|OptionTriple|Closure|AdjustLrFn|StateDict": "types of arguments",
        "Fused|FusedOptimizer|Group|LBFGSState|Rule|StateKind|Moment|Schedule": "what optimizers are made of",
        "all_rules|check_new_state|check_options|describe|find_schedule|lbfgs_step|make_rule": "what the Python classes are made of",
    },
    "strata::optim::lr_scheduler": {
        ".*Options|EpochFunction": "types of arguments",
        "FormulaScheduler|NamedSchedule|Scheduled|SchedulerList|describe": "what schedulers are made of",
    },
    "strata::data": {
        "Example|Batch|Stream|DatasetRef|IterableDatasetRef|LoaderOptions|WorkerInfo": "types of arguments and results",
        "Batches|LoaderPass": "what loaders are made of",
        "collate": "default_collate in Python",
        "MapDataset": "Python's data sets take a transform",
        "ImageSet|mnist|has_mnist|cifar10|read_idx|draw_digits|synthetic_digits": "strata.vision.datasets in Python",
    },
}


@pytest.fixture(scope="module")
def cpp():
    return names_by_namespace()


def python_names(space):
    """The names in the module's __all__ or, without one, those that the module itself defines."""
    module = importlib.import_module(space)
    listed = module.__dir__() if space == "strata.nn" else getattr(module, "__all__", None)
    if listed is None:
        listed = [n for n, v in vars(module).items() if getattr(v, "__module__", None) == space]
    return {n for n in listed if not n.startswith("_") and not inspect.ismodule(getattr(module, n))}


def excused(names, reasons):
    return {n for n in names if any(re.fullmatch(pattern, n) for pattern in reasons)}


@pytest.mark.parametrize("space", SPACES)
def test_names_of_python_exist_in_cpp(space, cpp):
    missing = python_names(space) - cpp[SPACES[space]]
    assert missing == excused(missing, PYTHON_ONLY.get(space, {})), "add them to C++, or say why not"


@pytest.mark.parametrize("space", SPACES)
def test_names_of_cpp_exist_in_python(space, cpp):
    missing = cpp[SPACES[space]] - python_names(space)
    assert missing == excused(missing, CPP_ONLY.get(SPACES[space], {})), "add them to Python, or say why not"


def test_exceptions_are_needed(cpp):
    """Every listed exception is still needed."""
    for space, namespace in SPACES.items():
        here, there = python_names(space), cpp[namespace]
        for names, reasons in ((here - there, PYTHON_ONLY.get(space, {})), (there - here, CPP_ONLY.get(namespace, {}))):
            for pattern in reasons:
                for part in pattern.split("|"):
                    assert excused(names, [part]), f"{part} of {space} excuses nothing"


def test_headers_are_read(cpp):
    assert {"Linear", "LSTM", "Sequential", "Transformer", "CTCLoss"} <= cpp["strata::nn"]
    assert {"relu", "conv2d", "cross_entropy", "scaled_dot_product_attention"} <= cpp["strata::nn::functional"]
    assert {"SGD", "LBFGS", "Optimizer"} <= cpp["strata::optim"] and "DataLoader" in cpp["strata::data"]
