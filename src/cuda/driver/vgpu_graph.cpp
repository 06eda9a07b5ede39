// Captured graphs: the work of one or more streams, kept in the order of the calls, which respects every dependency.
#include "base/error.h"
#include "cuda/driver/vgpu_state.h"

namespace strata::cuda::driver::virtual_gpu {

void add_graphs(Table& t) {
  t.cuStreamBeginCapture = [](CUstream stream, int) -> CUresult {
    return guarded([&]() -> CUresult {
      Device* d = nullptr;
      if (const CUresult r = current(d)) return r;
      Stream* s = find_stream(stream, *d);
      if (!s) return say(kInvalidHandle, "no such stream on this device");
      if (s == &d->default_stream)
        return say(kStreamCaptureUnsupported, "the default stream cannot be captured; make one");
      if (s->capture) return say(kInvalidValue, "this stream captures already");
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
      if (!out || !s->capture) return say(kInvalidValue, "this stream captures nothing");
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
      return enqueue(*d, *s, [graph = g->second] {
        for (const auto& work : graph->work) work();
      });
    });
  };
  t.cuGraphExecUpdate = [](CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) -> CUresult {
    return guarded([&]() -> CUresult {
      if (!info) return kInvalidValue;
      *info = {kUpdateError, nullptr, nullptr};
      const auto e = state().execs.find(exec);
      const auto g = state().graphs.find(graph);
      if (e == state().execs.end() || g == state().graphs.end()) return say(kInvalidHandle, "no such graph");
      if (e->second->work.size() != g->second->work.size()) {  // the driver compares kinds and edges, too
        info->result = kUpdateTopologyChanged;
        return say(kGraphExecUpdateFailure, fmt::format("the graph has {} pieces of work, the executable one {}",
                                                        g->second->work.size(), e->second->work.size()));
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
