#include "models/parts/word_units.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>

namespace burnish::models {

namespace {

constexpr int64_t kNoPlace = -1;

/// The row of all words' states that stands in the place of a token, by how far its id is behind the vocabulary.
std::vector<int64_t> rows_of(const std::vector<Word>& words) {
  std::vector<int64_t> rows;
  int64_t next = 0;
  for (const auto& word : words) {
    for (int64_t i = 0; i < word.vectors_NE.size(0); ++i) rows.push_back(word.states_NE.defined() ? next++ : kNoPlace);
  }
  return rows;
}

at::Tensor states_of(const std::vector<Word>& words) {
  std::vector<at::Tensor> states;
  for (const auto& word : words) {
    if (word.states_NE.defined()) states.push_back(word.states_NE);
  }
  return at::cat(states);
}

}  // namespace

std::string word_unit(const std::string& encoder) { return "put_words_of_" + encoder; }

pipeline::Units word_units(Components& components, const std::string& encoder, const std::string& value,
                           const std::function<std::vector<int64_t>(const std::string& prompt)>& ids_of) {
  const auto& words = components.holding(encoder).words;
  if (std::ranges::none_of(words, [](const Word& word) { return word.states_NE.defined(); })) return {};
  const auto places = value + "_places";
  auto find = [=, &components](pipeline::Scope& scope) {
    scope.uses(encoder);
    const auto rows = rows_of(components.holding(encoder).words);
    const auto first_id = components.find(encoder)->tokenizer->vocab_size;
    auto ids = ids_of(scope.text("prompt"));
    for (auto& id : ids) id = id < first_id ? kNoPlace : rows.at(static_cast<size_t>(id - first_id));
    scope.write(places, at::tensor(ids, at::TensorOptions().dtype(at::kLong)).unsqueeze(0));
  };
  auto put = [=, &components](pipeline::Scope& scope) {
    scope.uses(kWords);
    const auto states_SE = states_of(components.holding(encoder).words);
    const auto& of_encoder_BLE = scope.tensor(value);
    const auto places_BL = scope.tensor(places).to(states_SE.device());
    const auto of_words_BLE = at::embedding(states_SE, places_BL.clamp_min(0)).to(of_encoder_BLE.dtype());
    scope.write(value, at::where((places_BL >= 0).unsqueeze(-1), of_words_BLE, of_encoder_BLE.to(states_SE.device())));
  };
  return {{"find_words_of_" + encoder, {"prompt"}, {places}, {encoder}, find},
          {word_unit(encoder), {value, places}, {value}, {kWords}, put}};
}

}  // namespace burnish::models
