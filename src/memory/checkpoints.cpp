#include "memory/checkpoints.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
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
        keys(tensor.key_set()),
        offset(tensor.storage_offset()),
        sizes(tensor.sizes().vec()),
        strides(tensor.strides().vec()) {}

  bool is_of(const at::Tensor& tensor) const {
    auto storage = place.lock();
    return storage && storage.get() == tensor.storage().unsafeGetStorageImpl() && offset == tensor.storage_offset() &&
           sizes == tensor.sizes() && strides == tensor.strides() && options.dtype() == tensor.dtype();
  }

  /// On the device, if its memory is still there. Tensor::set_ would do, but on the meta device it wants storages that can grow, which
  /// those of bodies that are rehearsed once cannot, and makes them as large as this tensor.
  at::Tensor where_it_lay() const {
    auto storage = place.lock();
    if (!storage) return {};
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), keys, options.dtype());
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
    return tensor;
  }

  c10::weak_intrusive_ptr<c10::StorageImpl> place;
  at::TensorOptions options;
  c10::DispatchKeySet keys;
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
