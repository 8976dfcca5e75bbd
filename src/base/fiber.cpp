#include "base/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <utility>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace burnish {

namespace {

constexpr size_t kStackBytes = 4 << 20, kGuardBytes = 64 << 10;

/// Ends a work that nobody waits for any more.
struct GivenUp {};

/// Memory that is taken as far as it is used, behind a stretch that nobody may touch.
class Stack {
 public:
  Stack() : begin_(mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (begin_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(begin_, kGuardBytes, PROT_NONE);
  }
  ~Stack() { munmap(begin_, kGuardBytes + kStackBytes); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  void* bottom() const { return static_cast<char*>(begin_) + kGuardBytes; }

 private:
  void* begin_;
};

}  // namespace

struct Fiber::Inside {
  explicit Inside(std::function<void()> given) : work(std::move(given)) {}

  std::function<void()> work;
  Stack stack;
  ucontext_t own{}, caller{};
  const void* caller_stack = nullptr;  ///< where the address sanitizer finds the caller's
  size_t caller_bytes = 0;
  bool is_over = false, is_given_up = false;
  std::exception_ptr thrown;

  static thread_local Inside* current;

  /// Both tell the address sanitizer which stack is in use.
  void enter_own() {
    void* left = nullptr;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&left, stack.bottom(), kStackBytes);
#endif
    swapcontext(&caller, &own);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(left, nullptr, nullptr);
#else
    static_cast<void>(left);
#endif
  }
  void leave_own() {
    void* left = nullptr;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(is_over ? nullptr : &left, caller_stack, caller_bytes);
#endif
    swapcontext(&own, &caller);
    is_entered(left);
  }
  void is_entered(void* left) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(left, &caller_stack, &caller_bytes);
#else
    static_cast<void>(left);
#endif
  }
};

thread_local Fiber::Inside* Fiber::Inside::current = nullptr;

Fiber::Fiber(std::function<void()> work) : inside_(std::make_unique<Inside>(std::move(work))) {
  getcontext(&inside_->own);
  inside_->own.uc_stack.ss_sp = inside_->stack.bottom();
  inside_->own.uc_stack.ss_size = kStackBytes;
  makecontext(&inside_->own, &Fiber::enter, 0);
}

Fiber::~Fiber() {
  if (inside_->is_over) return;
  inside_->is_given_up = true;
  try {
    go_on();
  } catch (...) {  // nobody waits for what it has to say
  }
}

void Fiber::enter() {
  auto& fiber = *Inside::current;
  fiber.is_entered(nullptr);
  try {
    if (!fiber.is_given_up) fiber.work();
  } catch (const GivenUp&) {
  } catch (...) {
    fiber.thrown = std::current_exception();
  }
  fiber.is_over = true;
  fiber.leave_own();
}

bool Fiber::go_on() {
  if (inside_->is_over) throw std::logic_error("a fiber that has ended cannot go on");
  auto* outer = std::exchange(Inside::current, inside_.get());
  inside_->enter_own();
  Inside::current = outer;
  if (inside_->thrown) std::rethrow_exception(std::exchange(inside_->thrown, nullptr));
  return inside_->is_over;
}

void Fiber::pause() {
  auto* fiber = Inside::current;
  if (fiber == nullptr) throw std::logic_error("only the work of a fiber can pause");
  fiber->leave_own();
  if (fiber->is_given_up) throw GivenUp();
}

}  // namespace burnish
