#include "memory/paging.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "memory/division.h"
#include "memory/file_copies.h"
#include "memory/page.h"
#include "nn/linear.h"

namespace burnish::memory {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The bytes of a tensor whose elements lie side by side.
at::Tensor own_bytes(const at::Tensor& tensor) {
  const auto first = tensor.storage_offset() * tensor.element_size();
  return bytes_of(tensor.storage(), tensor.options()).narrow(0, first, static_cast<int64_t>(tensor.nbytes()));
}

/// A weight's bytes in its file, where the file has just these; undefined elsewhere.
at::Tensor found_in_file(const at::Tensor& bytes, const at::Tensor& in_file) {
  if (!in_file.defined() || !in_file.is_contiguous() || in_file.nbytes() != bytes.nbytes()) return {};
  const auto found = own_bytes(in_file), here = bytes.cpu();
  const bool same = std::memcmp(found.const_data_ptr(), here.const_data_ptr(), here.nbytes()) == 0;
  let_go(found);
  return same ? found : at::Tensor();
}

}  // namespace

std::vector<int64_t> paged_blocks(int64_t num_blocks, int64_t num_paged) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < num_paged; ++i) numbers.push_back((2 * i + 1) * num_blocks / (2 * num_paged));
  return numbers;
}

/// The identity, in whose backward the block that made the tensor gets its weights back.
struct Pager::BringBack : torch::autograd::Function<BringBack> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, Pager* pager, int64_t number) {
    ctx->saved_data["pager"] = reinterpret_cast<int64_t>(pager);
    ctx->saved_data["number"] = number;
    return x.detach();
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto* pager = reinterpret_cast<Pager*>(ctx->saved_data["pager"].toInt());
    pager->bring(static_cast<size_t>(ctx->saved_data["number"].toInt()), Direction::backward);
    return {grads[0], at::Tensor(), at::Tensor()};
  }
};

class Pager::Runner final : public nn::BlockRunner {
 public:
  explicit Runner(std::shared_ptr<Pager> pager) : pager_(std::move(pager)) {}

  nn::Tensors run(nn::Block& block, const nn::Tensors& inputs) override {
    const auto number = pager_->numbers_.at(&block);
    // A block that is run again inside backward is followed by the one before it.
    const bool again = torch::autograd::get_current_node() != nullptr;
    pager_->bring(number, again ? Direction::backward : Direction::forward);
    auto outputs = nn::run_body(block, inputs);
    for (auto& output : outputs) {
      if (output.requires_grad()) output = BringBack::apply(output, pager_.get(), static_cast<int64_t>(number));
    }
    return outputs;
  }

 private:
  std::shared_ptr<Pager> pager_;
};

Pager::Pager(std::shared_ptr<HostStore> store, c10::Device device, size_t num_places, std::shared_ptr<WeightGroup> group)
    : store_(std::move(store)), device_(device), num_places_(num_places) {
  if (group) division_ = std::make_unique<Division>(std::move(group), device_, store_);
}
Pager::~Pager() = default;

std::shared_ptr<nn::BlockRunner> Pager::runner() { return std::make_shared<Runner>(shared_from_this()); }

void Pager::take(nn::Block& block, const InFile& in_file, const OwnerOf& owner_of) {
  auto [found, is_new] = numbers_.emplace(&block, pages_.size());
  if (is_new) pages_.push_back(std::make_unique<Page>(Page{&block}));
  auto& page = *pages_[found->second];
  block.visit_parameters([&](const std::string& path, at::Tensor& parameter) { take(page, parameter, path, in_file, owner_of); });
  block.visit([&](const std::string& path, nn::Module& module) {
    auto* layer = dynamic_cast<nn::LinearMap*>(&module);
    if (layer == nullptr) return;
    for (const auto& tensor : layer->source().tensors()) take(page, tensor, path + ".weight", in_file, owner_of);
  });
}

void Pager::take(Page& page, const at::Tensor& tensor, const std::string& name, const InFile& in_file, const OwnerOf& owner_of) {
  if (!tensor.defined() || tensor.device() != device_ || tensor.nbytes() == 0) return;
  const at::NoGradGuard no_grad;
  if (page.find(tensor) != nullptr) return;
  auto storage = tensor.storage();
  if (device_.is_meta() && storage.data_ptr().get_context() == nullptr) return;  // a weight is to come there
  if (const auto owner = division_ && owner_of ? owner_of(name) : std::nullopt) {
    const bool stays = division_->is_mine(*owner);
    page.weights.push_back({.storage = storage, .waiting = {}, .in_file = false, .offset = 0, .owner = owner, .stays = stays});
    if (!stays) storage.set_data_ptr_noswap(c10::DataPtr(nullptr, device_));
    return;
  }
  const auto num_bytes = static_cast<int64_t>(storage.nbytes());
  const auto bytes = bytes_of(storage, tensor.options().requires_grad(false));
  const auto found = in_file && !device_.is_meta() ? found_in_file(bytes, in_file(name)) : at::Tensor();
  const bool is_in_file = found.defined() || (in_file && device_.is_meta() && tensor.dim() > 1);
  if (is_in_file && !files_ && !device_.is_meta()) files_ = copy_queue_from_files(device_, store_);
  page.weights.push_back({storage, found, is_in_file, page.num_bytes});
  if (division_) division_->keep_part(page, page.weights.back(), bytes);
  else if (!is_in_file) page.weights.back().waiting = store_->put(bytes);
  page.num_bytes += aligned(num_bytes);
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, device_));
}

bool Pager::share(nn::Block& block, const nn::Block& taken) {
  const auto found = numbers_.find(&taken);
  if (found == numbers_.end()) return false;
  numbers_[&block] = found->second;
  return true;
}

void Pager::make_places() {
  int64_t most = 0;
  for (const auto& page : pages_) {
    if (division_) division_->lay_out(*page);
    most = std::max(most, page->num_bytes);
  }
  places_.resize(std::min(num_places_, pages_.size()));
  for (auto& place : places_) place.bytes = at::empty({most}, at::TensorOptions().dtype(at::kByte).device(device_));
  for (const auto& [block, number] : numbers_) {
    pages_[number]->block->visit([this, number](const std::string& /*path*/, nn::Module& module) {
      if (auto* layer = dynamic_cast<nn::LinearMap*>(&module)) layer->before_read = [this, number] { bring(number); };
    });
  }
}

void Pager::fetch(size_t number) {
  auto& page = *pages_[number];
  if (page.place != nullptr) {
    if (std::exchange(page.is_old, false)) division_->renew(page);
    return;
  }
  page.is_old = false;
  auto place = std::ranges::find_if(places_, [&](const auto& p) { return p.page == nullptr || !is_wanted(*p.page); });
  if (place->page != nullptr) leave(*place->page);
  page.place = &*place;
  place->page = &page;
  for (auto& weight : page.weights) {
    if (device_.is_meta()) break;
    if (weight.stays) continue;
    auto* begin = static_cast<char*>(place->bytes.data_ptr()) + weight.offset;
    weight.storage.set_data_ptr_noswap(c10::DataPtr(begin, device_));
  }
  if (division_) return division_->bring(page);
  if (auto reads = page.copies(/*in_file=*/true); !reads.empty()) page.reading = files_->go(reads);
  page.arrival = store_->fetch(page.copies(/*in_file=*/false));
}

void Pager::leave(Page& page) {
  if (division_) division_->arrive(page);                     // what is on its way may not be given up
  if (page.reading) std::exchange(page.reading, {})->wait();  // what is on its way is written to the place
  if (std::exchange(page.changed, false)) store_->update(page.copies(/*in_file=*/false));
  for (auto& weight : page.weights) {
    if (!weight.stays) weight.storage.set_data_ptr_noswap(c10::DataPtr(nullptr, device_));
  }
  page.place->page = nullptr;
  page.place = nullptr;
}

bool Pager::is_wanted(const Page& page) const { return numbers_.at(page.block) >= first_ && numbers_.at(page.block) <= last_; }

void Pager::bring(size_t number) {
  if (number < first_ || number > last_) first_ = last_ = number;
  fetch(number);
  if (division_) division_->arrive(*pages_[number]);
  store_->wait(pages_[number]->arrival);
  if (pages_[number]->reading) pages_[number]->reading->wait();
}

void Pager::bring(size_t number, Direction direction) {
  const auto ahead = places_.size() - 1;
  first_ = direction == Direction::forward ? number : number - std::min(number, ahead);
  last_ = direction == Direction::forward ? std::min(number + ahead, pages_.size() - 1) : number;
  bring(number);
  for (size_t next = 1; next <= last_ - first_; ++next) fetch(direction == Direction::forward ? number + next : number - next);
}

std::optional<size_t> Pager::block_of(const at::Tensor& tensor) const {
  auto found = std::ranges::find_if(pages_, [&](const auto& page) {
    const auto* weight = page->find(tensor);
    return weight != nullptr && !weight->stays;
  });
  if (found == pages_.end()) return std::nullopt;
  return static_cast<size_t>(found - pages_.begin());
}

void Pager::mark_changed(size_t number) {
  auto& page = *pages_.at(number);
  if (std::ranges::any_of(page.weights, &Page::Weight::in_file)) throw std::logic_error("weights that wait in a file are never written");
  if (division_) throw std::logic_error("weights that processes divide are never written");
  page.changed = true;
}

void Pager::expire() {
  for (const auto& page : pages_) {
    if (division_) division_->expire(*page);
  }
}

at::Tensor Pager::in_host(size_t number, const at::Tensor& tensor) {
  if (device_.is_meta()) return tensor;
  auto& page = *pages_.at(number);
  if (page.place != nullptr) leave(page);
  store_->synchronize();
  const at::NoGradGuard no_grad;
  return at::empty({0}, tensor.options().device(at::kCPU).requires_grad(false))
      .set_(page.find(tensor)->waiting.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
}

int64_t Pager::num_waiting_bytes() const {
  int64_t bytes = 0;
  for (const auto& page : pages_) {
    bytes += division_ ? page->parts.num_my_bytes : page->num_bytes;
    for (const auto& row : page->rows) bytes += row.is_mine() ? row.num_bytes : 0;
  }
  return bytes;
}

int64_t Pager::num_file_bytes() const {
  int64_t bytes = 0;
  for (const auto& page : pages_) {
    for (const auto& weight : page->weights) bytes += weight.in_file ? static_cast<int64_t>(weight.storage.nbytes()) : 0;
  }
  return bytes;
}

int64_t Pager::num_device_bytes() const {
  int64_t bytes = 0;
  for (const auto& place : places_) bytes += place.bytes.numel();
  return bytes;
}

}  // namespace burnish::memory
