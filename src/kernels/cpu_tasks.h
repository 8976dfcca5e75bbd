#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>

// Work of CPUs that is shared out among threads, each with memory of its own.
namespace burnish::kernels {

/// Memory of one thread, handed out piece by piece; without a start it is only measured.
class Pieces {
 public:
  explicit Pieces(std::byte* start) : start_(start) {}
  template <class T>
  T* take(int64_t count) {
    auto* piece = start_ == nullptr ? nullptr : reinterpret_cast<T*>(start_ + taken_);
    taken_ += (count * static_cast<int64_t>(sizeof(T)) + kLine - 1) / kLine * kLine;
    return piece;
  }
  int64_t taken() const { return taken_; }

  static constexpr int64_t kLine = 64;  ///< bytes of a line of the cache, which pieces begin at

 private:
  std::byte* start_;
  int64_t taken_ = 0;
};

/// Calls task(number, memory) for all of `count` in parallel, each with a thread's memory of so many bytes, which lies in one tensor as
/// `like` has them. Nothing is called of tensors without numbers.
void for_tasks(int64_t count, int64_t num_bytes, const at::Tensor& like, const std::function<void(int64_t, std::byte*)>& task);

}  // namespace burnish::kernels
