#include "memory/paging.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "memory/file_lane.h"
#include "nn/linear.h"

namespace burnish::memory {

namespace {

constexpr int64_t kAlignment = 256;  // of a tensor in its place, as allocators of GPUs align it

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// All of a storage.
at::Tensor bytes_of(const c10::Storage& storage, const at::TensorOptions& options) {
  return at::empty({0}, options.dtype(at::kByte)).set_(storage, 0, {static_cast<int64_t>(storage.nbytes())}, {1});
}

/// The bytes of a tensor whose elements lie side by side.
at::Tensor bytes_of(const at::Tensor& tensor) {
  const auto first = tensor.storage_offset() * tensor.element_size();
  return bytes_of(tensor.storage(), tensor.options()).narrow(0, first, static_cast<int64_t>(tensor.nbytes()));
}

/// A weight's bytes in its file, where the file has just these; undefined elsewhere.
at::Tensor found_in_file(const at::Tensor& bytes, const at::Tensor& in_file) {
  if (!in_file.defined() || !in_file.is_contiguous() || in_file.nbytes() != bytes.nbytes()) return {};
  const auto found = bytes_of(in_file), here = bytes.cpu();
  const bool same = std::memcmp(found.const_data_ptr(), here.const_data_ptr(), here.nbytes()) == 0;
  let_go(found);
  return same ? found : at::Tensor();
}

int64_t aligned(int64_t num_bytes) { return (num_bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Where even parts of weights of a device lie and travel between processes: on it, or in host memory where they travel from there.
at::Tensor room_to_travel(const Sharers& sharers, c10::Device device, const HostStore& store, int64_t num_bytes) {
  if (device.is_cpu() || sharers.device() != device) return store.room(num_bytes);
  return at::empty({num_bytes}, at::TensorOptions().dtype(at::kByte).device(device));
}

/// What process `number` keeps of some bytes; nothing where those before it have all.
at::Tensor share_of(const at::Tensor& bytes, int64_t share, int64_t number) {
  const auto first = std::min(bytes.numel(), number * share);
  return bytes.narrow(0, first, std::min(bytes.numel() - first, share));
}

}  // namespace

std::vector<int64_t> paged_blocks(int64_t num_blocks, int64_t num_paged) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < num_paged; ++i) numbers.push_back((2 * i + 1) * num_blocks / (2 * num_paged));
  return numbers;
}

/// The weights of a block that one of several processes owns, side by side.
struct Pager::Row {
  int64_t owner = 0;
  int64_t num_bytes = 0;
  int64_t offset = 0;            ///< in a place; of another's
  at::Tensor own = {};           ///< where they are this process's: on the device,
  at::Tensor in_host = {};       ///< and once more where they can travel from, unless that is the device
  at::Tensor travelling = {};    ///< while it comes, or is sent
  HostStore::Arrival come = {};  ///< when it has

  bool is_mine() const { return own.defined(); }
};

/// A block's weights.
struct Pager::Page {
  struct Weight {
    c10::Storage storage;  ///< points into a place, or nowhere
    at::Tensor waiting;    ///< its bytes, in host memory or in a file; undefined for the meta device where they would be in a file
    bool in_file;
    int64_t offset;                     ///< in a place
    int64_t share = 0;                  ///< bytes that each of several processes keeps, the last of them fewer
    int64_t my_offset = 0;              ///< of them in what the page keeps
    std::optional<int64_t> owner = {};  ///< of several processes, the one that has all of it
  };
  nn::Block* block;
  std::vector<Weight> weights = {};
  int64_t num_bytes = 0;
  Place* place = nullptr;
  bool changed = false;                           ///< since it came
  HostStore::Arrival arrival = {}, reading = {};  ///< of what comes from host memory, and of what comes from a file
  struct Parts {
    at::Tensor mine = {};  ///< what this process keeps
    int64_t num_my_bytes = 0;
    at::Tensor all = {};           ///< of all processes, while it comes
    HostStore::Arrival come = {};  ///< when it has
  };
  Parts parts = {};            ///< of all weights that several processes divide evenly
  std::vector<Row> rows = {};  ///< of each process that owns weights, in their order
  bool is_old = false;         ///< whether owners wrote to them since they came

  /// Its bytes in its place on the device and where they wait: those in files, or those in host memory.
  HostStore::Copies copies(bool in_file) const;
  HostStore::Copies copies_of_parts(int64_t num_processes) const;
  void keep(Row& row, c10::Device device);
  /// Null where the tensor is none of its weights.
  const Weight* find(const at::Tensor& tensor) const {
    auto found = std::ranges::find_if(weights, [&](const auto& w) { return w.storage.is_alias_of(tensor.storage()); });
    return found == weights.end() ? nullptr : &*found;
  }
};

/// Memory of the device for a page.
struct Pager::Place {
  at::Tensor bytes;
  Page* page = nullptr;
};

HostStore::Copies Pager::Page::copies(bool in_file) const {
  HostStore::Copies copies;
  for (const auto& weight : weights) {
    if (weight.in_file != in_file || !weight.waiting.defined()) continue;
    copies.emplace_back(place->bytes.narrow(0, weight.offset, weight.waiting.numel()), weight.waiting);
  }
  return copies;
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

Pager::Pager(std::shared_ptr<HostStore> store, c10::Device device, size_t num_places, std::shared_ptr<Sharers> sharers)
    : store_(std::move(store)), sharers_(std::move(sharers)), device_(device), num_places_(num_places) {}
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
  if (const auto owner = sharers_ && owner_of ? owner_of(name) : std::nullopt) {
    page.weights.push_back({.storage = storage, .waiting = {}, .in_file = false, .offset = 0, .owner = owner});
    if (owner != sharers_->number()) storage.set_data_ptr_noswap(c10::DataPtr(nullptr, device_));
    return;
  }
  const auto num_bytes = static_cast<int64_t>(storage.nbytes());
  const auto bytes = bytes_of(storage, tensor.options().requires_grad(false));
  const auto found = in_file && !device_.is_meta() ? found_in_file(bytes, in_file(name)) : at::Tensor();
  const bool is_in_file = found.defined() || (in_file && device_.is_meta() && tensor.dim() > 1);
  if (is_in_file && !files_ && !device_.is_meta()) files_ = lane_from_files(device_, store_);
  page.weights.push_back({storage, found, is_in_file, page.num_bytes});
  if (auto& weight = page.weights.back(); sharers_) {
    weight.share = (num_bytes + sharers_->count() - 1) / sharers_->count();
    weight.my_offset = std::exchange(page.parts.num_my_bytes, page.parts.num_my_bytes + weight.share);
    const auto mine = share_of(bytes, weight.share, sharers_->number());
    weight.waiting = travels_in_place() ? mine.clone() : store_->put(mine);
  } else if (!is_in_file) {
    weight.waiting = store_->put(bytes);
  }
  page.num_bytes += aligned(num_bytes);
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, device_));
}

/// One tensor for what this process keeps of a page, so that it travels at once.
void Pager::put_together(Page& page) {
  const at::NoGradGuard no_grad;
  page.parts.mine = room_to_travel(*sharers_, device_, *store_, page.parts.num_my_bytes);
  store_->synchronize();
  for (auto& weight : page.weights) {
    if (weight.owner) continue;
    if (!device_.is_meta()) page.parts.mine.narrow(0, weight.my_offset, weight.waiting.numel()).copy_(weight.waiting);
    weight.waiting = at::Tensor();
  }
}

/// Lays what each process owns side by side, so that it travels at once: one's own in memory that stays, that of others in a place.
void Pager::make_rows(Page& page) {
  for (int64_t owner = 0; owner < sharers_->count(); ++owner) {
    const bool is_mine = owner == sharers_->number();
    Row row{.owner = owner, .offset = is_mine ? 0 : page.num_bytes};
    for (auto& weight : page.weights) {
      if (weight.owner != owner) continue;
      weight.offset = row.offset + row.num_bytes;
      row.num_bytes += aligned(static_cast<int64_t>(weight.storage.nbytes()));
    }
    if (row.num_bytes == 0) continue;
    if (is_mine) page.keep(row, device_);
    else page.num_bytes += row.num_bytes;
    if (is_mine && !travels_in_place()) {
      row.in_host = store_->put(row.own);
      copies_are_made_ = false;
    }
    page.rows.push_back(std::move(row));
  }
}

/// Moves the weights of a row of this process to where they stay.
void Pager::Page::keep(Row& row, c10::Device device) {
  const at::NoGradGuard no_grad;
  const auto bytes = at::TensorOptions().dtype(at::kByte).device(device);
  row.own = at::empty({row.num_bytes}, bytes);
  for (auto& weight : weights) {
    if (weight.owner != row.owner) continue;
    row.own.narrow(0, weight.offset, static_cast<int64_t>(weight.storage.nbytes())).copy_(bytes_of(weight.storage, bytes));
    auto* begin = device.is_meta() ? nullptr : static_cast<char*>(row.own.data_ptr()) + weight.offset;
    auto* keeper = new at::Tensor(row.own);  // what reads the weight may outlive the pager
    auto let_go_of = [](void* tensor) { delete static_cast<at::Tensor*>(tensor); };
    weight.storage.set_data_ptr_noswap(c10::DataPtr(begin, keeper, let_go_of, device));
  }
}

void Pager::make_places() {
  int64_t most = 0;
  for (const auto& page : pages_) {
    if (!sharers_) break;
    put_together(*page);
    make_rows(*page);
  }
  for (const auto& page : pages_) most = std::max(most, page->num_bytes);
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
    if (std::exchange(page.is_old, false)) {
      arrive(page);  // what is on its way may not be given up
      broadcast(page);
    }
    return;
  }
  page.is_old = false;
  auto place = std::ranges::find_if(places_, [&](const auto& p) { return p.page == nullptr || !is_wanted(*p.page); });
  if (place->page != nullptr) leave(*place->page);
  page.place = &*place;
  place->page = &page;
  for (auto& weight : page.weights) {
    if (device_.is_meta()) break;
    if (is_mine(weight.owner)) continue;
    auto* begin = static_cast<char*>(place->bytes.data_ptr()) + weight.offset;
    weight.storage.set_data_ptr_noswap(c10::DataPtr(begin, device_));
  }
  if (sharers_) {
    gather(page);
    broadcast(page);
    return;
  }
  if (auto reads = page.copies(/*in_file=*/true); !reads.empty()) page.reading = files_->go(reads);
  page.arrival = store_->fetch(page.copies(/*in_file=*/false));
}

/// Begins to have come what all processes have of a page in even parts.
void Pager::gather(Page& page) {
  if (page.parts.num_my_bytes == 0) return;
  page.parts.all = room_to_travel(*sharers_, device_, *store_, sharers_->count() * page.parts.num_my_bytes);
  page.parts.come = sharers_->gather(page.parts.mine, page.parts.all.view({sharers_->count(), page.parts.num_my_bytes}));
}

/// Begins to have what each process owns come to the others.
void Pager::broadcast(Page& page) {
  if (!std::exchange(copies_are_made_, true)) store_->synchronize();
  for (auto& row : page.rows) {
    if (travels_in_place()) row.travelling = row.is_mine() ? row.own : page.place->bytes.narrow(0, row.offset, row.num_bytes);
    else row.travelling = row.is_mine() ? row.in_host : store_->room(row.num_bytes);
    row.come = sharers_->broadcast(row.travelling, row.owner);
  }
}

/// What is on its way to a page has come: puts it where it belongs on the device.
void Pager::arrive(Page& page) {
  HostStore::Copies copies;
  if (page.parts.come) {
    std::exchange(page.parts.come, {})->wait();
    copies = page.copies_of_parts(sharers_->count());
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

/// Where what all processes have of it in even parts belongs.
HostStore::Copies Pager::Page::copies_of_parts(int64_t num_processes) const {
  HostStore::Copies copies;
  for (const auto& weight : weights) {
    if (weight.owner) continue;
    const auto bytes = place->bytes.narrow(0, weight.offset, static_cast<int64_t>(weight.storage.nbytes()));
    for (int64_t number = 0; number < num_processes; ++number) {
      const auto to = share_of(bytes, weight.share, number);
      copies.emplace_back(to, parts.all.narrow(0, number * parts.num_my_bytes + weight.my_offset, to.numel()));
    }
  }
  return copies;
}

void Pager::leave(Page& page) {
  arrive(page);                                               // what is on its way may not be given up
  if (page.reading) std::exchange(page.reading, {})->wait();  // what is on its way is written to the place
  if (std::exchange(page.changed, false)) store_->update(page.copies(/*in_file=*/false));
  for (auto& weight : page.weights) {
    if (!is_mine(weight.owner)) weight.storage.set_data_ptr_noswap(c10::DataPtr(nullptr, device_));
  }
  page.place->page = nullptr;
  page.place = nullptr;
}

bool Pager::is_wanted(const Page& page) const { return numbers_.at(page.block) >= first_ && numbers_.at(page.block) <= last_; }

void Pager::bring(size_t number) {
  if (number < first_ || number > last_) first_ = last_ = number;
  fetch(number);
  arrive(*pages_[number]);
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
    return weight != nullptr && !is_mine(weight->owner);
  });
  if (found == pages_.end()) return std::nullopt;
  return static_cast<size_t>(found - pages_.begin());
}

void Pager::mark_changed(size_t number) {
  auto& page = *pages_.at(number);
  if (std::ranges::any_of(page.weights, &Page::Weight::in_file)) throw std::logic_error("weights that wait in a file are never written");
  if (sharers_) throw std::logic_error("weights that processes divide are never written");
  page.changed = true;
}

void Pager::expire() {
  for (const auto& page : pages_) {
    page->is_old = page->is_old || !page->rows.empty();
    for (const auto& row : page->rows) {
      if (!row.in_host.defined()) continue;
      store_->update({{row.own, row.in_host}});
      copies_are_made_ = false;
    }
  }
}

bool Pager::is_mine(std::optional<int64_t> owner) const { return owner && owner == sharers_->number(); }

bool Pager::travels_in_place() const { return sharers_->device() == device_; }

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
    bytes += sharers_ ? page->parts.num_my_bytes : page->num_bytes;
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
