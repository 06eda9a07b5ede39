// In the place of NvInfer.h, NvOnnxParser.h and cuda_runtime_api.h: programs of TensorRT build and run engines of Strata. They run on
// a GPU if there is one, else on the CPU, or where strata::engine::set_nvinfer_device() says.
#pragma once
#include "strata/strata.h"

#include "engine/nvinfer.h"

#ifndef __CUDA_RUNTIME_API_H__
#include <new>

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2 };
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};

template <class T> cudaError_t cudaMalloc(T** memory, size_t bytes) noexcept {
  try {
    *memory = static_cast<T*>(strata::engine::take_memory(bytes));
  } catch (const std::exception&) { return cudaErrorMemoryAllocation; }
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) noexcept {
  strata::engine::give_memory(memory);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) noexcept {
  try {
    strata::engine::copy_memory(to, from, bytes);
  } catch (const std::exception&) { return cudaErrorInvalidValue; }
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t) noexcept {
  return cudaMemcpy(to, from, bytes, kind);
}
#endif
