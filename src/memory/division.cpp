#include "memory/division.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

namespace burnish::memory {

namespace {

/// Returns where even parts of weights of a device lie and travel between processes: on it, or in host memory where they travel from there.
at::Tensor room_to_travel(const WeightGroup& group, c10::Device device, const HostStore& store, int64_t num_bytes) {
  if (device.is_cpu() || group.device() != device) return store.room(num_bytes);
  return at::empty({num_bytes}, at::TensorOptions().dtype(at::kByte).device(device));
}

/// Returns what process `number` keeps of some bytes; nothing where those before it have all.
at::Tensor share_of(const at::Tensor& bytes, int64_t share, int64_t number) {
  const auto first = std::min(bytes.numel(), number * share);
  return bytes.narrow(0, first, std::min(bytes.numel() - first, share));
}

}  // namespace

Division::Division(std::shared_ptr<WeightGroup> group, c10::Device device, std::shared_ptr<HostStore> store)
    : group_(std::move(group)), device_(device), store_(std::move(store)) {}

void Division::keep_part(Page& page, Page::Weight& weight, const at::Tensor& bytes) {
  weight.share = (bytes.numel() + group_->count() - 1) / group_->count();
  weight.my_offset = std::exchange(page.parts.num_my_bytes, page.parts.num_my_bytes + weight.share);
  const auto mine = share_of(bytes, weight.share, group_->number());
  weight.waiting = travels_in_place() ? mine.clone() : store_->put(mine);
}

void Division::lay_out(Page& page) {
  put_together(page);
  make_rows(page);
}

/// One tensor for what this process keeps of a page, so that it travels at once.
void Division::put_together(Page& page) {
  const at::NoGradGuard no_grad;
  page.parts.mine = room_to_travel(*group_, device_, *store_, page.parts.num_my_bytes);
  store_->synchronize();
  for (auto& weight : page.weights) {
    if (weight.owner) continue;
    if (!device_.is_meta()) page.parts.mine.narrow(0, weight.my_offset, weight.waiting.numel()).copy_(weight.waiting);
    weight.waiting = at::Tensor();
  }
}

/// Lays what each process owns side by side, so that it travels at once: one's own in memory that stays, that of others in a place.
void Division::make_rows(Page& page) {
  for (int64_t owner = 0; owner < group_->count(); ++owner) {
    const bool is_mine = owner == group_->number();
    OwnerRow row{.owner = owner, .offset = is_mine ? 0 : page.num_bytes};
    for (auto& weight : page.weights) {
      if (weight.owner != owner) continue;
      weight.offset = row.offset + row.num_bytes;
      row.num_bytes += aligned(static_cast<int64_t>(weight.storage.nbytes()));
    }
    if (row.num_bytes == 0) continue;
    if (is_mine) keep(page, row);
    else page.num_bytes += row.num_bytes;
    if (is_mine && !travels_in_place()) {
      row.in_host = store_->put(row.own);
      copies_are_made_ = false;
    }
    page.rows.push_back(std::move(row));
  }
}

/// Moves the weights of a row of this process to where they stay.
void Division::keep(Page& page, OwnerRow& row) {
  const at::NoGradGuard no_grad;
  const auto bytes = at::TensorOptions().dtype(at::kByte).device(device_);
  row.own = at::empty({row.num_bytes}, bytes);
  for (auto& weight : page.weights) {
    if (weight.owner != row.owner) continue;
    row.own.narrow(0, weight.offset, static_cast<int64_t>(weight.storage.nbytes())).copy_(bytes_of(weight.storage, bytes));
    auto* begin = device_.is_meta() ? nullptr : static_cast<char*>(row.own.data_ptr()) + weight.offset;
    auto* keeper = new at::Tensor(row.own);  // what reads the weight may outlive the pager
    auto let_go_of = [](void* tensor) { delete static_cast<at::Tensor*>(tensor); };
    weight.storage.set_data_ptr_noswap(c10::DataPtr(begin, keeper, let_go_of, device_));
  }
}

void Division::bring(Page& page) {
  gather(page);
  broadcast(page);
}

void Division::renew(Page& page) {
  arrive(page);  // what is on its way may not be given up
  broadcast(page);
}

/// Begins to have come what all processes have of a page in even parts.
void Division::gather(Page& page) {
  if (page.parts.num_my_bytes == 0) return;
  page.parts.all = room_to_travel(*group_, device_, *store_, group_->count() * page.parts.num_my_bytes);
  page.parts.come = group_->gather(page.parts.mine, page.parts.all.view({group_->count(), page.parts.num_my_bytes}));
}

/// Begins to have what each process owns come to the others.
void Division::broadcast(Page& page) {
  if (!std::exchange(copies_are_made_, true)) store_->synchronize();
  for (auto& row : page.rows) {
    if (travels_in_place()) row.travelling = row.is_mine() ? row.own : page.place->bytes.narrow(0, row.offset, row.num_bytes);
    else row.travelling = row.is_mine() ? row.in_host : store_->room(row.num_bytes);
    row.come = group_->broadcast(row.travelling, row.owner);
  }
}

/// Puts what has come to a page where it belongs on the device.
void Division::arrive(Page& page) {
  HostStore::Copies copies;
  if (page.parts.come) {
    std::exchange(page.parts.come, {})->wait();
    copies = copies_of_parts(page);
  }
  for (auto& row : page.rows) {
    if (!row.come) continue;
    std::exchange(row.come, {})->wait();
    const auto come = std::exchange(row.travelling, {});
    if (!row.is_mine() && !travels_in_place()) copies.emplace_back(page.place->bytes.narrow(0, row.offset, row.num_bytes), come);
  }
  if (!copies.empty()) page.arrival = store_->fetch(copies);
  page.parts.all = at::Tensor();
}

/// Returns where what all processes have of it in even parts belongs.
HostStore::Copies Division::copies_of_parts(const Page& page) const {
  HostStore::Copies copies;
  for (const auto& weight : page.weights) {
    if (weight.owner) continue;
    const auto bytes = page.place->bytes.narrow(0, weight.offset, static_cast<int64_t>(weight.storage.nbytes()));
    for (int64_t number = 0; number < group_->count(); ++number) {
      const auto to = share_of(bytes, weight.share, number);
      copies.emplace_back(to, page.parts.all.narrow(0, number * page.parts.num_my_bytes + weight.my_offset, to.numel()));
    }
  }
  return copies;
}

void Division::expire(Page& page) {
  page.is_old = page.is_old || !page.rows.empty();
  for (const auto& row : page.rows) {
    if (!row.in_host.defined()) continue;
    store_->update({{row.own, row.in_host}});
    copies_are_made_ = false;
  }
}

}  // namespace burnish::memory
