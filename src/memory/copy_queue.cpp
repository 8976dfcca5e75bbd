#include "memory/copy_queue.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace burnish::memory {

namespace {

class DeviceCopies final : public CopyQueue {
 public:
  explicit DeviceCopies(c10::Device device)
      : guard_(device.type()), stream_(guard_.getStreamFromGlobalPool(device, /*isHighPriority=*/false)) {}

  std::shared_ptr<Arrival> go(const Copies& copies) override {
    c10::Event computed(stream_.device_type());
    computed.record(computing());
    computed.block(stream_);
    const c10::StreamGuard on_lane(stream_);
    for (const auto& [to, from] : copies) {
      to.copy_(from, /*non_blocking=*/true);
      for (const auto& tensor : {to, from}) {
        if (!tensor.is_cpu()) tensor.record_stream(stream_);
      }
    }
    c10::Event done(stream_.device_type());
    done.record(stream_);
    return std::make_shared<Done>(*this, std::move(done));
  }

  void synchronize() override { guard_.synchronizeStream(stream_); }

 private:
  class Done final : public Arrival {
   public:
    Done(const DeviceCopies& copy_queue, c10::Event event) : copy_queue_(copy_queue), event_(std::move(event)) {}
    void wait() const override { event_.block(copy_queue_.computing()); }

   private:
    const DeviceCopies& copy_queue_;
    c10::Event event_;
  };

  c10::Stream computing() const { return guard_.getStream(stream_.device()); }

  c10::impl::VirtualGuardImpl guard_;
  c10::Stream stream_;
};

}  // namespace

std::shared_ptr<CopyQueue> copy_queue_of(c10::Device device) {
  if (device.is_cpu() || device.is_meta()) return nullptr;
  return std::make_shared<DeviceCopies>(device);
}

}  // namespace burnish::memory
