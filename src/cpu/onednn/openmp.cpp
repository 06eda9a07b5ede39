// The part of libgomp's interface that oneDNN calls, on Strata's threads. Two sets of threads would take the processors from each
// other: both poll for work for a while after a call. The loader finds these functions before libgomp's, since the module is
// opened with its own functions first. A region runs on libgomp's threads if Strata's are busy: oneDNN relies on as many
// threads as it asks for, all running at once.
#include <dlfcn.h>

#include <algorithm>

#include "base/parallel.h"
#include "cpu/onednn/module.h"

namespace strata::onednn {
namespace {

struct Libgomp {
  void (*parallel_start)(void (*)(void*), void*, unsigned);
  void (*parallel_end)();
  void (*barrier)();
  bool (*loop_static_start)(long, long, long, long, long*, long*);
  bool (*loop_static_next)(long*, long*);
  void (*loop_end_nowait)();
  int (*get_max_threads)();
  int (*get_num_threads)();
  int (*get_thread_num)();
  int (*in_parallel)();
  void (*set_num_threads)(int);
};
const Libgomp& libgomp() {
  static const Libgomp all = [] {
    void* const library = dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL);
    Libgomp g{};
    const auto find = [&]<class F>(F& f, const char* name) {
      f = library ? reinterpret_cast<F>(dlsym(library, name)) : nullptr;
      if (!f) throw std::runtime_error(std::string("libgomp.so.1 has no ") + name);
    };
    find(g.parallel_start, "GOMP_parallel_start");
    find(g.parallel_end, "GOMP_parallel_end");
    find(g.barrier, "GOMP_barrier");
    find(g.loop_static_start, "GOMP_loop_static_start");
    find(g.loop_static_next, "GOMP_loop_static_next");
    find(g.loop_end_nowait, "GOMP_loop_end_nowait");
    find(g.get_max_threads, "omp_get_max_threads");
    find(g.get_num_threads, "omp_get_num_threads");
    find(g.get_thread_num, "omp_get_thread_num");
    find(g.in_parallel, "omp_in_parallel");
    find(g.set_num_threads, "omp_set_num_threads");
    return g;
  }();
  return all;
}

// A region on Strata's threads.
struct Region {
  void (*body)(void*) = nullptr;
  void* data = nullptr;
  TeamBarrier barrier;
  int most = 1;  // threads that its caller may use
  bool started = false;
};

// Where a thread is. Without a region, it is outside of all, or in one of libgomp's.
struct Place {
  Region* region = nullptr;
  int index = 0, members = 1;
  int nested = 0;      // regions inside that one: of one thread, as libgomp has it
  int of_libgomp = 0;  // regions that this thread started on libgomp's threads
  long next = 0;       // the loop: its next block
  long first = 0, step = 1, count = 0, block = 0;

  int size() const { return nested ? 1 : members; }
  int number() const { return nested ? 0 : index; }
};
thread_local Place place;
thread_local Region own;
thread_local int wanted = 0;  // threads of the current call

void enter(void* context, int index, int members) {
  Region& r = *static_cast<Region*>(context);
  place = {};
  place.region = &r;
  place.index = index;
  place.members = members;
  r.body(r.data);
  place.region = nullptr;
}

int most_threads() {
  if (place.region) return place.region->most;
  if (libgomp().in_parallel()) return libgomp().get_max_threads();
  return wanted ? wanted : host->threads();
}

// The next block of this thread's loop: one for each thread if no size was given, otherwise every members-th.
bool next_block(long* begin, long* end) {
  Place& p = place;
  const long threads = p.size(), i = p.number();
  long from = 0, to = 0;
  if (p.block == 0) {
    if (p.next++) return false;
    const long each = p.count / threads, more = p.count % threads;
    from = each * i + std::min(i, more);
    to = from + each + (i < more ? 1 : 0);
  } else {
    from = (p.next++ * threads + i) * p.block;
    to = std::min(p.count, from + p.block);
  }
  if (from >= to) return false;
  *begin = p.first + from * p.step;
  *end = p.first + to * p.step;
  return true;
}
}  // namespace

Threads::Threads() : before_(wanted), libgomp_before_(libgomp().get_max_threads()), wanted_(host->threads()) {
  wanted = wanted_;
  if (wanted_ != libgomp_before_) libgomp().set_num_threads(wanted_);
}
Threads::~Threads() {
  wanted = before_;
  if (wanted_ != libgomp_before_) libgomp().set_num_threads(libgomp_before_);
}

#pragma GCC visibility push(default)
extern "C" {
void GOMP_parallel_start(void (*body)(void*), void* data, unsigned threads) {
  Place& p = place;
  if (p.region) {
    ++p.nested;
    return;
  }
  const int members = threads ? static_cast<int>(threads) : most_threads();
  own.body = body;
  own.data = data;
  own.most = most_threads();
  own.started = members > 1 && !p.of_libgomp && !libgomp().in_parallel() && host->start_region(members, enter, &own);
  if (members > 1 && !own.started) {
    ++p.of_libgomp;
    libgomp().parallel_start(body, data, static_cast<unsigned>(members));
    return;
  }
  p.region = &own;
  p.index = 0;
  p.members = members;
}
void GOMP_parallel_end() {
  Place& p = place;
  if (p.region && p.nested) {
    --p.nested;
  } else if (p.region) {
    p.region = nullptr;
    if (own.started) host->finish_region();
  } else {
    --p.of_libgomp;
    libgomp().parallel_end();
  }
}
void GOMP_barrier() {
  if (!place.region) return libgomp().barrier();
  if (place.size() > 1) host->wait(place.region->barrier, place.members);
}
bool GOMP_loop_static_start(long first, long last, long step, long block, long* begin, long* end) {
  if (!place.region) return libgomp().loop_static_start(first, last, step, block, begin, end);
  const long way = step > 0 ? last - first + step - 1 : last - first + step + 1;
  place.first = first;
  place.step = step;
  place.count = std::max(0L, way / step);
  place.block = block;
  place.next = 0;
  return next_block(begin, end);
}
bool GOMP_loop_static_next(long* begin, long* end) {
  return place.region ? next_block(begin, end) : libgomp().loop_static_next(begin, end);
}
void GOMP_loop_end_nowait() {
  if (!place.region) libgomp().loop_end_nowait();
}
int omp_get_max_threads() { return most_threads(); }
int omp_get_num_threads() { return place.region ? place.size() : libgomp().get_num_threads(); }
int omp_get_thread_num() { return place.region ? place.number() : libgomp().get_thread_num(); }
int omp_in_parallel() { return place.region ? static_cast<int>(place.members > 1) : libgomp().in_parallel(); }
}  // extern "C"
#pragma GCC visibility pop

}  // namespace strata::onednn
