#pragma once
#include <functional>
#include <memory>

namespace burnish {

/// Work with a stack of its own, which stops where it says so and goes on when it is told to, on the thread that tells it. So works of
/// which each is a plain function can take turns. What is set for a thread meanwhile holds for all of its fibers: a work pauses outside of
/// guards that it made itself.
class Fiber {
 public:
  explicit Fiber(std::function<void()> work);
  /// Ends a work that has paused, by an exception from its `pause`.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Has the work go on until it pauses or ends, and returns whether it has ended. What it throws is thrown here.
  bool go_on();
  /// Stops the work that calls it. A std::logic_error outside of a fiber.
  static void pause();

 private:
  struct Inside;
  static void enter();

  std::unique_ptr<Inside> inside_;
};

}  // namespace burnish
