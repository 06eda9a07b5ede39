"""Names of PyTorch 2.15 that Strata may lack, by module. A name that Strata has by now is found before this list is asked."""

ABSENT = {
    "torch": """
AcceleratorError AggregationType AliasDb AnyType Argument ArgumentSpec AwaitType BFloat16Storage BFloat16Tensor
BenchmarkConfig BenchmarkExecutionStats Block BoolStorage BoolTensor BoolType BufferDict ByteStorage ByteTensor
CallStack Capsule CharStorage CharTensor ClassType Code CompilationUnit CompleteArgumentSpec ComplexDoubleStorage
ComplexFloatStorage ComplexType ConcreteModuleType ConcreteModuleTypeBuilder DeepCopyMemoTable
DeserializationStorageContext DeviceObjType DictType DisableTorchFunction DisableTorchFunctionSubclass DispatchKey
DispatchKeySet DoubleStorage DoubleTensor EnumType ErrorReport Event ExcludeDispatchKeyGuard ExecutionPlan FatalError
FileCheck FloatStorage FloatTensor FloatType FunctionSchema Future FutureType GradScaler Gradient Graph
GraphExecutorState HalfStorage HalfTensor IODescriptor InferredType IntStorage IntTensor IntType InterfaceType
JITException ListType LiteScriptModule LockingLogger LoggerBase LongStorage LongTensor ModuleDict Node NoneType
NoopLogger NumberType OperatorInfo OptionalType ParameterDict PyObjectType PyTorchFileReader PyTorchFileWriter
QInt32Storage QInt8Storage QUInt2x4Storage QUInt4x2Storage QUInt8Storage RRefType ScriptClass ScriptClassFunction
ScriptDict ScriptDictIterator ScriptDictKeyIterator ScriptFunction ScriptList ScriptListIterator ScriptMethod
ScriptModule ScriptModuleSerializer ScriptObject ScriptObjectProperty SerializationStorageContext ShortStorage
ShortTensor StaticModule Storage StorageBase Stream StreamObjType StringType SymBool SymBoolType SymFloat SymInt
SymIntType Tag TensorType ThroughputBenchmark TracingState TupleType Type TypedStorage USE_RTLD_GLOBAL_WITH_LIBTORCH
UnionType UntypedStorage Use Value accelerator affine_grid_generator alpha_dropout alpha_dropout_ ao as_strided_
bartlett_window batch_norm batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt
batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats bcomplex32
binomial bit bits16 bits1x8 bits2x4 bits4x2 bits8 blackman_window ccol_indices_copy cdouble cfloat chalf
choose_qparams_optimized classes classproperty col_indices_copy compile compiled_with_cxx11_abi compiler complex
complex128 complex32 complex64 cond conj_physical_ conv_tbc cosine_embedding_loss cpp crow_indices_copy
cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu
cudnn_convolution_transpose cudnn_grid_sampler cudnn_is_acceptable dequantize detach_copy distributed distributions
dropout_ dsmm eig embedding embedding_bag embedding_renorm_ empty_quantized export fake_quantize_per_channel_affine
fake_quantize_per_tensor_affine fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation
fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight
fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix feature_alpha_dropout feature_alpha_dropout_ feature_dropout
feature_dropout_ fft float4_e2m1fn_x2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu foreach fork frobenius_norm
from_file functional fused_moving_avg_obs_fake_quant futures fx get_autocast_ipu_dtype get_autocast_xla_dtype
get_deterministic_debug_mode get_device get_device_module get_file_path get_num_interop_threads gradient grid_sampler
grid_sampler_2d grid_sampler_3d hamming_window hann_window has_lapack has_mkl has_openmp has_spectral hash_tensor
hinge_embedding_loss hsmm hspmm hub i0 i0_ imag import_ir_module import_ir_module_from_buffer indices_copy
init_num_threads instance_norm int1 int2 int3 int4 int5 int6 int7 int_repr is_anomaly_check_nan_enabled
is_anomaly_enabled is_autocast_ipu_enabled is_autocast_xla_enabled is_conj is_distributed is_inference is_neg
is_same_size is_signed is_storage is_vulkan_available is_warn_always_enabled istft jagged jit kaiser_window kl_div
layout legacy_contiguous_format lobpcg lstsq margin_ranking_loss masked matrix_rank memory_format
merge_type_from_type_comment miopen_batch_norm miopen_convolution miopen_convolution_add_relu miopen_convolution_relu
miopen_convolution_transpose miopen_ctc_loss miopen_depthwise_convolution miopen_rnn mkldnn_adaptive_avg_pool2d
mkldnn_convolution mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool3d mkldnn_rnn_layer monitor mps
mtia multiprocessing native_norm nested norm_except_dim nuclear_norm overrides package parse_ir parse_schema
parse_type_comment pca_lowrank per_channel_affine per_channel_affine_float_qparams per_channel_symmetric
per_tensor_affine per_tensor_symmetric poisson poisson_nll_loss polar prepare_multiprocessing_environment profiler
profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 q_per_channel_axis q_per_channel_scales q_per_channel_zero_points
q_scale q_zero_point qint32 qint8 qscheme quantization quantize_per_channel quantize_per_tensor
quantize_per_tensor_dynamic quantized_batch_norm quantized_gru quantized_gru_cell quantized_lstm quantized_lstm_cell
quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d quantized_rnn_relu_cell quantized_rnn_tanh_cell
quasirandom quint2x4 quint4x2 quint8 range resize_as_sparse_ return_types row_indices_copy rrelu_ saddmm
segment_reduce select_copy set_anomaly_enabled set_autocast_ipu_dtype set_autocast_ipu_enabled set_autocast_xla_dtype
set_autocast_xla_enabled set_default_tensor_type set_deterministic_debug_mode set_flush_denormal
set_num_interop_threads set_warn_always signal slice_copy slice_inverse smm solve sparse sparse_bsc sparse_bsc_tensor
sparse_bsr sparse_bsr_tensor sparse_compressed_tensor sparse_coo sparse_coo_tensor sparse_csc sparse_csc_tensor
sparse_csr sparse_csr_tensor split_copy split_with_sizes_copy spmm sspaddmm stft storage svd_lowrank
sym_constrain_range sym_constrain_range_for_size sym_float sym_fresh_size sym_int sym_ite sym_max sym_min sym_not
sym_sqrt sym_sum symeig thread_safe_generator torch_version triplet_margin_loss typename types uint1 uint2 uint3 uint4
uint5 uint6 uint7 unify_type_list unsafe_split_with_sizes values_copy version view_as_complex view_as_complex_copy
view_as_real view_as_real_copy view_copy vmap wait while_loop windows xpu""",
    "torch.nn": """
Container DataParallel LinearCrossEntropyOptions NLLLoss2d RNNCellBase SyncBatchNorm common_types factory_kwargs grad
intrinsic parallel qat quantizable quantized""",
    "torch.nn.functional": """
BroadcastingList1 BroadcastingList2 BroadcastingList3 GRID_SAMPLE_INTERPOLATION_MODES GRID_SAMPLE_PADDING_MODES
ScalingType SwizzleType assert_int_or_pair boolean_dispatch conv_tbc grad grouped_mm handle_torch_function
has_torch_function has_torch_function_unary has_torch_function_variadic native_channel_shuffle rrelu_ scaled_addmm
scaled_addmm_ scaled_grouped_mm scaled_mm""",
    "torch.nn.init": """
constant dirac eye kaiming_normal kaiming_uniform normal orthogonal sparse uniform xavier_normal xavier_uniform""",
    "torch.nn.utils": """
clip_grad_norm convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format
stateless""",
    "torch.nn.parallel": """
DistributedDataParallelCPU gather parallel_apply replicate scatter""",
    "torch.nn.attention": """
SDPBackend WARN_FOR_UNFUSED_KERNELS activate_flash_attention_impl current_flash_attention_impl
list_flash_attention_impls register_flash_attention_impl restore_flash_attention_impl sdpa_kernel""",
    "torch.optim": """
Adafactor SparseAdam functional swap_in_optimizer_params_and_state""",
    "torch.utils": """
ThroughputBenchmark backcompat backend_registration cmake_prefix_path collect_env cpp_backtrace deterministic dlpack
generate_methods_for_privateuse1_backend get_cpp_backtrace rename_privateuse1_backend set_module swap_tensors
throughput_benchmark weak""",
    "torch.utils.data": """
DFIterDataPipe DataChunk DistributedSampler IterDataPipe MapDataPipe _DatasetKind argument_validation
functional_datapipe guaranteed_datapipes_determinism non_deterministic runtime_validation runtime_validation_disabled""",
    "torch.autograd": """
NestedIOFunction Variable enforce_grad_layout_policy grad_mode set_multithreading_enabled variable""",
    "torch.linalg": """
eig eigvals ldl_factor ldl_factor_ex ldl_solve matrix_sqrth polar""",
    "torch.special": """
airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v
chebyshev_polynomial_w erfcx hermite_polynomial_h hermite_polynomial_he i0 i0e i1 i1e laguerre_polynomial_l
legendre_polynomial_p log_ndtr log_softmax modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1
ndtri scaled_modified_bessel_k0 scaled_modified_bessel_k1 shifted_chebyshev_polynomial_t
shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w softmax
spherical_bessel_j0 zeta""",
    "torch.func": """
debug_unwrap functionalize grad grad_and_value hessian jacfwd jacrev jvp linearize rearrange
replace_all_batch_norm_modules_ stack_module_state vjp vmap""",
    "torch.cuda": """
AcceleratorError BFloat16Storage BFloat16Tensor BoolStorage BoolTensor ByteStorage ByteTensor CUDAPluggableAllocator
CharStorage CharTensor ComplexDoubleStorage ComplexFloatStorage CudaError DeferredCudaCallError DoubleStorage
DoubleTensor ExternalStream FloatStorage FloatTensor GreenContext HalfStorage HalfTensor IntStorage IntTensor
LongStorage LongTensor MemPool ShortStorage ShortTensor StreamContext caching_allocator_alloc caching_allocator_delete
caching_allocator_disabled caching_allocator_enable change_current_allocator check_error clock_rate cudaStatus cudart
current_blas_handle current_solver_handle default_generators device_memory_used device_of export_dot export_graph_data
get_allocator_backend get_arch_list get_gencode_flags get_per_process_memory_fraction get_rng_state get_rng_state_all
get_stream_from_external get_sync_debug_mode graph_annotations graph_pool_handle graphs has_half has_magma
host_memory_stats host_memory_stats_as_nested_dict initial_seed ipc_collect is_bf16_supported is_tf32_supported
jiterator list_gpu_processes make_graphed_callables max_memory_cached memory_cached memory_stats_as_nested_dict
memory_usage nccl nvtx power_draw profiler random reset_accumulated_host_memory_stats reset_accumulated_memory_stats
reset_max_memory_allocated reset_max_memory_cached reset_peak_host_memory_stats seed seed_all set_rng_state
set_rng_state_all set_sync_debug_mode sparse streams temperature tunable use_mem_pool utilization""",
    "torch.backends": """
cpu cusparselt kleidiai mha miopen mkl mkldnn mps nnpack openmp opt_einsum python_native quantized""",
    "torch.random": """
thread_safe_generator""",
    "torch.serialization": """
FILE_LIKE LoadEndianness MAP_LOCATION SourceChangeWarning StorageType add_safe_globals
check_module_version_greater_or_equal clear_safe_globals default_restore_location get_crc32_options
get_default_load_endianness get_default_mmap_options get_safe_globals get_unsafe_globals_in_checkpoint location_tag
normalize_storage_type register_package safe_globals set_crc32_options set_default_load_endianness
set_default_mmap_options skip_data storage_to_tensor_type validate_cuda_device validate_hpu_device""",
    "torch.testing": """
FileCheck assert_allclose make_tensor""",
    "torch.library": """
fallthrough_kernel get_ctx get_kernel impl_abstract register_torch_dispatch triton_op wrap_triton""",
    "torch.utils.checkpoint": """
CheckpointError CheckpointFunction CheckpointPolicy DefaultDeviceType GraphExecGroup SAC_IGNORED_OPS
SelectiveCheckpointContext check_backward_validity create_selective_checkpoint_contexts detach_variable
get_device_states noop_context_fn set_checkpoint_debug_enabled set_checkpoint_early_stop set_device_states""",
    "torchvision.datasets": """
ImageFolder DatasetFolder LSUN CelebA STL10 SVHN CIFAR100 EMNIST KMNIST ImageNet CocoCaptions CocoDetection
VOCSegmentation""",
    "torchvision.transforms": """
ToPILImage RandomRotation RandomResizedCrop ColorJitter Grayscale RandomGrayscale RandomAffine GaussianBlur
RandomErasing FiveCrop TenCrop RandomApply AutoAugment RandAugment InterpolationMode Scale""",
    "torchvision.utils": """
draw_bounding_boxes draw_segmentation_masks""",
    "torch.nn.utils.rnn": """
PackedSequence_ bind""",
    "torch.nn.utils.parametrize": """
transfer_parametrizations_and_params""",
    "torch.nn.utils.prune": """
PruningContainer""",
    "torch.nn.modules": """
Container LinearCrossEntropyLoss LinearCrossEntropyOptions NLLLoss2d""",
    "torch.nn.modules.rnn": """
apply_permutation""",
    "torch.nn.modules.lazy": """
LazyModuleMixin""",
    "torch.optim.optimizer": """
register_optimizer_step_post_hook register_optimizer_step_pre_hook""",
    "torch.autograd.graph": """
allow_mutation_on_saved_tensors node_creation_hook queue_callback region_activation_memory_budget
set_override_stale_capture_stream set_warn_on_accumulate_grad_stream_mismatch""",
    "torch.autograd.function": """
BackwardCFunction FunctionMeta InplaceFunction NestedIOFunction""",
    "torch.autograd.profiler": """
EnforceUnique FunctionEvent KinetoStepTracker MemRecordsAcc emit_itt load_nvprof parse_nvprof_trace""",
    "torch.autograd.gradcheck": """
get_analytical_jacobian get_numerical_jacobian get_numerical_jacobian_wrt_specific_input""",
    "torch.autograd.variable": """
VariableMeta""",
    "torch.utils.data.dataloader": """
get_worker_info""",
    "torch.utils.data._utils.collate": """
collate collate_float_fn collate_int_fn collate_numpy_array_fn collate_numpy_scalar_fn collate_str_fn
collate_tensor_fn""",
    "torch.utils._pytree": """
ConstantNode DumpableContext EnumEncoder FlattenFn FromDumpableContextFn KeyEntry PyTreeSpec ToDumpableContextFn
UnflattenFn arg_tree_leaves enum_object_hook is_constant_class is_namedtuple is_namedtuple_class is_structseq
is_structseq_class is_structseq_instance map_only pytree_to_str register_constant register_dataclass str_to_pytree
structseq tree_all_only tree_any_only tree_leaves_with_path tree_map_only_ treespec_dict treespec_dumps treespec_leaf
treespec_loads treespec_pprint treespec_tuple""",
    "torch.utils.dlpack": """
DLDeviceType ReadOnlyTensorWrapper""",
    "torch.utils.cpp_extension": """
SyclExtension check_compiler_is_gcc check_compiler_ok_for_platform get_compiler_abi_compatibility_and_version
get_cxx_compiler get_default_build_root remove_extension_h_precompiler_headers verify_ninja_availability""",
    "torch.utils.hooks": """
BackwardHook unserializable_hook warn_if_has_hooks""",
    "torch.sparse": """
ByteTensor CharTensor ShortTensor SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT
SparseSemiStructuredTensorCUTLASS as_sparse_gradcheck check_sparse_tensor_invariants to_sparse_semi_structured""",
    "torch.nested": """
masked_select""",
    "torch.cuda.amp": """
amp_definitely_not_available""",
    "torch.backends.cuda": """
SDPAParams blas_workspace_size can_use_cudnn_attention can_use_efficient_attention can_use_flash_attention
cuBLASModule cuFFTPlanCache cuFFTPlanCacheAttrContextProp cuFFTPlanCacheManager cublas_workspace_size
cublaslt_workspace_size cufft_plan_cache is_ck_sdpa_available preferred_rocm_fa_library""",
    "torch.backends.mps": """
get_core_count get_name is_macos13_or_newer""",
    "torch.backends.mkl": """
verbose""",
    "torch.jit": """
CompilationUnit Error Future ONNXTracedModule RecursiveScriptClass ScriptWarning TracingCheckError export_opnames
jit_module_from_flatbuffer onednn_fusion_enabled run_frozen_optimizations save_jit_module_to_flatbuffer""",
    "torch.compiler": """
CacheInfo PrecompileError cudagraph_mark_warmup_incomplete get_default_backend keep_portable_guards_unsafe
keep_tensor_guards_unsafe load_cache_artifacts load_compiled_function nested_compile_region nonstrict_trace
save_cache_artifacts set_default_backend set_enable_guard_collectives skip_all_guards_unsafe
skip_guard_on_all_nn_modules_unsafe skip_guard_on_globals_unsafe skip_guard_on_inbuilt_nn_modules_unsafe wrap_numpy""",
    "torch.overrides": """
redispatch_function""",
    "torch.multiprocessing": """
ProcessContext ProcessExitedException SpawnContext init_reductions""",
    "torch.profiler": """
CuspyConfig DeviceType ExecutionTraceObserver PerformanceMetricsConfig ProfilerActivityConfig""",
    "torch.quantization": """
ObserverBase QuantType add_quant_dequant default_eval_fn default_fake_quant
default_fixed_qparams_range_0to1_fake_quant default_fixed_qparams_range_neg1to1_fake_quant
default_histogram_fake_quant default_observer default_per_channel_weight_fake_quant
default_per_channel_weight_observer default_placeholder_observer default_weight_fake_quant default_weight_observer
get_default_compare_output_module_list get_default_qat_module_mappings get_default_qconfig_propagation_list
get_default_static_quant_module_mappings get_fuser_method get_quantized_operator get_static_quant_module_class
quantize_dynamic_jit quantize_jit""",
    "torch.ao.quantization": """
AffineQuantizedObserverBase FakeQuantizeBase FixedQParamsFakeQuantize FixedQParamsObserver
FusedMovingAvgObsFakeQuantize Granularity MappingType MovingAveragePerChannelMinMaxObserver NoopObserver ObserverBase
ObserverOrFakeQuantize PerAxis PerBlock PerGroup PerRow PerTensor PerToken PlaceholderObserver QConfigAny
QConfigDynamic QuantType RecordingObserver ReuseInputObserver TorchAODType UniformQuantizationObserverBase
ZeroPointDomain add_quant_dequant convert_dynamic_jit convert_jit default_affine_fixed_qparams_fake_quant
default_affine_fixed_qparams_observer default_debug_observer default_dynamic_fake_quant default_dynamic_quant_observer
default_embedding_fake_quant default_embedding_fake_quant_4bit default_eval_fn default_fake_quant
default_fixed_qparams_range_0to1_fake_quant default_fixed_qparams_range_0to1_observer
default_fixed_qparams_range_neg1to1_fake_quant default_fixed_qparams_range_neg1to1_observer
default_float_qparams_observer default_float_qparams_observer_4bit default_fused_act_fake_quant
default_fused_per_channel_wt_fake_quant default_fused_wt_fake_quant default_histogram_fake_quant
default_histogram_observer default_observer default_per_channel_weight_fake_quant default_per_channel_weight_observer
default_placeholder_observer default_reuse_input_observer default_symmetric_fixed_qparams_fake_quant
default_symmetric_fixed_qparams_observer default_weight_fake_quant default_weight_observer fuse_conv_bn
fuse_conv_bn_jit fuse_conv_bn_relu fuse_convtranspose_bn fuse_linear_bn
fused_per_channel_wt_fake_quant_range_neg_127_to_127 fused_wt_fake_quant_range_neg_127_to_127 get_block_size
get_default_compare_output_module_list get_default_custom_config_dict get_default_dynamic_sparse_quant_module_mappings
get_default_float_to_quantized_operator_mappings get_default_qat_module_mappings get_default_qat_qconfig_dict
get_default_qat_qconfig_mapping get_default_qconfig_dict get_default_qconfig_propagation_list
get_default_static_quant_module_mappings get_default_static_quant_reference_module_mappings
get_default_static_sparse_quant_module_mappings get_dynamic_quant_module_class get_embedding_qat_module_mappings
get_embedding_static_quant_module_mappings get_fuser_method get_fuser_method_new get_observer_state_dict
get_quantized_operator get_static_quant_module_class load_observer_state_dict no_observer_set
per_channel_weight_observer_range_neg_127_to_127 prepare_dynamic_jit prepare_jit qconfig_equals quantize_dynamic_jit
quantize_jit script_qconfig script_qconfig_dict weight_observer_range_neg_127_to_127""",
    "torch.cpu": """
Event Stream StreamContext current_stream get_capabilities is_initialized set_device stream""",
    "torch.accelerator": """
Graph device_index empty_host_cache get_device_capability get_memory_info max_memory_reserved memory_reserved
memory_stats reset_accumulated_memory_stats reset_peak_memory_stats set_stream""",
    "torch._utils": """
CallbackRegistry ExceptionWrapper KeyErrorMessage classproperty cpu_count get_current_device_index get_tensor_metadata
getenv install_os_environ_hook is_compiling remove_os_environ_hook render_call set_tensor_metadata setenv try_import
unsetenv""",
    "torch.fx.proxy": """
MetaProxy Scope ScopeContextManager assert_fn""",
    "torch.utils.data.dataset": """
T_co""",
    "torch.utils.benchmark": """
CallgrindStats Colorize Compare CopyIfCallgrind FunctionCount FunctionCounts FuzzedParameter FuzzedSparseTensor
FuzzedTensor Fuzzer Language ParameterAlias TaskSpec ordered_unique select_unit set_torch_threads trim_sigfig
unit_to_english""",
}
