#include "train/subject/trained_words.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/median.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/input_error.h"
#include "base/text.h"
#include "models/model/block_by_block.h"
#include "models/parts/word_units.h"
#include "train/subject/training_units.h"

namespace burnish::train {

namespace {

nn::Embedding& table_of(models::Model& model, const std::string& encoder) {
  auto& components = model.components();
  return models::token_table(components.module(encoder), *components.find(encoder));
}

/// The encoders whose vectors train.
std::vector<std::string> encoders_of(const WordSettings& word, const models::Model& model, const std::vector<std::string>& components) {
  auto able = loras::word_encoders(model);
  std::erase_if(able, [&](const auto& encoder) { return !contains(components, encoder); });
  if (able.empty())
    config_error("train",
                 "embedding_token trains vectors of CLIP and T5 text encoders, and there is none among the files of this {} model; name "
                 "their files with a further --model, or train an adapter",
                 model.names().family);
  if (word.encoders.empty()) return able;
  std::vector<std::string> named;
  for (const auto& name : word.encoders) {
    named.push_back(component_called(name, components));
    if (!contains(able, named.back()))
      config_error("train", "embedding_models names {}, which learns no words; there are {}", name, join(able));
  }
  return named;
}

/// The word of a file that a word begins with: the one that is called so, or else the only one.
const models::Word& beginning(const WordSettings& word, const std::string& encoder, const loras::WordsByEncoder& from_file) {
  if (!from_file.contains(encoder))
    config_error("train", "embedding_checkpoint {} holds no vectors for {}; take another file, or name those it has in embedding_models",
                 word.file, encoder);
  const auto& there = from_file.at(encoder);
  const auto same = std::ranges::find(there, word.text, &models::Word::text);
  if (same == there.end() && there.size() > 1)
    config_error("train", "embedding_checkpoint {} holds {} words, and '{}' is none of them; name one of them behind it, as FILE:WORD",
                 word.file, there.size(), word.text);
  const auto& from = same == there.end() ? there.front() : *same;
  if (from.states_NE.defined() != word.is_output)
    config_error("train", "embedding_checkpoint {} holds {}; {} --embedding_output", word.file,
                 word.is_output ? "vectors that encoders read" : "states that stand in the place of an encoder's",
                 word.is_output ? "take out" : "add");
  return from;
}

/// Returns what a word begins with: the numbers of a file, or zeros until the encoder is loaded.
models::Word begun(const WordSettings& word, const models::Model& model, const std::string& encoder,
                   const loras::WordsByEncoder& from_file) {
  const auto& all = model.components();
  const auto options = at::TensorOptions().dtype(at::kFloat).device(model.device());
  const auto width = models::token_table(*all.skeleton(encoder), *all.find(encoder)).weight.size(1);
  auto zeros = [&] { return at::zeros({word.num_tokens, width}, options); };
  auto own = [&](const at::Tensor& values) { return values.to(options, /*non_blocking=*/false, /*copy=*/true); };
  models::Word begun{.text = word.text, .vectors_NE = {}};
  const auto* from = word.file.empty() ? nullptr : &beginning(word, encoder, from_file);
  begun.vectors_NE = from != nullptr ? own(from->vectors_NE) : zeros();
  if (word.is_output) begun.states_NE = from != nullptr ? own(from->states_NE) : zeros();
  return begun;
}

/// What the encoder makes of the first words [tokens, E], without what stands before a text.
at::Tensor states_of(const std::string& text, models::Model& model, const std::string& encoder) {
  const auto name = models::word_unit(encoder);
  const auto units = model.units().encode_prompt;
  const auto put = std::ranges::find(units, name, &pipeline::Unit::name);
  const auto& value = put->writes.front();
  const auto encode = std::ranges::find_if(units, [&](const auto& unit) { return unit.name != name && contains(unit.writes, value); });
  auto& components = model.components();
  pipeline::Values values{{"prompt", text}};
  // It may be too large to be in memory beside the denoiser, and is run once.
  if (components.is_loaded(encoder)) pipeline::run({*encode}, values);
  else models::BlockByBlock(components, encoder).run(1, [&](int64_t) { pipeline::run({*encode}, values); });
  const auto& tokenizer = components.tokenizer(encoder);
  const auto num_before = std::ssize(tokenizer.encode("")) - (tokenizer.end_id() >= 0 ? 1 : 0);
  auto states = std::get<at::Tensor>(values.at(value))[0].slice(0, num_before, num_before + std::ssize(tokenizer.encode_inner(text)));
  return states;
}

/// The tensor of a word in an encoder that trains.
at::Tensor trained_tensor(const WordSettings& word, const models::Model& model, const std::string& encoder) {
  const auto& known = *std::ranges::find(model.components().holding(encoder).words, word.text, &models::Word::text);
  return word.is_output ? known.states_NE : known.vectors_NE;
}

/// What the vectors of a word begin with, of the words that it is to begin as: rows of the token table, or states.
at::Tensor rows_of(const WordSettings& word, models::Model& model, const std::string& encoder) {
  model.components().check(encoder);  // which reads the vocabulary
  const auto ids = model.components().tokenizer(encoder).encode_inner(word.init);
  if (ids.empty()) config_error("train", "embedding_init '{}' has no tokens for {}; give a word", word.init, encoder);
  if (std::ranges::max(ids) >= model.components().find(encoder)->tokenizer->vocab_size)
    config_error("train",
                 "embedding_init '{}' holds a word that trains, which has no vectors yet; give words of the vocabulary, or call that word "
                 "otherwise, <{}> say",
                 word.init, "my-word");
  if (word.is_output) return states_of(word.init, model, encoder);
  const auto& table = table_of(model, encoder).weight;
  return table.index_select(0, at::tensor(ids, at::TensorOptions().dtype(at::kLong)).to(table.device()));
}

}  // namespace

std::vector<ChosenWord> choose_words(const WordsSettings& settings, models::Model& model, const std::vector<std::string>& components) {
  std::vector<ChosenWord> chosen;
  loras::WordsByEncoder known;
  for (const auto& word : settings.list) {
    const auto encoders = encoders_of(word, model, components);
    const auto from_file = word.file.empty() ? loras::WordsByEncoder() : loras::read_words(model, loras::parse_embedding_file(word.file));
    for (const auto& encoder : encoders) known[encoder].push_back(begun(word, model, encoder, from_file));
    chosen.push_back({word, encoders});
    chosen.back().settings.num_tokens = known.at(encoders.front()).back().vectors_NE.size(0);
  }
  for (auto& [encoder, words] : known) model.components().set_words(encoder, std::move(words));
  const auto units = model.units().encode_prompt;
  for (auto& [word, encoders] : chosen) {
    if (!word.is_output) continue;
    const auto named = encoders;
    std::erase_if(encoders, [&](const auto& encoder) { return !pipeline::has_unit(units, models::word_unit(encoder)); });
    if (encoders.empty())
      config_error("train", "embedding_output is for encoders whose states the denoiser reads, and none is among {}; take it out",
                   join(named));
  }
  return chosen;
}

std::string word_parameter(const WordSettings& word, const models::Model& model, const std::string& encoder) {
  if (word.is_output) return fmt::format("{}.{}.{}", models::kWords, encoder, word.text);
  return fmt::format("{}.{}.added.{}", encoder, model.components().find(encoder)->tokenizer->table, word.text);
}

TrainedWords::TrainedWords(const std::vector<ChosenWord>& words, bool keeps_norm, models::Model& model) {
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i].settings;
    for (const auto& encoder : words[i].encoders) {
      auto values = trained_tensor(word, model, encoder);
      auto& vectors = vectors_.emplace_back(Vectors{i, encoder, values});
      values.set_requires_grad(true);
      if (values.is_meta()) continue;
      if (keeps_norm && !word.is_output)
        vectors.norm = at::linalg_vector_norm(table_of(model, encoder).weight.to(at::kFloat), 2, {1}).median().item<double>();
      if (word.file.empty()) begin(word, model, vectors);
    }
  }
}

void TrainedWords::begin(const WordSettings& word, models::Model& model, Vectors& vectors) {
  const auto rows = rows_of(word, model, vectors.encoder);
  for (int64_t i = 0; i < vectors.values_NE.size(0); ++i) vectors.values_NE[i].copy_(rows[i % rows.size(0)]);
}

void TrainedWords::keep_norms() const {
  at::NoGradGuard no_grad;
  for (const auto& v : vectors_) {
    if (v.norm == 0) continue;
    auto values = v.values_NE;
    values.mul_(v.norm / at::linalg_vector_norm(values, 2, {1}, /*keepdim=*/true).clamp_min(1e-12));
  }
}

}  // namespace burnish::train
