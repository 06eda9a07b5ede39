"""Where the names of torch are that strata itself does not define: looked up when they are first used."""

import importlib

_MODULES = """_utils accelerator ao compiler distributed functional hub jit overrides profiler quasirandom return_types signal storage types version
__config__""".split()
_FUNCTIONS = """_assert batch_norm compiled_with_cxx11_abi dropout_ embedding get_deterministic_debug_mode get_device
get_device_module get_file_path get_num_interop_threads gradient instance_norm is_anomaly_enabled is_conj is_distributed is_inference is_neg
is_same_size is_signed is_warn_always_enabled kl_div norm_except_dim pca_lowrank poisson range set_anomaly_enabled
set_deterministic_debug_mode set_flush_denormal set_num_interop_threads set_warn_always svd_lowrank typename view_copy split_with_sizes_copy _chunk_cat embedding_bag
poisson_nll_loss feature_alpha_dropout hinge_embedding_loss cosine_embedding_loss margin_ranking_loss triplet_margin_loss
alpha_dropout as_subclass _assert_async _check _check_index _check_is_size _check_not_implemented _check_tensor_all
_check_type _check_value _check_with _shape_as_tensor _softmax_backward_data""".split()
_KINDS = "Float Double Half BFloat16 Long Int Short Char Byte Bool".split()
_HOME = {
    **dict.fromkeys(_FUNCTIONS, "functions"),
    **{f"{kind}Tensor": "legacy_types" for kind in _KINDS},
    **{f"{kind}Storage": "storage" for kind in _KINDS},
    **dict.fromkeys(("TypedStorage", "UntypedStorage", "is_storage"), "storage"),
    "set_default_tensor_type": "legacy_types",
    "GradScaler": "..amp",
    "vmap": "..func",
    "layout": "types",
    "memory_format": "types",
    **{f"sparse_{kind}_tensor": "..sparse" for kind in "coo csr csc bsr bsc compressed".split()},
    **dict.fromkeys(("spmm", "smm", "hspmm"), "..sparse"),
    **dict.fromkeys(("qint8", "quint8", "quint4x2"), "ao._types"),
    "quantization": "ao",
    **dict.fromkeys("sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum".split(), "symbols"),
    **dict.fromkeys(
        """ccol_indices_copy col_indices_copy crow_indices_copy detach_copy indices_copy row_indices_copy select_copy slice_copy
        split_copy values_copy view_as_complex_copy view_as_real_copy""".split(),
        "copies",
    ),
    "Stream": "..cuda",
    "Event": "..cuda",
}


def find(name):
    """The value of strata.<name>; raises AttributeError."""
    if name.startswith("_foreach_"):
        from . import foreach

        return foreach.find(name)
    if name in _MODULES:
        return importlib.import_module(f"strata.torch.{name}")
    if name in _HOME:
        home = _HOME[name]
        return getattr(importlib.import_module(f".{home}" if not home.startswith("..") else home, "strata.torch"), name)
    raise AttributeError(f"module 'strata' has no attribute {name!r}")
