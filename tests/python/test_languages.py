"""The public names of Python exist in C++ and those of C++ in Python."""

import importlib
import inspect
import re

import install_headers
import pytest
import strata
from cpp_names import headers, names_by_namespace

SPACES = {
    "strata.fft": "strata::fft",
    "strata.linalg": "strata::linalg",
    "strata.special": "strata::special",
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
    "strata": {
        "bool|float|double|half|short|int|long|cfloat|cdouble|(u?int|float|complex|bfloat)\\d+|float8_.*": "dtypes: kFloat32 and others, as in libtorch",
        "inf|nan|pi|e|newaxis": "INFINITY, NAN and std::numbers; indexing::None",
        "strided|sparse_(coo|cs[rc]|bs[rc])|jagged|contiguous_format|preserve_format|channels_last.*": "the strings themselves",
        "OutOfMemoryError": "strata::Error with ErrorKind::OutOfMemory",
        "Size": "IntList and std::vector<int64_t>",
        "no_grad|enable_grad|set_grad_enabled|inference_mode": "NoGradGuard, AutoGradMode and InferenceMode, as in libtorch",
        "autocast": "autocast::Scope",
        "tune|tracing": "TuneGuard; tracing::Session",
        "explain_layers": "of modules of Python; journey::follow takes any call",
        "doctor|devices|device_load|dtype_table": "doctor::examine; devices::list, load and dtypes",
        "[gs]et_autocast_.*dtype|(is|set)_autocast_.*enabled|clear_autocast_cache|autocast_.*nesting": "in strata::autocast, as in libtorch's at::autocast",
        "is_tensor": "the type says it",
        "as_tensor|asarray|from_numpy|frombuffer": "take Python objects; tensor() copies values and from_blob() shares memory",
        "finfo|iinfo": "std::numeric_limits, and info_of(dtype)",
        ".*deterministic_algorithms.*": "store a setting for PyTorch programs: every kernel is deterministic",
    },
    "strata.linalg": {"LinAlgError": "strata::Error with ErrorKind::Runtime"},
    "strata.nn": {
        "DataParallel|SyncBatchNorm": "for PyTorch programs that wrap or convert a model; in one process they change nothing",
        "Parameter|Buffer": "C++ registers tensors with add_parameter and add_buffer",
        "RNNCellBase": "CellBase in C++",
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


def test_functions_of_strata_exist_in_cpp(cpp):
    missing = python_names("strata") - cpp["strata"]
    reasons = PYTHON_ONLY["strata"]
    assert missing == excused(missing, reasons), "add them to C++ (include/strata/functions.h), or say why not"
    for pattern in reasons:
        assert excused(missing, [pattern]), f"{pattern} excuses nothing"
    assert {"is_autocast_enabled", "set_autocast_dtype", "clear_cache", "Scope"} <= cpp["strata::autocast"]
    assert {"NoGradGuard", "AutoGradMode", "InferenceMode", "TuneGuard", "from_blob", "tensor"} <= cpp["strata"]


def test_ops_of_cpp_exist_in_python():
    """The functions that are generated from op definitions, without those for the library itself."""
    text = "".join(t for name, t in headers().items() if name.startswith("strata/ops/"))
    text = install_headers.INTERNAL.sub("", text)
    text = re.sub(r"^namespace [\w:]+ \{\n(?!STRATA_API|///? ?\n).*?^\}\n", "", text, flags=re.M | re.S)
    names = set(re.findall(r"^inline \S.*? (\w+)\(", text, re.M))
    assert len(names) > 500 and "matmul" in names and "conv_transpose2d" in names
    assert {n for n in names if not hasattr(strata, n)} == set()


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
