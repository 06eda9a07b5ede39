#include "cuda/libs/cublaslt.h"

#include "cuda/libs/libraries.h"

namespace strata::cuda::cublaslt {
namespace {

// All of them, or none.
bool load(const Library& library, Functions& f) {
  bool complete = true;
  const auto find = [&]<class F>(F& function, const char* symbol) {
    function = library.find<F>(symbol);
    complete &= function != nullptr;
  };
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
  return complete;
}
}  // namespace

const Functions* functions() {
  static const Functions* const loaded = [] {
    const Library& library = vendor_library(Vendor::CublasLt).library;
    static Functions f;
    return library && load(library, f) ? &f : nullptr;
  }();
  return loaded;
}

}  // namespace strata::cuda::cublaslt
