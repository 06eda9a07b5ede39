// The driver table: function pointers named as in the CUDA driver API, with our own types of the same layout. All other
// code calls through a table, so libcuda, the virtual GPU and the test wrappers are interchangeable.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/api.h"

namespace strata::cuda::driver {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUarray = struct CUarray_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUlinkState = struct CUlinkState_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;
using CUmemGenericAllocationHandle = unsigned long long;
using CUhostFn = void (*)(void*);

enum : CUresult {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kInvalidPtx = 218,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kPeerAccessAlreadyEnabled = 704,
  kPeerAccessNotEnabled = 705,
  kLaunchFailed = 719,
  kAssert = 710,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kNotSupported = 801,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureUnmatched = 903,
  kGraphExecUpdateFailure = 910,
  kUnknown = 999,
};

// The driver's numeric constants.
enum DeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxBlockDimX = 2,
  kMaxBlockDimY = 3,
  kMaxBlockDimZ = 4,
  kMaxGridDimX = 5,
  kMaxGridDimY = 6,
  kMaxGridDimZ = 7,
  kSharedPerBlock = 8,
  kWarpSize = 10,
  kRegistersPerBlock = 12,
  kClockRate = 13,
  kMultiprocessors = 16,
  kMapsHostMemory = 19,
  kConcurrentKernels = 31,
  kL2Bytes = 38,
  kThreadsPerMultiprocessor = 39,
  kUnifiedAddressing = 41,
  kMajor = 75,
  kMinor = 76,
  kSharedPerMultiprocessor = 81,
  kRegistersPerMultiprocessor = 82,
  kCooperativeLaunch = 95,
  kSharedOptin = 97,
  kVirtualMemory = 102,
  kBlocksPerMultiprocessor = 106,
  kMemoryPools = 115,
  kClusterLaunch = 120,
};
enum FunctionAttribute : int {
  kFunctionMaxThreads = 0,
  kFunctionShared = 1,
  kFunctionConst = 2,
  kFunctionLocal = 3,
  kFunctionRegisters = 4,
  kFunctionPtxVersion = 5,
  kFunctionBinaryVersion = 6,
  kFunctionMaxDynamicShared = 8,
};
enum JitOption : int { kJitInfoLog = 3, kJitInfoLogBytes = 4, kJitErrorLog = 5, kJitErrorLogBytes = 6 };
enum JitInput : int { kJitInputCubin = 0, kJitInputPtx = 1 };
enum : unsigned { kStreamNonBlocking = 1, kEventDisableTiming = 2 };
enum LaunchAttribute : int { kLaunchIgnore = 0, kLaunchCooperative = 2, kLaunchCluster = 4, kLaunchPriority = 8 };
enum : int { kLocationDevice = 1, kAllocationPinned = 1, kAccessNone = 0, kAccessRead = 1, kAccessReadWrite = 3 };
enum TensorMapValue : int {
  kTensorMapF16 = 6,
  kTensorMapBf16 = 9,
  kTensorMapNotInterleaved = 0,
  kTensorMapSwizzle64 = 2,
  kTensorMapSwizzle128 = 3,
  kTensorMapPromote256 = 3,
  kTensorMapFillZeros = 0,
};
enum PoolAttribute : int {
  kPoolReuseEvents = 1,
  kPoolReuseOpportunistic = 2,
  kPoolReuseInternal = 3,
  kPoolReleaseThreshold = 4,
  kPoolReserved = 5,
  kPoolReservedHigh = 6,
  kPoolUsed = 7,
  kPoolUsedHigh = 8,
};
enum GraphNodeType : int { kNodeKernel = 0, kNodeMemcpy = 1, kNodeMemset = 2, kNodeHost = 3, kNodeGraph = 4 };
enum GraphUpdate : int { kUpdateSuccess = 0, kUpdateError = 1, kUpdateTopologyChanged = 2 };
enum MemoryType : int { kHost = 1, kDevice = 2, kArray = 3, kUnified = 4 };

struct CUDA_MEMCPY2D {
  size_t srcXInBytes, srcY;
  int srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  size_t srcPitch;
  size_t dstXInBytes, dstY;
  int dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  size_t dstPitch;
  size_t WidthInBytes, Height;
};
static_assert(sizeof(CUDA_MEMCPY2D) == 128);

struct CUmemLocation {
  int type, id;
};
struct CUmemAllocationProp {
  int type, requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  unsigned char compressionType, gpuDirectRDMACapable;
  unsigned short usage;
  unsigned char reserved[4];
};
static_assert(sizeof(CUmemAllocationProp) == 32);
struct CUmemAccessDesc {
  CUmemLocation location;
  int flags;
};
static_assert(sizeof(CUmemAccessDesc) == 12);
struct CUmemPoolProps {
  int allocType, handleTypes;
  CUmemLocation location;
  void* win32SecurityAttributes;
  size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
};
static_assert(sizeof(CUmemPoolProps) == 88);
struct CUlaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    int cooperative, priority;
    struct {
      unsigned x, y, z;
    } cluster;
  };
};
static_assert(sizeof(CUlaunchAttribute) == 72);
struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned numAttrs;
};
static_assert(sizeof(CUlaunchConfig) == 56);
struct alignas(64) CUtensorMap {
  unsigned long long opaque[16];
};
struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  void **kernelParams, **extra;
  struct CUkern_st* kern;
  CUcontext ctx;
};
static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == 72);
struct CUgraphExecUpdateResultInfo {
  int result;
  CUgraphNode errorNode, errorFromNode;
};

// X(name, symbol of libcuda, parameters). All return CUresult. The table, the loader and the wrappers are generated
// from this list.
#define STRATA_DRIVER_ENTRIES(X)                                                                                       \
  X(cuInit, "cuInit", (unsigned flags))                                                                                \
  X(cuDriverGetVersion, "cuDriverGetVersion", (int* version))                                                          \
  X(cuGetErrorName, "cuGetErrorName", (CUresult error, const char** name))                                             \
  X(cuGetErrorString, "cuGetErrorString", (CUresult error, const char** text))                                         \
  X(cuDeviceGetCount, "cuDeviceGetCount", (int* count))                                                                \
  X(cuDeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))                                                      \
  X(cuDeviceGetName, "cuDeviceGetName", (char* name, int length, CUdevice device))                                     \
  X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, CUdevice device))                                        \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int* value, int attribute, CUdevice device))                        \
  X(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", (int* can, CUdevice device, CUdevice peer))                        \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))                      \
  X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                                      \
  X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset_v2", (CUdevice device))                                          \
  X(cuDevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", (CUdevice device, unsigned* flags, int* active))         \
  X(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext context))                                                           \
  X(cuCtxGetCurrent, "cuCtxGetCurrent", (CUcontext * context))                                                         \
  X(cuCtxGetDevice, "cuCtxGetDevice", (CUdevice * device))                                                             \
  X(cuCtxSynchronize, "cuCtxSynchronize", ())                                                                          \
  X(cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", (int* least, int* greatest))                           \
  X(cuModuleLoadData, "cuModuleLoadData", (CUmodule * module, const void* image))                                      \
  X(cuModuleLoadDataEx, "cuModuleLoadDataEx",                                                                          \
    (CUmodule * module, const void* image, unsigned count, int* options, void** values))                               \
  X(cuLinkCreate, "cuLinkCreate_v2", (unsigned count, int* options, void** values, CUlinkState* state))                \
  X(cuLinkAddData, "cuLinkAddData_v2",                                                                                 \
    (CUlinkState state, int type, void* data, size_t bytes, const char* name, unsigned count, int* options,            \
     void** values))                                                                                                   \
  X(cuLinkComplete, "cuLinkComplete", (CUlinkState state, void** cubin, size_t* bytes))                                \
  X(cuLinkDestroy, "cuLinkDestroy", (CUlinkState state))                                                               \
  X(cuModuleUnload, "cuModuleUnload", (CUmodule module))                                                               \
  X(cuModuleGetFunction, "cuModuleGetFunction", (CUfunction * function, CUmodule module, const char* name))            \
  X(cuModuleGetGlobal, "cuModuleGetGlobal_v2",                                                                         \
    (CUdeviceptr * address, size_t * bytes, CUmodule module, const char* name))                                        \
  X(cuFuncGetAttribute, "cuFuncGetAttribute", (int* value, int attribute, CUfunction function))                        \
  X(cuFuncSetAttribute, "cuFuncSetAttribute", (CUfunction function, int attribute, int value))                         \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                        \
    (int* blocks, CUfunction function, int threads, size_t dynamic_shared))                                            \
  X(cuLaunchKernel, "cuLaunchKernel",                                                                                  \
    (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,                \
     unsigned shared, CUstream stream, void** params, void** extra))                                                   \
  X(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel",                                                            \
    (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,                \
     unsigned shared, CUstream stream, void** params))                                                                 \
  X(cuLaunchHostFunc, "cuLaunchHostFunc", (CUstream stream, CUhostFn function, void* data))                            \
  X(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", (CUstream * stream, unsigned flags, int priority))       \
  X(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                                          \
  X(cuStreamSynchronize, "cuStreamSynchronize", (CUstream stream))                                                     \
  X(cuStreamQuery, "cuStreamQuery", (CUstream stream))                                                                 \
  X(cuStreamGetPriority, "cuStreamGetPriority", (CUstream stream, int* priority))                                      \
  X(cuStreamWaitEvent, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned flags))                          \
  X(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream stream, int mode))                                      \
  X(cuStreamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))                                      \
  X(cuStreamIsCapturing, "cuStreamIsCapturing", (CUstream stream, int* status))                                        \
  X(cuEventCreate, "cuEventCreate", (CUevent * event, unsigned flags))                                                 \
  X(cuEventDestroy, "cuEventDestroy_v2", (CUevent event))                                                              \
  X(cuEventRecord, "cuEventRecord", (CUevent event, CUstream stream))                                                  \
  X(cuEventQuery, "cuEventQuery", (CUevent event))                                                                     \
  X(cuEventSynchronize, "cuEventSynchronize", (CUevent event))                                                         \
  X(cuEventElapsedTime, "cuEventElapsedTime", (float* milliseconds, CUevent start, CUevent end))                       \
  X(cuMemGetInfo, "cuMemGetInfo_v2", (size_t * free, size_t * total))                                                  \
  X(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr * address, size_t bytes))                                                \
  X(cuMemFree, "cuMemFree_v2", (CUdeviceptr address))                                                                  \
  X(cuMemAllocAsync, "cuMemAllocAsync", (CUdeviceptr * address, size_t bytes, CUstream stream))                        \
  X(cuMemFreeAsync, "cuMemFreeAsync", (CUdeviceptr address, CUstream stream))                                          \
  X(cuMemHostAlloc, "cuMemHostAlloc", (void** address, size_t bytes, unsigned flags))                                  \
  X(cuMemFreeHost, "cuMemFreeHost", (void* address))                                                                   \
  X(cuMemHostRegister, "cuMemHostRegister_v2", (void* address, size_t bytes, unsigned flags))                          \
  X(cuMemHostUnregister, "cuMemHostUnregister", (void* address))                                                       \
  X(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", (CUdeviceptr * address, void* host, unsigned flags))    \
  X(cuMemcpyHtoD, "cuMemcpyHtoD_v2", (CUdeviceptr to, const void* from, size_t bytes))                                 \
  X(cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void* to, CUdeviceptr from, size_t bytes))                                       \
  X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr to, const void* from, size_t bytes, CUstream stream))      \
  X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void* to, CUdeviceptr from, size_t bytes, CUstream stream))            \
  X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))      \
  X(cuMemcpy2DAsync, "cuMemcpy2DAsync_v2", (const CUDA_MEMCPY2D* copy, CUstream stream))                               \
  X(cuMemsetD8Async, "cuMemsetD8Async", (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))          \
  X(cuMemsetD32Async, "cuMemsetD32Async", (CUdeviceptr to, unsigned value, size_t count, CUstream stream))             \
  X(cuLaunchKernelEx, "cuLaunchKernelEx",                                                                              \
    (const CUlaunchConfig* config, CUfunction function, void** params, void** extra))                                  \
  X(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled",                                                                  \
    (CUtensorMap * map, int type, unsigned rank, void* address, const unsigned long long* sizes,                       \
     const unsigned long long* strides, const unsigned* box, const unsigned* steps, int interleave, int swizzle,       \
     int promotion, int fill))                                                                                         \
  X(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", (CUcontext peer, unsigned flags))                                  \
  X(cuCtxDisablePeerAccess, "cuCtxDisablePeerAccess", (CUcontext peer))                                                \
  X(cuMemcpyPeerAsync, "cuMemcpyPeerAsync",                                                                            \
    (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream))   \
  X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity",                                                    \
    (size_t * bytes, const CUmemAllocationProp* prop, int option))                                                     \
  X(cuMemAddressReserve, "cuMemAddressReserve",                                                                        \
    (CUdeviceptr * address, size_t bytes, size_t align, CUdeviceptr wish, unsigned long long flags))                   \
  X(cuMemAddressFree, "cuMemAddressFree", (CUdeviceptr address, size_t bytes))                                         \
  X(cuMemCreate, "cuMemCreate",                                                                                        \
    (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp* prop, unsigned long long flags))  \
  X(cuMemRelease, "cuMemRelease", (CUmemGenericAllocationHandle handle))                                               \
  X(cuMemMap, "cuMemMap",                                                                                              \
    (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)) \
  X(cuMemUnmap, "cuMemUnmap", (CUdeviceptr address, size_t bytes))                                                     \
  X(cuMemSetAccess, "cuMemSetAccess", (CUdeviceptr address, size_t bytes, const CUmemAccessDesc* desc, size_t count))  \
  X(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", (CUmemoryPool * pool, CUdevice device))                    \
  X(cuDeviceSetMemPool, "cuDeviceSetMemPool", (CUdevice device, CUmemoryPool pool))                                    \
  X(cuDeviceGetMemPool, "cuDeviceGetMemPool", (CUmemoryPool * pool, CUdevice device))                                  \
  X(cuMemPoolCreate, "cuMemPoolCreate", (CUmemoryPool * pool, const CUmemPoolProps* props))                            \
  X(cuMemPoolDestroy, "cuMemPoolDestroy", (CUmemoryPool pool))                                                         \
  X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", (CUmemoryPool pool, int attribute, void* value))                   \
  X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", (CUmemoryPool pool, int attribute, void* value))                   \
  X(cuMemPoolTrimTo, "cuMemPoolTrimTo", (CUmemoryPool pool, size_t keep))                                              \
  X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync",                                                                \
    (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream))                                         \
  X(cuGraphExecUpdate, "cuGraphExecUpdate_v2", (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo * info))  \
  X(cuGraphGetNodes, "cuGraphGetNodes", (CUgraph graph, CUgraphNode * nodes, size_t * count))                          \
  X(cuGraphNodeGetType, "cuGraphNodeGetType", (CUgraphNode node, int* type))                                           \
  X(cuGraphKernelNodeGetParams, "cuGraphKernelNodeGetParams_v2", (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS * params)) \
  X(cuGraphInstantiate, "cuGraphInstantiateWithFlags", (CUgraphExec * exec, CUgraph graph, unsigned long long flags))  \
  X(cuGraphLaunch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream))                                               \
  X(cuGraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec exec))                                                      \
  X(cuGraphDestroy, "cuGraphDestroy", (CUgraph graph))

struct Table {
#define STRATA_DRIVER_FIELD(name, symbol, parameters) CUresult(*name) parameters = nullptr;
  STRATA_DRIVER_ENTRIES(STRATA_DRIVER_FIELD)
#undef STRATA_DRIVER_FIELD
};

// libcuda, opened on first use. Null if it is not available: why_not() then says what was tried and what to do.
STRATA_API const Table* libcuda();
STRATA_API const std::string& why_not();

}  // namespace strata::cuda::driver
