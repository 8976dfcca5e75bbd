#include "train/subject/trained_word.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/median.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "models/word_units.h"
#include "train/subject/training_units.h"

namespace burnish::train {

namespace {

nn::Embedding& table_of(models::Model& model, const std::string& encoder) {
  auto& components = model.components();
  return models::token_table(components.module(encoder), *components.find(encoder));
}

/// The encoders whose vectors train.
std::vector<std::string> encoders_of(const WordSettings& settings, const models::Model& model, const std::vector<std::string>& components) {
  auto able = loras::word_encoders(model);
  std::erase_if(able, [&](const auto& encoder) { return !contains(components, encoder); });
  if (able.empty())
    config_error("train",
                 "embedding_token trains vectors of CLIP and T5 text encoders, and there is none among the files of this {} model; name "
                 "their files with a further --model, or train an adapter",
                 model.names().family);
  if (settings.encoders.empty()) return able;
  std::vector<std::string> named;
  for (const auto& name : settings.encoders) {
    named.push_back(component_called(name, components));
    if (!contains(able, named.back()))
      config_error("train", "embedding_models names {}, which learns no words; there are {}", name, join(able));
  }
  return named;
}

/// What a word begins with: the numbers of a file, or zeros until the encoder is loaded.
models::Word begun(const WordSettings& settings, const models::Model& model, const std::string& encoder,
                   const loras::WordsByEncoder& from_file) {
  const auto& all = model.components();
  const auto options = at::TensorOptions().dtype(at::kFloat).device(model.device());
  const auto width = models::token_table(*all.skeleton(encoder), *all.find(encoder)).weight.size(1);
  auto zeros = [&](int64_t num_tokens) { return at::zeros({num_tokens, width}, options); };
  models::Word word{.text = settings.text, .vectors_NE = zeros(settings.num_tokens)};
  if (settings.is_output) word.states_NE = zeros(settings.num_tokens);
  if (settings.file.empty()) return word;
  if (!from_file.contains(encoder))
    config_error("train", "embedding_checkpoint {} holds no vectors for {}; take another file, or name those it has in embedding_models",
                 settings.file, encoder);
  const auto& words = from_file.at(encoder);
  const auto same = std::ranges::find(words, settings.text, &models::Word::text);
  const auto& from = same == words.end() ? words.front() : *same;
  if (from.states_NE.defined() != settings.is_output)
    config_error("train", "embedding_checkpoint {} holds {}; {} --embedding_output", settings.file,
                 settings.is_output ? "vectors that encoders read" : "states that stand in the place of an encoder's",
                 settings.is_output ? "take out" : "add");
  word.vectors_NE = from.vectors_NE.to(options, /*non_blocking=*/false, /*copy=*/true);
  if (settings.is_output) word.states_NE = from.states_NE.to(options, false, true);
  return word;
}

/// What the encoder makes of the first words [tokens, E], without what stands before a text.
at::Tensor states_of(const std::string& text, models::Model& model, const std::string& encoder) {
  const auto name = models::word_unit(encoder);
  const auto units = model.units().encode_prompt;
  const auto put = std::ranges::find(units, name, &pipeline::Unit::name);
  const auto& value = put->writes.front();
  const auto encode = std::ranges::find_if(units, [&](const auto& unit) { return unit.name != name && contains(unit.writes, value); });
  auto& components = model.components();
  const bool is_loaded = components.is_loaded(encoder);
  components.load(encoder);
  pipeline::Values values{{"prompt", text}};
  pipeline::run({*encode}, values);
  const auto& tokenizer = components.tokenizer(encoder);
  const auto num_before = std::ssize(tokenizer.encode("")) - (tokenizer.end_id() >= 0 ? 1 : 0);
  auto states = std::get<at::Tensor>(values.at(value))[0].slice(0, num_before, num_before + std::ssize(tokenizer.encode_inner(text)));
  if (!is_loaded) components.unload(encoder);
  return states;
}

}  // namespace

std::vector<std::string> give_word(const WordSettings& settings, models::Model& model, const std::vector<std::string>& components) {
  if (settings.text.empty()) return {};
  auto encoders = encoders_of(settings, model, components);
  loras::WordsByEncoder from_file;
  if (!settings.file.empty()) from_file = loras::read_words(model, {settings.file});
  for (const auto& encoder : encoders) model.components().set_words(encoder, {begun(settings, model, encoder, from_file)});
  if (!settings.is_output) return encoders;
  const auto units = model.units().encode_prompt;
  std::erase_if(encoders, [&](const auto& encoder) { return !pipeline::has_unit(units, models::word_unit(encoder)); });
  if (encoders.empty())
    config_error("train", "embedding_output is for encoders whose states the denoiser reads, and none is among {}; take it out",
                 join(settings.encoders));
  return encoders;
}

std::string word_parameter(const WordSettings& settings, const models::Model& model, const std::string& encoder) {
  if (settings.is_output) return fmt::format("{}.{}", models::kWords, encoder);
  return fmt::format("{}.{}.added", encoder, model.components().find(encoder)->tokenizer->table);
}

TrainedWord::TrainedWord(const WordSettings& settings, const std::vector<std::string>& encoders, models::Model& model) {
  at::NoGradGuard no_grad;
  for (const auto& encoder : encoders) {
    const auto& word = model.components().holding(encoder).words.front();
    auto values = settings.is_output ? word.states_NE : word.vectors_NE;
    vectors_.push_back({encoder, values});
    if (!values.is_meta()) begin(settings, model, vectors_.back());
    values.set_requires_grad(true);
  }
}

void TrainedWord::begin(const WordSettings& settings, models::Model& model, Vectors& vectors) {
  const auto& encoder = vectors.encoder;
  if (settings.keeps_norm) {
    const auto norms = at::linalg_vector_norm(table_of(model, encoder).weight.to(at::kFloat), 2, {1});
    vectors.norm = norms.median().item<double>();
  }
  if (!settings.file.empty()) return;
  at::Tensor rows;
  if (settings.is_output) {
    rows = states_of(settings.init, model, encoder);
  } else {
    const auto ids = model.components().tokenizer(encoder).encode_inner(settings.init);
    const auto& table = table_of(model, encoder).weight;
    rows = table.index_select(0, at::tensor(ids, at::TensorOptions().dtype(at::kLong)).to(table.device()));
  }
  if (rows.size(0) == 0) config_error("train", "embedding_init '{}' has no tokens for {}; give a word", settings.init, encoder);
  for (int64_t i = 0; i < vectors.values_NE.size(0); ++i) vectors.values_NE[i].copy_(rows[i % rows.size(0)]);
}

void TrainedWord::keep_norms() const {
  at::NoGradGuard no_grad;
  for (const auto& v : vectors_) {
    if (v.norm == 0) continue;
    auto values = v.values_NE;
    values.mul_(v.norm / at::linalg_vector_norm(values, 2, {1}, /*keepdim=*/true).clamp_min(1e-12));
  }
}

}  // namespace burnish::train
