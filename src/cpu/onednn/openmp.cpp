// The part of libgomp's interface that oneDNN calls, on Strata's threads. Two sets of threads would take the processors from each
// other: both poll for work for a while after a call. The loader finds these functions before libgomp's, since the module is
// opened with its own functions first. oneDNN relies on as many threads as it asks for, all running at once: a region waits
// while another thread of the program uses them.
#include <algorithm>

#include "base/parallel.h"
#include "cpu/onednn/module.h"

namespace strata::onednn {
namespace {

struct Region {
  void (*body)(void*) = nullptr;
  void* data = nullptr;
  TeamBarrier barrier;
  int most = 1;  // threads that its caller may use
};

// Where a thread is.
struct Place {
  Region* region = nullptr;
  int index = 0, members = 1;
  int nested = 0;  // regions inside that one: of one thread, as libgomp has it
  long next = 0;   // the loop: its next block
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

Threads::Threads() : before_(wanted), wanted_(host->threads()) { wanted = wanted_; }
Threads::~Threads() { wanted = before_; }

#pragma GCC visibility push(default)
extern "C" {
void GOMP_parallel_start(void (*body)(void*), void* data, unsigned threads) {
  Place& p = place;
  if (p.region) {
    ++p.nested;
    return;
  }
  const int most = most_threads(), members = threads ? static_cast<int>(threads) : most;
  own.body = body;
  own.data = data;
  own.most = most;
  if (members > 1) host->start_region(members, enter, &own);  // if it throws, this thread is in no region
  p.region = &own;
  p.index = 0;
  p.members = members;
}
void GOMP_parallel_end() {
  Place& p = place;
  if (p.nested) {
    --p.nested;
    return;
  }
  p.region = nullptr;
  if (p.members > 1) host->finish_region();
}
void GOMP_barrier() {
  if (place.region && place.size() > 1) host->wait(place.region->barrier, place.members);
}
bool GOMP_loop_static_start(long first, long last, long step, long block, long* begin, long* end) {
  const long way = step > 0 ? last - first + step - 1 : last - first + step + 1;
  place.first = first;
  place.step = step;
  place.count = std::max(0L, way / step);
  place.block = block;
  place.next = 0;
  return next_block(begin, end);
}
bool GOMP_loop_static_next(long* begin, long* end) { return next_block(begin, end); }
void GOMP_loop_end_nowait() {}
int omp_get_max_threads() { return most_threads(); }
int omp_get_num_threads() { return place.region ? place.size() : 1; }
int omp_get_thread_num() { return place.region ? place.number() : 0; }
int omp_in_parallel() { return place.region && place.members > 1 ? 1 : 0; }
}  // extern "C"
#pragma GCC visibility pop

}  // namespace strata::onednn
