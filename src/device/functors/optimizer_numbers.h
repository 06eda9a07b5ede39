// The members of the update rules (optimizers.h) in one step of one parameter: everything that depends on the step
// count, in double. The host computes them, or the device if the count is there and the host must not wait.
//
// Each rule's options come first, all of them numbers, with the learning rate first. `kept` are the numbers that the
// optimizer keeps with the parameter, the step count first; they are advanced.
#pragma once
#include "device/math.h"

namespace strata::fn {

// The first three members of every rule: see Regularize.
struct Penalty {
  double sign, decay, shrink;
  STRATA_FN Penalty(double maximize, double weight_decay, double decoupled = 0, double lr = 0)
      : sign(maximize != 0 ? -1 : 1),
        decay(decoupled != 0 ? 0 : weight_decay),
        shrink(decoupled != 0 ? 1 - lr * weight_decay : 1) {}
};
template <class... V> STRATA_FN void put(double* members, const Penalty& p, V... rest) {
  const double all[] = {p.sign, p.decay, p.shrink, rest...};
  for (unsigned k = 0; k < sizeof(all) / sizeof(double); ++k) members[k] = all[k];
}

struct SgdNumbers {
  double lr, maximize, weight_decay, momentum, dampening, nesterov, first;
  STRATA_FN void operator()(double*, double* members) const {
    put(members, {maximize, weight_decay}, lr, momentum, 1 - dampening, nesterov, first);
  }
};

struct AdamNumbers {
  double lr, maximize, weight_decay, decoupled, beta1, beta2, eps, amsgrad;
  STRATA_FN void operator()(double* kept, double* members) const {
    const double t = kept[0] += 1;
    put(members, {maximize, weight_decay, decoupled, lr}, 1 - beta1, beta2, 1 - beta2, 1 / ::sqrt(1 - ::pow(beta2, t)),
        eps, lr / (1 - ::pow(beta1, t)), amsgrad);
  }
};

struct NadamNumbers {  // also keeps the product of the momenta so far
  double lr, maximize, weight_decay, decoupled, beta1, beta2, eps, momentum_decay;
  STRATA_FN void operator()(double* kept, double* members) const {
    const double t = kept[0] += 1;
    const double mu = beta1 * (1 - 0.5 * ::pow(0.96, t * momentum_decay));
    const double next = beta1 * (1 - 0.5 * ::pow(0.96, (t + 1) * momentum_decay));
    const double product = kept[1] *= mu;
    put(members, {maximize, weight_decay, decoupled, lr}, 1 - beta1, beta2, 1 - beta2, 1 / (1 - ::pow(beta2, t)), eps,
        lr * (1 - mu) / (1 - product), lr * next / (1 - product * next));
  }
};

struct RadamNumbers {
  double lr, maximize, weight_decay, decoupled, beta1, beta2, eps;
  STRATA_FN void operator()(double* kept, double* members) const {
    const double t = kept[0] += 1, power = ::pow(beta2, t), correction = 1 - power;
    const double longest = 2 / (1 - beta2) - 1, length = longest - 2 * t * power / correction;
    const double adaptive =
      length > 5 ? ::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length) * correction)
                 : 0;
    put(members, {maximize, weight_decay, decoupled, lr}, 1 - beta1, beta2, 1 - beta2, eps, lr / (1 - ::pow(beta1, t)),
        adaptive);
  }
};

struct AdamaxNumbers {
  double lr, maximize, weight_decay, beta1, beta2, eps;
  STRATA_FN void operator()(double* kept, double* members) const {
    const double t = kept[0] += 1;
    put(members, {maximize, weight_decay}, 1 - beta1, beta2, eps, lr / (1 - ::pow(beta1, t)));
  }
};

struct AdagradNumbers {
  double lr, maximize, weight_decay, lr_decay, eps;
  STRATA_FN void operator()(double* kept, double* members) const {
    const double t = kept[0] += 1;
    put(members, {maximize, weight_decay}, lr / (1 + (t - 1) * lr_decay), eps);
  }
};

struct AdadeltaNumbers {
  double lr, maximize, weight_decay, rho, eps;
  STRATA_FN void operator()(double* kept, double* members) const {
    kept[0] += 1;
    put(members, {maximize, weight_decay}, rho, 1 - rho, eps, lr);
  }
};

struct RmspropNumbers {
  double lr, maximize, weight_decay, alpha, eps, momentum, centered;
  STRATA_FN void operator()(double* kept, double* members) const {
    kept[0] += 1;
    put(members, {maximize, weight_decay}, lr, alpha, 1 - alpha, eps, momentum, centered);
  }
};

struct AsgdNumbers {  // also keeps the rate and the weight of the next step
  double lr, maximize, weight_decay, lambd, alpha, t0;
  STRATA_FN void operator()(double* kept, double* members) const {
    const double t = kept[0] += 1;
    put(members, {maximize, weight_decay}, kept[1], 1 - lambd * kept[1], kept[2]);
    kept[1] = lr / ::pow(1 + lambd * lr * t, alpha);
    kept[2] = 1 / ::fmax(1.0, t - t0);
  }
};

struct RpropNumbers {
  double lr, maximize, etaminus, etaplus, smallest, largest;  // lr: of the first step only, which is state
  STRATA_FN void operator()(double* kept, double* members) const {
    kept[0] += 1;
    put(members, {maximize, 0}, etaminus, etaplus, smallest, largest);
  }
};

}  // namespace strata::fn
