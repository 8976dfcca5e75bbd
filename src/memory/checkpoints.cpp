#include "memory/checkpoints.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace burnish::memory {

/// One tensor that is kept. What names it is where it lay on the device.
struct Checkpoints::Entry {
  explicit Entry(const at::Tensor& tensor)
      : place(tensor.storage().getWeakStorageImpl()),
        options(tensor.options().requires_grad(false)),
        offset(tensor.storage_offset()),
        sizes(tensor.sizes().vec()),
        strides(tensor.strides().vec()) {}

  bool is_of(const at::Tensor& tensor) const {
    auto storage = place.lock();
    return storage && storage.get() == tensor.storage().unsafeGetStorageImpl() && offset == tensor.storage_offset() &&
           sizes == tensor.sizes() && strides == tensor.strides() && options.dtype() == tensor.dtype();
  }

  /// On the device, if its memory is still there.
  at::Tensor where_it_lay() const {
    auto storage = place.lock();
    if (!storage) return {};
    return at::empty({0}, options).set_(c10::Storage(std::move(storage)), offset, sizes, strides);
  }

  c10::weak_intrusive_ptr<c10::StorageImpl> place;
  at::TensorOptions options;
  int64_t offset;
  std::vector<int64_t> sizes, strides;
  at::Tensor in_host, fetched;
  HostStore::Arrival arrival;
};

class Checkpoint {
 public:
  /// Either is there for each input; neither for one that is undefined.
  std::vector<std::pair<at::Tensor, std::shared_ptr<Checkpoints::Entry>>> inputs;
  std::weak_ptr<Checkpoint> before;
  bool taken = false;
};

Checkpoints::Checkpoints(std::shared_ptr<HostStore> store) : store_(std::move(store)) {}
Checkpoints::~Checkpoints() = default;

std::shared_ptr<Checkpoints::Entry> Checkpoints::entry_of(const at::Tensor& tensor) {
  std::erase_if(entries_, [](const auto& entry) { return entry.expired(); });
  for (const auto& known : entries_) {
    if (auto entry = known.lock(); entry->is_of(tensor)) return entry;
  }
  auto entry = std::make_shared<Entry>(tensor);
  entry->in_host = store_->put(tensor.detach());
  entries_.push_back(entry);
  return entry;
}

std::shared_ptr<Checkpoint> Checkpoints::keep(const nn::Tensors& inputs) {
  auto checkpoint = std::make_shared<Checkpoint>();
  for (const auto& input : inputs) {
    bool moves = input.defined() && input.is_non_overlapping_and_dense();
    checkpoint->inputs.emplace_back(moves ? at::Tensor() : input, moves ? entry_of(input) : nullptr);
  }
  checkpoint->before = std::exchange(last_, checkpoint);
  return checkpoint;
}

void Checkpoints::begin_fetch(Entry& entry) {
  if (entry.fetched.defined()) return;
  entry.fetched = entry.where_it_lay();
  if (entry.fetched.defined()) return;
  entry.fetched = at::empty_strided(entry.sizes, entry.strides, entry.options);
  entry.arrival = store_->fetch({{entry.fetched, entry.in_host}});
}

nn::Tensors Checkpoints::take(Checkpoint& checkpoint) {
  if (std::exchange(checkpoint.taken, true)) throw std::logic_error("the inputs of a block were asked for twice");
  nn::Tensors inputs;
  for (auto& [held, entry] : std::exchange(checkpoint.inputs, {})) {
    if (entry) {
      begin_fetch(*entry);
      store_->wait(entry->arrival);
    }
    inputs.push_back(entry ? entry->fetched : held);
  }
  if (auto before = checkpoint.before.lock()) {
    for (auto& [held, entry] : before->inputs) {
      if (entry) begin_fetch(*entry);
    }
  }
  return inputs;
}

}  // namespace burnish::memory
