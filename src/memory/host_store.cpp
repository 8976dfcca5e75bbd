#include "memory/host_store.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>

namespace burnish::memory {

/// Counts what is taken. Blocks outlive the store, and keep it.
class HostStore::Memory final : public c10::Allocator, public std::enable_shared_from_this<Memory> {
 public:
  /// Takes blocks from `from`; null gives out blocks without numbers.
  explicit Memory(c10::Allocator* from) : from_(from) {}

  c10::DataPtr allocate(size_t num_bytes) override {
    auto block = from_ ? from_->allocate(num_bytes) : c10::DataPtr();
    live_ += static_cast<int64_t>(num_bytes);
    most_ = std::max<int64_t>(most_, live_);
    auto* data = block.get();
    return {data, new Block{shared_from_this(), std::move(block), num_bytes}, &free_block, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t count) const override { default_copy_data(to, from, count); }

  int64_t live() const { return live_; }
  int64_t most() const { return most_; }
  bool has_numbers() const { return from_ != nullptr; }

 private:
  struct Block {
    std::shared_ptr<Memory> memory;
    c10::DataPtr data;
    size_t num_bytes;
  };
  static void free_block(void* context) {
    auto* block = static_cast<Block*>(context);
    block->memory->live_ -= static_cast<int64_t>(block->num_bytes);
    delete block;
  }

  c10::Allocator* from_;
  std::atomic<int64_t> live_ = 0, most_ = 0;
};

namespace {

c10::Allocator* memory_beside(c10::Device device) {
  if (device.is_meta()) return nullptr;
  return device.is_cpu() ? c10::GetCPUAllocator() : at::globalContext().getPinnedMemoryAllocator(device.type());
}

}  // namespace

HostStore::HostStore(c10::Device device, std::shared_ptr<CopyQueue> copy_queue)
    : memory_(std::make_shared<Memory>(memory_beside(device))), copy_queue_(std::move(copy_queue)) {}

HostStore::~HostStore() = default;

at::Tensor HostStore::room_for(const at::Tensor& like) const {
  return at::Tensor(at::detail::empty_strided_generic(like.sizes(), like.strides(), memory_.get(),
                                                      c10::DispatchKeySet(c10::DispatchKey::CPU), like.scalar_type()));
}

at::Tensor HostStore::room(int64_t num_bytes) const {
  return at::Tensor(
      at::detail::empty_generic({num_bytes}, memory_.get(), c10::DispatchKeySet(c10::DispatchKey::CPU), at::kByte, std::nullopt));
}

at::Tensor HostStore::put(const at::Tensor& tensor) {
  auto in_host = room_for(tensor);
  update({{tensor, in_host}});
  return in_host;
}

HostStore::Arrival HostStore::copy(const CopyQueue::Copies& copies) const {
  const at::NoGradGuard no_grad;
  if (!memory_->has_numbers()) return nullptr;
  if (copy_queue_) return copy_queue_->go(copies);
  for (const auto& [to, from] : copies) to.copy_(from);
  return nullptr;
}

void HostStore::update(const Copies& copies) {
  CopyQueue::Copies back;
  for (const auto& [tensor, in_host] : copies) back.emplace_back(in_host, tensor);
  copy(back);
}

HostStore::Arrival HostStore::fetch(const Copies& copies) { return copy(copies); }

void HostStore::synchronize() const {
  if (copy_queue_) copy_queue_->synchronize();
}

int64_t HostStore::num_bytes() const { return memory_->live(); }
int64_t HostStore::peak() const { return memory_->most(); }

}  // namespace burnish::memory
