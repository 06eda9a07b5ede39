// Generated: every op as a typed function. Do not edit.
#pragma once
#include "strata/ops/copy.h"
#include "strata/ops/creation.h"
