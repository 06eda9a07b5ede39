// The part of cuDNN's backend (graph) interface that Strata uses: descriptors with attributes, from which the library
// makes execution plans.
#pragma once
#include <cstddef>
#include <cstdint>

#include "cuda/driver/api.h"

namespace strata::cuda::cudnn {

// Names and numbers as in cudnn_graph.h.
enum DataType : int { kFloat = 0, kHalf = 2, kBfloat16 = 9 };
enum ConvolutionMode : int { kCrossCorrelation = 1 };
enum HeuristicMode : int { kHeuristicFallback = 2, kHeuristicA = 3 };

enum AttributeType : int {
  kTypeHandle = 0,
  kTypeDataType = 1,
  kTypeBoolean = 2,
  kTypeInt64 = 3,
  kTypeFloat = 4,
  kTypeVoidPointer = 6,
  kTypeConvolutionMode = 7,
  kTypeHeuristicMode = 8,
  kTypeNumericalNote = 11,
  kTypePointwiseMode = 14,
  kTypeDescriptor = 15,
};

enum PointwiseMode : int { kPointwiseAdd = 0, kPointwiseRelu = 100 };

enum DescriptorType : int {
  kDescPointwise = 0,
  kDescConvolution = 1,
  kDescEngine = 2,
  kDescEngineConfig = 3,
  kDescHeuristic = 4,
  kDescPlan = 5,
  kDescForward = 10,
  kDescBackwardFilter = 11,
  kDescBackwardData = 12,
  kDescPointwiseOperation = 13,
  kDescGraph = 15,
  kDescVariantPack = 16,
  kDescTensor = 17,
};

enum Attribute : int {
  kPointwiseModeOf = 0,
  kPointwiseComputeType = 1,
  kConvolutionComputeType = 100,
  kConvolutionMode = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPostPaddings = 104,
  kConvolutionPrePaddings = 105,
  kConvolutionSpatialDims = 106,
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kForwardAlpha = 700,         // then beta, the convolution, w, x, y
  kBackwardDataAlpha = 706,    // then beta, the convolution, w, dx, dy
  kBackwardFilterAlpha = 712,  // then beta, the convolution, dw, x, dy
  kOperationPointwise = 750,
  kOperationX = 751,
  kOperationB = 752,
  kOperationY = 753,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorDataType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineNumericalNotes = 1303,
};

enum NumericalNote : int {
  kNoteTensorCore = 0,
  kNoteDownConverts = 1,
  kNoteReducedReduction = 2,
  kNoteFft = 3,
  kNoteNondeterministic = 4,
  kNoteWinograd = 5,
  kNoteWinograd6x6 = 7,
  kNoteWinograd13x13 = 8,
  kNotes = 10,
};

using Status = int;  // 0: success
using Handle = struct Context*;
using BackendDescriptor = void*;

struct Functions {
  Status (*create)(Handle*);
  Status (*set_stream)(Handle, driver::CUstream);
  const char* (*status_name)(Status);
  Status (*descriptor_create)(int type, BackendDescriptor*);
  Status (*descriptor_destroy)(BackendDescriptor);
  Status (*descriptor_finalize)(BackendDescriptor);
  Status (*descriptor_set)(BackendDescriptor, int attribute, int type, int64_t count, const void* values);
  Status (*descriptor_get)(BackendDescriptor, int attribute, int type, int64_t room, int64_t* count, void* values);
  Status (*execute)(Handle, BackendDescriptor plan, BackendDescriptor pack);
};

// Null if the library cannot be used; vendor_library(Vendor::Cudnn) has the reason. Opened at the first call.
const Functions* functions();

}  // namespace strata::cuda::cudnn
