#include "optim/paged_store.h"

namespace burnish::optim {

namespace {

class PagedStore final : public ValueStore {
 public:
  PagedStore(std::shared_ptr<ValueStore> store, std::shared_ptr<memory::Pager> pager, size_t block)
      : store_(std::move(store)), pager_(std::move(pager)), block_(block) {}

  int64_t granule() const override { return store_->granule(); }

  void read(int64_t begin, const at::Tensor& exact) const override {
    pager_->bring(block_);
    store_->read(begin, exact);
  }

  void write(int64_t begin, at::Tensor exact, std::optional<uint64_t> key) override {
    pager_->bring(block_);
    store_->write(begin, std::move(exact), key);
    pager_->mark_changed(block_);
  }

  StateList state() const override { return in_host(store_->state()); }
  StateList weights() const override { return in_host(store_->weights()); }

 private:
  StateList in_host(StateList list) const {
    for (auto& [name, tensor] : list) {
      if (pager_->block_of(tensor)) tensor = pager_->in_host(block_, tensor);
    }
    return list;
  }

  std::shared_ptr<ValueStore> store_;
  std::shared_ptr<memory::Pager> pager_;
  size_t block_;
};

}  // namespace

void page(ParameterList& parameters, const std::shared_ptr<memory::Pager>& pager) {
  for (auto& parameter : parameters) {
    for (const auto& [name, tensor] : parameter.store->state()) {
      auto block = pager->block_of(tensor);
      if (!block) continue;
      parameter.store = std::make_shared<PagedStore>(parameter.store, pager, *block);
      break;
    }
  }
}

}  // namespace burnish::optim
