#include "memory/body_script.h"

#include <c10/core/Storage.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <utility>

namespace burnish::memory {

namespace {

/// Holds the memory of an input or an output for the graph of a body.
struct Told {
  std::shared_ptr<BodyScript> script;
  Move::Does does;
  size_t which;
  c10::Storage memory;
};

void free_told(void* context) {
  auto* told = static_cast<Told*>(context);
  told->script->dropped(told->does, told->which);
  const bool is_listening = std::exchange(told->script->is_listening, false);
  auto script = told->script;
  delete told;  // what the memory's end is, is not the body's
  script->is_listening = is_listening;
}

bool is_added() {
  const auto node = torch::autograd::get_current_node();
  return node != nullptr && dynamic_cast<torch::autograd::AccumulateGrad*>(node.get()) != nullptr;
}

}  // namespace

Geometry geometry_of(const at::Tensor& tensor) {
  return {tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset(), tensor.scalar_type()};
}

std::string text_of(const Geometry& geometry) {
  return fmt::format("{}@{}+{}:{}", fmt::join(geometry.sizes, "x"), fmt::join(geometry.strides, ","), geometry.offset,
                     static_cast<int>(geometry.dtype));
}

Geometry moved(Geometry geometry, int64_t num_bytes) {
  geometry.offset += num_bytes / static_cast<int64_t>(c10::elementSize(geometry.dtype));
  return geometry;
}

at::Tensor tensor_in(c10::Storage storage, const Geometry& geometry) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::Meta),
                                                         c10::scalarTypeToTypeMeta(geometry.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(geometry.sizes, geometry.strides, geometry.offset);
  return tensor;
}

c10::Storage storage_of(c10::DataPtr data, int64_t num_bytes) {
  return {c10::Storage::use_byte_size_t(), static_cast<size_t>(num_bytes), std::move(data), c10::GetAllocator(c10::kMeta),
          /*resizable=*/false};
}

void BodyScript::taken(size_t number, int64_t num_bytes) {
  if (!is_listening || is_added()) return;
  own_[number] = is_freed_.size();
  is_freed_.push_back(false);
  moves.push_back({Move::Does::take, num_bytes});
}

void BodyScript::freed(size_t number) {
  if (!is_listening) return;
  const bool is_by_itself = is_added();
  if (auto own = own_.find(number); own != own_.end()) {
    is_freed_[own->second] = true;
    if (!is_by_itself) moves.push_back({Move::Does::free, static_cast<int64_t>(own->second)});
  } else if (auto gradient = gradients_.find(number); gradient != gradients_.end()) {
    if (!is_by_itself) moves.push_back({Move::Does::drop_gradient, static_cast<int64_t>(gradient->second)});
    else is_whole = false;
  } else if (!is_by_itself) {
    is_whole = false;
  }
}

void BodyScript::dropped(Move::Does does, size_t which) {
  dropped_.insert({does, which});
  if (is_listening) moves.push_back({does, static_cast<int64_t>(which)});
}

void BodyScript::accumulates(size_t parameter, const at::Tensor& gradient, const Books& books) {
  if (!is_listening || !gradient.defined()) return;
  moves.push_back({Move::Does::accumulate, static_cast<int64_t>(accumulated.size())});
  accumulated.push_back({parameter, made(gradient, books)});
  if (accumulated.back().gradient.in == MadeTensor::In::nothing) is_whole = false;
}

void BodyScript::begin_backward(std::unordered_map<size_t, size_t> gradients, std::vector<int64_t> bases) {
  moves.clear();
  bases_ = std::move(bases);
  gradients_ = std::move(gradients);
}

void BodyScript::begin_after(size_t first, size_t count, const std::vector<size_t>& alive) {
  for (size_t i = 0; i < count; ++i) own_[first + i] = i;
  is_freed_.assign(count, true);
  for (auto own : alive) is_freed_[own] = false;
}

MadeTensor BodyScript::made(const at::Tensor& tensor, const Books& books) const {
  using In = MadeTensor::In;
  if (!tensor.defined()) return {};
  MadeTensor made{.geometry = geometry_of(tensor), .requires_grad = tensor.requires_grad()};
  if (auto input = stands_for(tensor.storage())) {
    made.in = In::input;
    made.which = *input;
  } else if (auto number = number_in(tensor.storage(), books)) {
    if (auto own = own_.find(*number); own != own_.end()) {
      made.in = In::own;
      made.which = own->second;
    } else if (auto gradient = gradients_.find(*number); gradient != gradients_.end()) {
      made.in = In::gradient;
      made.which = gradient->second;
      made.geometry = moved(std::move(made.geometry), -bases_[made.which]);
    }
  }
  return made;
}

bool BodyScript::has_dropped(Move::Does does, size_t which) const { return dropped_.contains({does, which}); }

std::optional<size_t> BodyScript::own(size_t number) const {
  const auto found = own_.find(number);
  return found == own_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<size_t> BodyScript::alive() const {
  std::vector<size_t> alive;
  for (size_t i = 0; i < is_freed_.size(); ++i) {
    if (!is_freed_[i]) alive.push_back(i);
  }
  return alive;
}

Listening::Listening(Books& books, BodyScript& script) : books_(books), script_(script) {
  script_.is_listening = true;
  books_.listener = &script_;
}

Listening::~Listening() {
  script_.is_listening = false;
  books_.listener = nullptr;
}

c10::DataPtr told_of(std::shared_ptr<BodyScript> script, Move::Does does, size_t which, c10::Storage memory) {
  return {nullptr, new Told{std::move(script), does, which, std::move(memory)}, &free_told, c10::Device(c10::kMeta)};
}

std::optional<size_t> stands_for(const c10::Storage& storage) {
  const auto& data = storage.data_ptr();
  if (data.get_deleter() != &free_told) return std::nullopt;
  const auto* told = static_cast<const Told*>(data.get_context());
  return told->does == Move::Does::drop_input ? std::optional(told->which) : std::nullopt;
}

}  // namespace burnish::memory
