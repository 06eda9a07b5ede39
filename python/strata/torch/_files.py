"""Files of PyTorch 2.15 that Strata has no file for. Importing one gives a module with the names of the nearest package."""

_FILES = {
    "torch": "__future__ _awaits _classes _decomp _lazy _linalg_utils _lowrank _utils_internal "
    "_weights_only_unpickler contrib nativert",
    "torch.accelerator": "graphs memory random",
    "torch.autograd": "_functions anomaly_mode profiler_legacy profiler_util",
    "torch.backends": "cusparselt kleidiai miopen nnpack python_native xeon xnnpack",
    "torch.backends.xeon": "run_cpu",
    "torch.compiler": "config precompile",
    "torch.cpu.amp": "autocast_mode grad_scaler",
    "torch.cuda": "_memory_viz _sanitizer _utils comm gds graph_annotations graphs green_contexts jiterator memory nccl "
    "nvtx profiler sparse streams tunable",
    "torch.cuda.amp": "autocast_mode common grad_scaler",
    "torch.fx": "_compatibility _pytree",
    "torch.jit": "_async _freeze _monkeytype_config _recursive _script _serialization _state _trace frontend "
    "generate_bytecode mobile quantized supported_ops unsupported_tensor_ops",
    "torch.masked": "_docs _ops maskedtensor",
    "torch.masked.maskedtensor": "binary core creation passthrough reductions unary",
    "torch.mps": "event profiler streams",
    "torch.mtia": "memory mtia_graph",
    "torch.multiprocessing": "_atfork pool queue reductions",
    "torch.nativert": "backends",
    "torch.nested": "_internal",
    "torch.nested._internal": "nested_tensor ops sdpa",
    "torch.nn": "backends common_types cpp grad",
    "torch.nn.backends": "thnn",
    "torch.nn.modules": "_functions linear_cross_entropy linear_cross_entropy_options",
    "torch.nn.parallel": "_functions comm parallel_apply replicate",
    "torch.nn.utils": "_named_member_accessor _per_sample_grad clip_grad convert_parameters init memory_format "
    "spectral_norm weight_norm",
    "torch.optim": "_functional _multi_tensor functional",
    "torch.profiler": "itt python_tracer",
    "torch.sparse": "_semi_structured_conversions",
    "torch.utils": "_device _foreach_utils _import_utils _mode_utils _traceback _typing_utils backcompat "
    "backend_registration bundled_inputs collect_env cpp_backtrace debug_log deterministic file_baton hipify jit "
    "mkldnn model_dump module_tracker serialization show_pickle throughput_benchmark viz weak",
    "torch.utils.data": "backward_compatibility graph",
    "torch.utils.data._utils": "fetch pin_memory signal_handling",
    "torch.utils.hipify": "constants cuda_to_hip_mappings hipify_python version",
    "torch.utils.jit": "log_extract",
    "torch.utils.serialization": "config",
    "torch.utils.tensorboard": "_convert_np _embedding _pytorch_graph _utils summary",
    "torch.xpu": "graphs memory random streams",
}
FILES = frozenset(f"{package}.{file}" for package, files in _FILES.items() for file in files.split())
