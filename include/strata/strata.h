// Everything a C++ program needs: tensors, ops, autograd, modules, data, files.
#pragma once
#define STRATA_TENSOR_METHODS
#include "autograd/autograd.h"
#include "autograd/function.h"
#include "autograd/gradcheck.h"
#include "base/parallel.h"
#include "nn/containers.h"
#include "nn/data/idx.h"
#include "nn/data/image_sets.h"
#include "nn/files/checkpoint.h"
#include "ops/index_expr.h"
#include "strata/nn/modules.h"
#include "strata/operators.h"
#include "strata/ops.h"
#include "strata/tensor_methods.h"
#include "tensor/generator.h"
#include "tensor/tensor.h"
