#include "memory/transfer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>
#include <span>

namespace burnish::memory {

namespace {

bool has_streams(c10::Device device) { return !device.is_cpu() && !device.is_meta(); }

c10::Stream computing(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

/// Holds what was queued on a device's stream until now.
class Queued final : public Numbers::Arrival {
 public:
  explicit Queued(c10::Device device) : event_(device.type()) { event_.record(computing(device)); }
  bool is_there() const override { return event_.query(); }
  void wait() const override { event_.synchronize(); }

 private:
  c10::Event event_;
};

}  // namespace

class Upload::CopyStream {
 public:
  explicit CopyStream(c10::Device device)
      : stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/false)) {}

  at::Tensor begin(const at::Tensor& tensor) {
    // Memory of this stream's own: what the device still computes does not use it, so nothing has to be waited for.
    const c10::StreamGuard on_lane(stream_);
    const at::Tensor pinned = tensor.pin_memory();
    at::Tensor there = at::empty_like(pinned, pinned.options().device(stream_.device()).pinned_memory(false));
    there.copy_(pinned, /*non_blocking=*/true);
    begun_.push_back(there);
    return there;
  }

  void wait() {
    if (begun_.empty()) return;
    c10::Event copied(stream_.device_type());
    copied.record(stream_);
    const c10::Stream user = computing(stream_.device());
    copied.block(user);
    for (const at::Tensor& tensor : begun_) tensor.record_stream(user);
    begun_.clear();
  }

 private:
  c10::Stream stream_;
  std::vector<at::Tensor> begun_;
};

Upload::Upload(c10::Device device) : device_(device), copies_(has_streams(device) ? std::make_unique<CopyStream>(device) : nullptr) {}

Upload::~Upload() = default;

at::Tensor Upload::begin(const at::Tensor& tensor) {
  if (!copies_ || !tensor.is_cpu()) return tensor.to(device_);
  const at::NoGradGuard no_grad;
  return copies_->begin(tensor);
}

void Upload::wait() {
  if (copies_) copies_->wait();
}

Numbers::Numbers(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  std::optional<c10::Device> device;
  for (const at::Tensor& tensor : tensors) {
    at::Tensor exact = tensor.detach().to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
    if (has_streams(exact.device())) {
      device = exact.device();
      in_host_.push_back(at::empty(exact.sizes(), at::TensorOptions(at::kDouble).pinned_memory(true)));
      in_host_.back().copy_(exact, /*non_blocking=*/true);
    } else {
      in_host_.push_back(exact.contiguous());
    }
  }
  if (device) arrival_ = std::make_shared<Queued>(*device);
}

Numbers::Numbers(std::vector<at::Tensor> in_host, std::shared_ptr<const Arrival> arrival)
    : in_host_(std::move(in_host)), arrival_(std::move(arrival)) {}

std::vector<double> Numbers::read() const {
  if (arrival_) arrival_->wait();
  std::vector<double> all;
  for (const at::Tensor& tensor : in_host_) {
    const std::span numbers(tensor.const_data_ptr<double>(), static_cast<size_t>(tensor.numel()));
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}

}  // namespace burnish::memory
