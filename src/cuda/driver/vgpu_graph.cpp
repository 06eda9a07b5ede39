// Captured graphs: the work of one or more streams, in the order of the calls, which respects every dependency.
#include <fmt/core.h>

#include "base/error.h"
#include "cuda/driver/vgpu_state.h"

namespace strata::cuda::driver::virtual_gpu {

namespace {
const Node* find_node(CUgraphNode handle) {
  for (const auto& [name, graph] : state().graphs)
    for (const Node& node : graph->work)
      if (node.handle == handle) return &node;
  return nullptr;
}
}  // namespace

void add_graphs(Table& t) {
  t.cuStreamBeginCapture = [](CUstream stream, int) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      Stream* s = find_stream(stream, *d);
      if (!s) return say(kInvalidHandle, "no such stream on this device");
      if (s == &d->default_stream)
        return say(kStreamCaptureUnsupported, "the default stream cannot be captured; make one");
      if (s->capture) return say(kInvalidValue, "this stream is already capturing");
      s->capture = std::make_shared<Graph>();
      s->capture->streams.insert(s);
      s->origin = true;
      return kSuccess;
    });
  };
  t.cuStreamEndCapture = [](CUstream stream, CUgraph* out) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      Stream* s = find_stream(stream, *d);
      if (!s) return say(kInvalidHandle, "no such stream on this device");
      if (!out || !s->capture) return say(kInvalidValue, "this stream is not capturing");
      if (!s->origin) return say(kStreamCaptureUnmatched, "the capture began in another stream");
      const std::shared_ptr<Graph> graph = s->capture;
      s->origin = false;
      for (const auto& [handle, other] : state().streams)
        if (other->capture == graph) other->capture.reset();
      for (const auto& [handle, event] : state().events)
        if (event->captured == graph) event->captured.reset();
      graph->streams.clear();
      *out = state().fresh<CUgraph>();
      state().graphs[*out] = graph;
      return kSuccess;
    });
  };
  t.cuStreamIsCapturing = [](CUstream stream, int* status) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      Stream* s = find_stream(stream, *d);
      if (!s) return say(kInvalidHandle, "no such stream on this device");
      if (!status) return kInvalidValue;
      *status = s->capture ? 1 : 0;
      return kSuccess;
    });
  };
  t.cuGraphInstantiate = [](CUgraphExec* out, CUgraph graph, unsigned long long) -> CUresult {
    return guarded([&]() -> CUresult {
      const auto g = state().graphs.find(graph);
      if (!out) return kInvalidValue;
      if (g == state().graphs.end()) return say(kInvalidHandle, "no such graph");
      *out = state().fresh<CUgraphExec>();
      state().execs[*out] = g->second;
      return kSuccess;
    });
  };
  t.cuGraphLaunch = [](CUgraphExec exec, CUstream stream) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      const auto g = state().execs.find(exec);
      Stream* s = find_stream(stream, *d);
      if (g == state().execs.end() || !s) return say(kInvalidHandle, "no such graph or stream");
      for (const auto& m : g->second->modules)
        if (m.expired()) return say(kInvalidHandle, "a module whose kernels the graph runs was unloaded");
      return enqueue(*d, *s,
                     [graph = g->second] {
                       for (const Node& node : graph->work) node.run();
                     },
                     nullptr, {kNodeGraph});
    });
  };
  t.cuGraphGetNodes = [](CUgraph graph, CUgraphNode* nodes, size_t* count) -> CUresult {
    return guarded([&]() -> CUresult {
      const auto g = state().graphs.find(graph);
      if (!count) return kInvalidValue;
      if (g == state().graphs.end()) return say(kInvalidHandle, "no such graph");
      const auto& work = g->second->work;
      for (size_t k = 0; nodes && k < *count; ++k) nodes[k] = k < work.size() ? work[k].handle : nullptr;
      *count = nodes ? std::min(*count, work.size()) : work.size();
      return kSuccess;
    });
  };
  t.cuGraphNodeGetType = [](CUgraphNode handle, int* type) -> CUresult {
    return guarded([&]() -> CUresult {
      const Node* node = find_node(handle);
      if (!node || !type) return say(kInvalidValue, "no such node");
      *type = node->info.type;
      return kSuccess;
    });
  };
  t.cuGraphKernelNodeGetParams = [](CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS* out) -> CUresult {
    return guarded([&]() -> CUresult {
      const Node* node = find_node(handle);
      if (!node || !out || node->info.type != kNodeKernel) return say(kInvalidValue, "no such node of a kernel");
      const vgpu::Launch& l = node->info.launch;
      *out = {node->info.function, l.grid.x,         l.grid.y, l.grid.z, l.block.x, l.block.y,
              l.block.z,           l.dynamic_shared, nullptr,  nullptr,  nullptr,   nullptr};
      return kSuccess;
    });
  };
  t.cuGraphExecUpdate = [](CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!info) return kInvalidValue;
      *info = {kUpdateError, nullptr, nullptr};
      const auto e = state().execs.find(exec);
      const auto g = state().graphs.find(graph);
      if (e == state().execs.end() || g == state().graphs.end()) return say(kInvalidHandle, "no such graph");
      const auto &had = e->second->work, &has = g->second->work;
      size_t k = 0;  // the first that differs; the real driver compares edges too
      while (k < had.size() && k < has.size() && had[k].info.type == has[k].info.type) ++k;
      if (k < had.size() || k < has.size()) {
        *info = {kUpdateTopologyChanged, k < has.size() ? has[k].handle : nullptr, nullptr};
        return say(kGraphExecUpdateFailure,
                   fmt::format("the graphs have {} and {} pieces of work, of which number {} is the first to differ",
                               had.size(), has.size(), k));
      }
      e->second = g->second;
      info->result = kUpdateSuccess;
      return kSuccess;
    });
  };
  t.cuGraphExecDestroy = [](CUgraphExec exec) -> CUresult {
    return guarded(
      [&]() -> CUresult { return state().execs.erase(exec) ? kSuccess : say(kInvalidHandle, "no such graph"); });
  };
  t.cuGraphDestroy = [](CUgraph graph) -> CUresult {
    return guarded(
      [&]() -> CUresult { return state().graphs.erase(graph) ? kSuccess : say(kInvalidHandle, "no such graph"); });
  };
}

}  // namespace strata::cuda::driver::virtual_gpu
