// Inference engines: builder, engine, contexts, plans, reports.
#pragma once
#include "strata/strata.h"

#include "engine/builder.h"
#include "engine/config.h"
#include "engine/definition.h"
#include "engine/engine.h"
#include "engine/network.h"
#include "engine/plan.h"
#include "engine/report.h"
#include "engine/trace.h"
