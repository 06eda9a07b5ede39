#include "cuda/libs/cublaslt.h"

#include "cuda/libs/libraries.h"

namespace strata::cuda::cublaslt {

const Functions* functions() {
  static Functions f;
  static const bool usable = find_all(vendor_library(Vendor::CublasLt).library, [](const auto& find) {
    find(f.create, "cublasLtCreate");
    find(f.status_name, "cublasLtGetStatusName");
    find(f.desc_create, "cublasLtMatmulDescCreate");
    find(f.desc_destroy, "cublasLtMatmulDescDestroy");
    find(f.desc_set, "cublasLtMatmulDescSetAttribute");
    find(f.layout_create, "cublasLtMatrixLayoutCreate");
    find(f.layout_destroy, "cublasLtMatrixLayoutDestroy");
    find(f.layout_set, "cublasLtMatrixLayoutSetAttribute");
    find(f.preference_create, "cublasLtMatmulPreferenceCreate");
    find(f.preference_destroy, "cublasLtMatmulPreferenceDestroy");
    find(f.preference_set, "cublasLtMatmulPreferenceSetAttribute");
    find(f.heuristic, "cublasLtMatmulAlgoGetHeuristic");
    find(f.matmul, "cublasLtMatmul");
  });
  return usable ? &f : nullptr;
}

}  // namespace strata::cuda::cublaslt
