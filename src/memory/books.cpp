#include "memory/books.h"

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>
#include <torch/csrc/autograd/function.h>

namespace burnish::memory {

namespace {

/// Holds a block of memory for a storage.
struct Held {
  std::shared_ptr<Books> books;
  size_t number;
};

void free_held(void* context) {
  auto* held = static_cast<Held*>(context);
  held->books->free(held->number);
  delete held;
}

}  // namespace

std::string_view Places::current() {
  auto node = torch::autograd::get_current_node();
  if (node == nullptr) return now;
  auto found = nodes.lower_bound(node->sequence_nr());
  if (found != nodes.end()) last_backward = found->second.first <= node->sequence_nr() ? found->second.second : kBackward;
  return last_backward;
}

size_t Books::take(int64_t num_bytes, std::string_view place) {
  const std::lock_guard lock(mutex);
  const auto number = allocations.size();
  allocations.push_back(
      {.num_bytes = num_bytes, .taken = now++, .place = place.empty() ? places.current() : place, .is_recorded = records});
  if (listener != nullptr) listener->taken(number, num_bytes);
  return number;
}

void Books::free(size_t number) {
  const std::lock_guard lock(mutex);
  if (again) return;
  if (put_off != nullptr) return put_off->push_back(number);
  allocations[number].freed = now++;
  if (listener != nullptr) listener->freed(number);
}

c10::DataPtr data_of(std::shared_ptr<Books> books, size_t number) {
  return {nullptr, new Held{std::move(books), number}, &free_held, c10::Device(c10::kMeta)};
}

std::optional<size_t> number_in(const c10::Storage& storage, const Books& books) {
  const auto& data = storage.data_ptr();
  if (data.get_deleter() != &free_held) return std::nullopt;
  const auto* held = static_cast<const Held*>(data.get_context());
  if (held->books.get() != &books) return std::nullopt;
  return held->number;
}

}  // namespace burnish::memory
