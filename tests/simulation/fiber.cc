#include "tests/simulation/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/check.h"

#if defined(__SANITIZE_ADDRESS__)
#define KVPOOL_FIBERS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KVPOOL_FIBERS_ASAN 1
#elif __has_feature(thread_sanitizer)
#define KVPOOL_FIBERS_TSAN 1
#endif
#endif

// The sanitizers' names, of sanitizer/common_interface_defs.h and sanitizer/tsan_interface.h.
#if defined(KVPOOL_FIBERS_ASAN)
extern "C" void __sanitizer_start_switch_fiber(void** fake_stack_save, const void* bottom,
                                               size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void* fake_stack_save, const void** bottom_old,
                                                size_t* size_old);
#elif defined(KVPOOL_FIBERS_TSAN)
extern "C" void* __tsan_get_current_fiber(void);
extern "C" void* __tsan_create_fiber(unsigned flags);
extern "C" void __tsan_destroy_fiber(void* fiber);
extern "C" void __tsan_switch_to_fiber(void* fiber, unsigned flags);
#endif

namespace kvpool::simulation {
namespace {

constexpr size_t kStackBytes = 256 << 10;

// Stacks that ended fibers had, to be used again: a page that was touched costs nothing again.
thread_local std::vector<void*> spare_stacks;
thread_local Fiber* running = nullptr;

void* TakeStack() {
  if (!spare_stacks.empty()) {
    void* const stack = spare_stacks.back();
    spare_stacks.pop_back();
    return stack;
  }
  void* const stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  KVPOOL_CHECK(stack != MAP_FAILED);
  return stack;
}

}  // namespace

struct Fiber::State {
  std::function<void()> run;
  void* stack = nullptr;  // Null before it runs and once it is done.
  bool has_begun = false;
  bool is_done = false;
  ucontext_t own{};
  ucontext_t resumer{};
  // What sanitizers know the two by.
  void* own_handle = nullptr;
  void* resumer_handle = nullptr;
  const void* resumer_bottom = nullptr;
  size_t resumer_bytes = 0;

  static void Begin();

  // Each before a switch and after it, in the order in which it happens.
  void EnterOwn() {
#if defined(KVPOOL_FIBERS_ASAN)
    __sanitizer_start_switch_fiber(&resumer_handle, stack, kStackBytes);
#elif defined(KVPOOL_FIBERS_TSAN)
    resumer_handle = __tsan_get_current_fiber();
    if (own_handle == nullptr) own_handle = __tsan_create_fiber(0);
    __tsan_switch_to_fiber(own_handle, 0);
#endif
  }
  void HaveEnteredOwn() {
#if defined(KVPOOL_FIBERS_ASAN)
    __sanitizer_finish_switch_fiber(own_handle, &resumer_bottom, &resumer_bytes);
#endif
  }
  void LeaveOwn() {
#if defined(KVPOOL_FIBERS_ASAN)
    __sanitizer_start_switch_fiber(is_done ? nullptr : &own_handle, resumer_bottom, resumer_bytes);
#elif defined(KVPOOL_FIBERS_TSAN)
    __tsan_switch_to_fiber(resumer_handle, 0);
#endif
  }
  void HaveLeftOwn() {
#if defined(KVPOOL_FIBERS_ASAN)
    __sanitizer_finish_switch_fiber(resumer_handle, nullptr, nullptr);
#elif defined(KVPOOL_FIBERS_TSAN)
    if (is_done) __tsan_destroy_fiber(own_handle);
#endif
  }
};

void Fiber::State::Begin() {
  State& state = *running->state_;
  state.HaveEnteredOwn();
  state.run();
  state.run = nullptr;
  state.is_done = true;
  state.LeaveOwn();
  swapcontext(&state.own, &state.resumer);
}

Fiber::Fiber(std::function<void()> run) : state_(std::make_unique<State>()) {
  state_->run = std::move(run);
}

Fiber::~Fiber() { KVPOOL_CHECK(state_->stack == nullptr); }

void Fiber::Resume() {
  State& state = *state_;
  KVPOOL_CHECK(running == nullptr && !state.is_done);
  if (!std::exchange(state.has_begun, true)) {
    state.stack = TakeStack();
    KVPOOL_CHECK(getcontext(&state.own) == 0);
    state.own.uc_stack.ss_sp = state.stack;
    state.own.uc_stack.ss_size = kStackBytes;
    state.own.uc_link = nullptr;
    makecontext(&state.own, &State::Begin, 0);
  }
  running = this;
  state.EnterOwn();
  swapcontext(&state.resumer, &state.own);
  state.HaveLeftOwn();
  running = nullptr;
  if (state.is_done) spare_stacks.push_back(std::exchange(state.stack, nullptr));
}

bool Fiber::is_done() const { return state_->is_done; }

void Fiber::Yield() {
  State& state = *running->state_;
  state.LeaveOwn();
  swapcontext(&state.own, &state.resumer);
  state.HaveEnteredOwn();
}

Fiber* Fiber::Running() { return running; }

}  // namespace kvpool::simulation
