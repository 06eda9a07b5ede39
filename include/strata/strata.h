// Everything a C++ program needs: tensors, ops, autograd, optimizers.
#pragma once
#define STRATA_TENSOR_METHODS
#include "autograd/autograd.h"
#include "autograd/function.h"
#include "autograd/gradcheck.h"
#include "base/parallel.h"
#include "nn/optim/lbfgs.h"
#include "nn/optim/lr_scheduler.h"
#include "nn/optim/rules.h"
#include "ops/index_expr.h"
#include "strata/operators.h"
#include "strata/ops.h"
#include "strata/tensor_methods.h"
#include "tensor/generator.h"
#include "tensor/tensor.h"
