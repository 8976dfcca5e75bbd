#pragma once
#include <ATen/record_function.h>

#include <atomic>
#include <set>
#include <string_view>

namespace burnish::test {

/// Counts, while it lives, operators of all threads by which the host reads what tensors hold, or sizes that depend on it: on a GPU each of
/// them waits until all that was queued is computed. What AdamW's fused operator reads inside on a CPU does not count: for GPUs it has a
/// kernel that reads on the device. One lives at a time.
class ScalarReads {
 public:
  ScalarReads()
      : callback_(at::addGlobalCallback(at::RecordFunctionCallback(&enter, &leave).scopes({at::RecordScope::FUNCTION}))), before_(seen()) {}
  ~ScalarReads() { at::removeCallback(callback_); }
  ScalarReads(const ScalarReads&) = delete;
  ScalarReads& operator=(const ScalarReads&) = delete;

  int64_t count() const { return seen() - before_; }

 private:
  static std::atomic<int64_t>& seen() {
    static std::atomic<int64_t> number = 0;
    return number;
  }
  static int& depth_of_fused() {
    thread_local int depth = 0;
    return depth;
  }
  static bool is_fused(const at::RecordFunction& function) { return std::string_view(function.name()) == "aten::_fused_adamw_"; }
  static std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
    static const std::set<std::string_view> kReading{"aten::_local_scalar_dense", "aten::equal",      "aten::nonzero",
                                                     "aten::masked_select",       "aten::unique_dim", "aten::_unique2"};
    if (is_fused(function)) ++depth_of_fused();
    if (depth_of_fused() == 0 && kReading.contains(function.name())) ++seen();
    return nullptr;
  }
  static void leave(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
    if (is_fused(function)) --depth_of_fused();
  }

  at::CallbackHandle callback_;
  int64_t before_;
};

}  // namespace burnish::test
