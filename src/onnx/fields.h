// The numbers of ONNX's messages (onnx.proto), in one place: the reader and the writer use them.
#pragma once
#include <cstdint>

namespace strata::onnx {

// Newest version of the default operator set whose ops this reader knows, and the oldest.
constexpr int64_t kNewestOpset = 28, kOldestOpset = 7;
constexpr int64_t kNewestIr = 14;

enum class ElementType : int32_t {
  Undefined = 0,
  Float = 1,
  UInt8 = 2,
  Int8 = 3,
  UInt16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  String = 8,
  Bool = 9,
  Float16 = 10,
  Double = 11,
  UInt32 = 12,
  UInt64 = 13,
  Complex64 = 14,
  Complex128 = 15,
  BFloat16 = 16,
  Float8E4M3FN = 17,
  Float8E4M3FNUZ = 18,
  Float8E5M2 = 19,
  Float8E5M2FNUZ = 20,
  UInt4 = 21,
  Int4 = 22,
  Float4E2M1 = 23,
  Float8E8M0 = 24,
  UInt2 = 25,
  Int2 = 26,
  Float6E2M3 = 27,
  Float6E3M2 = 28,
};

enum class AttributeKind : int32_t {
  Undefined = 0,
  Float = 1,
  Int = 2,
  String = 3,
  Tensor = 4,
  Graph = 5,
  Floats = 6,
  Ints = 7,
  Strings = 8,
  Tensors = 9,
  Graphs = 10,
  SparseTensor = 11,
  SparseTensors = 12,
  Type = 13,
  Types = 14,
};

namespace field {

enum Model : uint32_t {
  kIrVersion = 1,
  kProducerName = 2,
  kProducerVersion = 3,
  kModelDomain = 4,
  kModelVersion = 5,
  kModelDoc = 6,
  kModelGraph = 7,
  kOpsetImport = 8,
  kModelMetadata = 14,
  kFunctions = 25,
};
enum Opset : uint32_t { kOpsetDomain = 1, kOpsetVersion = 2 };
enum Entry : uint32_t { kKey = 1, kValue = 2 };
enum Graph : uint32_t {
  kNode = 1,
  kGraphName = 2,
  kInitializer = 5,
  kGraphDoc = 10,
  kGraphInput = 11,
  kGraphOutput = 12,
  kSparseInitializer = 15,
};
enum Node : uint32_t {
  kNodeInput = 1,
  kNodeOutput = 2,
  kNodeName = 3,
  kOpType = 4,
  kNodeAttribute = 5,
  kNodeDomain = 7,
  kOverload = 8,
};
enum Attribute : uint32_t {
  kAttributeName = 1,
  kF = 2,
  kI = 3,
  kS = 4,
  kT = 5,
  kG = 6,
  kFloats = 7,
  kInts = 8,
  kStrings = 9,
  kTensors = 10,
  kGraphs = 11,
  kTypeProto = 14,
  kTypeProtos = 15,
  kAttributeType = 20,
  kReference = 21,
  kSparse = 22,
  kSparses = 23,
};
enum Tensor : uint32_t {
  kDims = 1,
  kDataType = 2,
  kSegment = 3,
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kTensorName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUInt64Data = 11,
  kExternalData = 13,
  kDataLocation = 14,
};
enum Sparse : uint32_t { kSparseValues = 1, kSparseIndices = 2, kSparseDims = 3 };
enum ValueInfo : uint32_t { kValueName = 1, kValueType = 2 };
enum Type : uint32_t {
  kTensorType = 1,
  kSequenceType = 4,
  kMapType = 5,
  kSparseType = 8,
  kOptionalType = 9,
};
enum TensorType : uint32_t { kElementType = 1, kShape = 2 };
enum Shape : uint32_t { kDim = 1, kDimValue = 1, kDimParam = 2 };
enum Function : uint32_t {
  kFunctionName = 1,
  kFunctionInput = 4,
  kFunctionOutput = 5,
  kFunctionAttribute = 6,
  kFunctionNode = 7,
  kFunctionOpset = 9,
  kFunctionDomain = 10,
  kFunctionAttributeDefault = 11,
  kFunctionOverload = 13,
};

}  // namespace field
}  // namespace strata::onnx
