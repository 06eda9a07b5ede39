// Prepared products of cuBLASLt, kept by their geometry.
//
// cuBLASLt is column-major. It computes the transposed product d' = b' a', which has the same bytes as d in row-major
// order. Its heuristic is queried once per geometry, and the result is cached.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>

#include "cuda/libs/cublaslt.h"

namespace strata::cuda::cublaslt {

enum class Bias : int64_t { No, Yes };
enum class Activation : int64_t { None, Relu, Gelu };  // Gelu: the tanh approximation
enum class Scales : int64_t { None, Numbers, Rows };   // of 8-bit floats; Rows: one per row of a and column of b

// The key of the cache. All fields have 8 bytes, so that there is no padding.
struct Geometry {
  int64_t device, m, n, k, a_along_k, b_along_k, lda, ldb, ldc, ldd;
  int64_t a_type, b_type, d_type, bias_type, compute, scale_type;  // DataType and ComputeType; c is of d's type
  int64_t batch, a_batch, b_batch, c_batch, d_batch;               // the batch dimension that one launch covers
  int64_t adds;                                                    // whether beta is not 0
  Bias bias;
  Activation activation;
  int64_t keeps_argument;  // whether the argument of Gelu is written too
  Scales scales;
  int64_t fast;          // 8-bit floats: sums may be less exact
  int64_t alignment[4];  // of a, b, c and d in bytes, at most 16
};

struct Layouts {
  Layout first = nullptr, second = nullptr, c = nullptr, d = nullptr;
};

// A prepared product: descriptors and the recommended algorithm. `found` is false if there is none, `refused` is true
// if cublasLtMatmul did not accept it.
struct Prepared {
  const Functions& f;
  const Handle handle;
  MatmulDesc desc = nullptr;
  Layouts layouts;
  HeuristicResult chosen{};
  bool found = false;
  std::atomic<bool> refused = false;
  std::mutex lock;  // held while the descriptor carries addresses

  Prepared(const Functions& functions, Handle h) : f(functions), handle(h) {}
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared();
};

void check(const Functions& f, Status status, const char* what);
// Checks the status of cublasLtMatmul. For some small products of float8, the heuristic recommends what cublasLtMatmul
// then does not support; it has not started anything, so another kernel can run (record/declined.h).
void check_product(Prepared& p, Status status);
// Null, or why cuBLASLt cannot run it.
const char* objection_to(const Prepared& p);
std::shared_ptr<Prepared> find_prepared(const Functions& f, const Geometry& g);
// Of an address and of multiples of a stride in bytes from it.
int64_t alignment(uint64_t address, int64_t stride_bytes);

}  // namespace strata::cuda::cublaslt
