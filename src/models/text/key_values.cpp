#include "models/text/key_values.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace burnish::models::text {

std::pair<at::Tensor, at::Tensor> KeyValues::append(size_t layer, const at::Tensor& keys_BHND, const at::Tensor& values_BHND) {
  if (layer == layers_.size()) {
    auto shape = keys_BHND.sizes().vec();
    shape[2] = room_;
    // What nobody sees is multiplied by a weight of 0, so that it has to be a number.
    layers_.push_back({at::zeros(shape, keys_BHND.options()), at::zeros(shape, values_BHND.options())});
  }
  auto& [keys, values, length] = layers_.at(layer);
  const auto count = keys_BHND.size(2);
  if (length + count > room_) throw std::logic_error("a text has more tokens than there is room for");
  keys.narrow(2, length, count).copy_(keys_BHND);
  values.narrow(2, length, count).copy_(values_BHND);
  length += count;
  return {keys.narrow(2, 0, length), values.narrow(2, 0, length)};
}

at::Tensor KeyValues::bias(int64_t more, const at::TensorOptions& options) const {
  if (first_.empty()) return {};
  auto first_B = at::tensor(first_, at::TensorOptions().dtype(at::kLong)).to(options.device());
  auto is_before = at::arange(length() + more, first_B.options()) < first_B.view({-1, 1, 1, 1});
  return at::where(is_before, at::full({}, -std::numeric_limits<double>::infinity(), options), at::zeros({}, options));
}

KeyValues KeyValues::joined(const std::vector<KeyValues>& batches, int64_t room) {
  KeyValues all(room);
  int64_t length = 0;
  for (const auto& batch : batches) length = std::max(length, batch.length());
  for (const auto& batch : batches) {
    for (int64_t i = 0; i < batch.num_texts(); ++i) all.first_.push_back(length - batch.length());
  }
  const auto num_texts = std::ssize(all.first_);
  for (size_t k = 0; k < batches.at(0).layers_.size(); ++k) {
    const auto& like = batches[0].layers_[k].keys;
    const std::vector<int64_t> shape{num_texts, like.size(1), room, like.size(3)};
    auto& [keys, values, _] = all.layers_.emplace_back(Layer{at::zeros(shape, like.options()), at::zeros(shape, like.options()), length});
    int64_t text = 0;
    for (const auto& batch : batches) {
      const auto& from = batch.layers_[k];
      auto place = [&](const at::Tensor& whole) {
        return whole.narrow(0, text, batch.num_texts()).narrow(2, length - from.length, from.length);
      };
      place(keys).copy_(from.keys.narrow(2, 0, from.length));
      place(values).copy_(from.values.narrow(2, 0, from.length));
      text += batch.num_texts();
    }
  }
  if (std::ranges::all_of(all.first_, [](int64_t first) { return first == 0; })) all.first_.clear();
  return all;
}

}  // namespace burnish::models::text
