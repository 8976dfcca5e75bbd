#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace burnish::memory {

/// Tensors of the host on their way to a device: from pinned memory on a stream of their own beside what a GPU computes, at once elsewhere.
/// For one thread.
class Upload {
 public:
  explicit Upload(c10::Device device);
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  /// The tensor on the device; after `wait` its numbers may be read there.
  at::Tensor begin(const at::Tensor& tensor);
  /// Lets what is computed from here on find all that was begun.
  void wait();

 private:
  class CopyStream;
  c10::Device device_;
  std::unique_ptr<CopyStream> copies_;  ///< null where copies are made at once
};

/// Numbers on their way to the host, which goes on in the meantime. Those of the CPU are there at once.
class Numbers {
 public:
  /// A sign that tells whether copies are there.
  class Arrival {
   public:
    virtual ~Arrival() = default;
    virtual bool is_there() const = 0;
    virtual void wait() const = 0;
  };

  Numbers() = default;
  /// Takes 0-dim and flat tensors wherever they are, one after the other.
  explicit Numbers(const std::vector<at::Tensor>& tensors);
  /// Takes host tensors in fp64 that are there when the caller says.
  Numbers(std::vector<at::Tensor> in_host, std::shared_ptr<const Arrival> arrival);

  /// Tells whether nobody would have to wait for them.
  bool are_there() const { return !arrival_ || arrival_->is_there(); }
  /// Waits until the numbers are there, and returns them.
  std::vector<double> read() const;

 private:
  std::vector<at::Tensor> in_host_;
  std::shared_ptr<const Arrival> arrival_;  ///< null: they are there
};

}  // namespace burnish::memory
