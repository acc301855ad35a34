#pragma once

#include <functional>
#include <memory>

namespace kvpool::simulation {

// Fiber runs a function on a stack of its own, in turns with who resumes it: a thread that is
// scheduled by hand. Of one thread of the system, but for its being made.
class Fiber {
 public:
  // Does not run yet.
  explicit Fiber(std::function<void()> run);
  // Requires that it has never run or is done.
  ~Fiber();

  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs it until it yields or is done. Not to be called in a fiber.
  void Resume();
  bool is_done() const;

  // Goes back to who resumed the running fiber. Requires that one runs.
  static void Yield();
  // Null where none runs.
  static Fiber* Running();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace kvpool::simulation
