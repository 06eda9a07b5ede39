// A few names that PyTorch programs use.
#include <cmath>

#include "base/checked.h"
#include "base/host_memory.h"
#include "ops/pointwise/pointwise.h"
#include "strata/ops.h"

namespace strata {

STRATA_OP(sum_to_size, "sum_to_size(Tensor(a) input, int[] size) -> Tensor(a)")
  .doc("The sum over the dimensions in which size is 1 or missing: the adjoint of broadcasting from size.")
  .no_out()
  .composite([](const Tensor& input, IntList size) {
    const int lead = input.dim() - static_cast<int>(size.size);
    std::vector<int64_t> dims;
    for (int d = 0; d < input.dim(); ++d) {
      const int64_t want = d < lead ? 1 : size[static_cast<size_t>(d - lead)], have = input->shape[d];
      STRATA_CHECK(lead >= 0 && (want == 1 || want == have), Runtime,
                   "sum_to_size: size {} is not expandable to shape {}", to_string(size), to_string(input.shape()));
      if (d < lead || want != have) dims.push_back(d);
    }
    STRATA_CHECK(lead >= 0, Runtime, "sum_to_size: size {} is not expandable to shape {}", to_string(size),
                 to_string(input.shape()));
    return dims.empty() ? view(input, size) : reshape(sum(input, dims, true), size);
  })
  .add_dtypes(kComplexTypes)
  .samples({"f(2,3,4), [3,1]", "f(3,4), [3,4]", "f(3), []"})
  .error("f(3,4), [2]", ErrorKind::Runtime, "not expandable");

STRATA_OP(unsafe_chunk, "unsafe_chunk(Tensor(a) input, int chunks, int dim=0) -> Tensor(a)[]")
  .doc("Like chunk: the pieces may be written to, since every write is tracked.")
  .composite([](const Tensor& input, int64_t chunks, int64_t dim) { return chunk(input, chunks, dim); })
  .add_dtypes(kComplexTypes)
  .samples({"f(6,2), 3"});

STRATA_OP(unsafe_split, "unsafe_split(Tensor(a) input, int split_size, int dim=0) -> Tensor(a)[]")
  .doc("Like split: the pieces may be written to, since every write is tracked.")
  .composite([](const Tensor& input, int64_t split_size, int64_t dim) { return split(input, split_size, dim); })
  .add_dtypes(kComplexTypes)
  .samples({"f(6,2), 3"});

STRATA_OP(mvlgamma, "mvlgamma(Tensor input, int p) -> Tensor")
  .doc("The logarithm of the multivariate gamma function of dimension p.")
  .dtypes(kNumericTypes)
  .alias("special.multigammaln")
  .inplace()
  .composite([](const Tensor& input, int64_t p) {
    STRATA_CHECK(p >= 1, Runtime, "mvlgamma: p has to be greater than or equal to 1, got {}", p);
    if (!input.is_meta())
      check_host_memory((Checked(p) * std::max<int64_t>(input.numel(), 1)).get(), sizeof(double), "mvlgamma");
    const Tensor x = is_floating(input.dtype()) ? input : to(input, default_dtype());
    const Tensor steps = mul(arange(static_cast<double>(p)), 0.5);
    const Tensor terms = lgamma(sub(unsqueeze(x, -1), to(steps, x.dtype())));
    return add(sum(terms, int64_t{-1}), static_cast<double>(p) * static_cast<double>(p - 1) / 4 * std::log(M_PI));
  })
  .samples({"o(3,4), 2", "o(3), 1"})
  .error("o(3), 0", ErrorKind::Runtime, "greater than or equal to 1")
  .error("o(3), 1099511627776", ErrorKind::OutOfMemory, "not enough memory");

STRATA_OP(empty_permuted,
          "empty_permuted(int[] size, int[] physical_layout, *, dtype? dtype=None, device? device=None, bool "
          "requires_grad=False) -> Tensor")
  .doc("A new uninitialized tensor whose dimensions are in memory in the given order, outermost first.")
  .no_out()
  .draws()
  .composite([](IntList size, IntList physical_layout, std::optional<DType> dtype, std::optional<Device> device,
                bool requires_grad) {
    STRATA_CHECK(size.size == physical_layout.size, Runtime,
                 "empty_permuted: {} sizes and {} dimensions in physical_layout", size.size, physical_layout.size);
    std::vector<int64_t> strides(size.size), seen(size.size);
    int64_t step = 1;
    for (size_t k = size.size; k-- > 0;) {
      const int64_t d = physical_layout[k];
      STRATA_CHECK(d >= 0 && d < static_cast<int64_t>(size.size) && !seen[static_cast<size_t>(d)]++, Runtime,
                   "empty_permuted: physical_layout {} must name each dimension once", to_string(physical_layout));
      strides[static_cast<size_t>(d)] = step;
      step = (Checked(step) * std::max<int64_t>(size[static_cast<size_t>(d)], 1)).get();
    }
    return empty_strided(size, strides, dtype, device, requires_grad);
  })
  .samples({"[2,3,4], [0,2,1]"})
  .error("[2,3], [0,0]", ErrorKind::Runtime, "each dimension once");

}  // namespace strata
