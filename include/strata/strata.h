// Everything a C++ program needs: tensors, ops, autograd, modules, optimizers, data, files.
#pragma once
#ifndef STRATA_TENSOR_METHODS  // targets that link Strata::strata have it already: then headers may stand in any order
#define STRATA_TENSOR_METHODS
#endif
#include "autograd/autograd.h"
#include "autograd/function.h"
#include "autograd/gradcheck.h"
#include "base/parallel.h"
#include "nn/containers.h"
#include "nn/data/idx.h"
#include "nn/data/image_sets.h"
#include "nn/data/synthetic_digits.h"
#include "nn/files/checkpoint.h"
#include "nn/optim/lbfgs.h"
#include "nn/optim/lr_scheduler.h"
#include "nn/optim/rules.h"
#include "ops/index_expr.h"
#include "strata/nn/modules.h"
#include "strata/operators.h"
#include "strata/ops.h"
#include "strata/tensor_methods.h"
#include "tensor/generator.h"
#include "tensor/tensor.h"
