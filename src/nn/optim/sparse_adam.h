// SparseAdam: Adam for sparse gradients, such as those of Embedding with sparse=true. A step changes the rows that the
// gradient has, and the running means of these rows; the means of the others do not decay.
#pragma once
#include "nn/optim/optimizer.h"

namespace strata::optim {

struct SparseAdamOptions {
  Option lr = Option::preset(1e-3);
  OptionPair betas = OptionPair::preset(0.9, 0.999);
  Option eps = Option::preset(1e-8), maximize = Option::preset(0);
};

class STRATA_API SparseAdam : public Optimizer {
 public:
  explicit SparseAdam(std::vector<Tensor> params, const SparseAdamOptions& options = {});
  // Parameters with their own options; those not given are the constructor's.
  void add_group(std::vector<Tensor> params, const SparseAdamOptions& options = {});

 protected:
  void update(Group& group) override;
};

}  // namespace strata::optim
