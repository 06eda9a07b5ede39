// Everything a C++ program needs: tensors, ops, autograd.
#pragma once
#include "autograd/autograd.h"
#include "base/parallel.h"
#include "ops/index_expr.h"
#include "strata/operators.h"
#include "strata/ops.h"
#include "tensor/generator.h"
#include "tensor/tensor.h"
