#include "captioning/language_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/files.h"
#include "io/json.h"
#include "io/model_values.h"
#include "models/files/processor_settings.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_components.h"

namespace burnish::captioning {

namespace text = models::text;

namespace {

const std::string kLanguageModel = "language_model", kHead = "lm_head";
constexpr int64_t kWidestTied = 2560;  // of the published models those as wide as this or narrower are tied

struct Head : nn::Module {
  Head(int64_t width, int64_t vocabulary, const at::TensorOptions& options) : layer(width, vocabulary, options, false) {
    own("lm_head", layer);
  }
  nn::Linear layer;
};

/// Tells whether the head is the table of tokens, as config.json says for the whole model or for its text part; nothing where it does not
/// say.
std::optional<bool> is_tied(const nlohmann::json& config_json) {
  bool whole = false, of_text = false;
  bool is_said = io::take(config_json, "tie_word_embeddings", whole, "language model");
  if (config_json.is_object() && config_json.contains("text_config"))
    is_said |= io::take(config_json["text_config"], "tie_word_embeddings", of_text, "language model");
  return is_said ? std::optional(whole || of_text) : std::nullopt;
}

/// Pictures of several texts as those of a batch.
std::vector<text::SeenPicture> stacked(const std::vector<models::PictureText>& texts) {
  auto pictures = texts.at(0).pictures;
  if (texts.size() == 1) return pictures;
  auto stack = [&](const auto& tensor_of) {
    nn::Tensors all;
    for (const auto& one : texts) all.push_back(tensor_of(one));
    return at::stack(all);
  };
  for (size_t i = 0; i < pictures.size(); ++i) {
    pictures[i].tokens_RCE = stack([&](const auto& one) { return one.pictures.at(i).tokens_RCE; });
    for (size_t k = 0; k < pictures[i].added_RCE.size(); ++k)
      pictures[i].added_RCE[k] = stack([&](const auto& one) { return one.pictures.at(i).added_RCE.at(k); });
  }
  return pictures;
}

}  // namespace

LanguageModel::LanguageModel(const models::ModelFiles& files, const models::ModelOptions& options, const std::string& processor_path)
    : files_(files), options_(options), components_(files, options) {
  sight_ = find_qwen_sight(files);
  if (!sight_) sight_ = find_joy_caption(files);
  if (!sight_)
    data_error(
        "captioning",
        "there is no Qwen2.5-VL, no Qwen3-VL and no JoyCaption in {}; name the folder of one with --model, or of a model that has one as "
        "its text encoder",
        files.describe());
  const auto& language = sight_->language();
  components_.add(
      {.name = kLanguageModel,
       .what = language.name + " language model",
       .source = language.source,
       .build = [config = language.config](const auto&, const auto& o) { return std::make_unique<text::QwenEncoder>(config, o); }});
  sight_->add_tower(components_, files, processor_path);
  add_head();
  find_tokenizer();
}

void LanguageModel::add_head() {
  const auto& language = sight_->language();
  const auto& entry = *language.source.entry;
  const auto width = language.config.width;
  std::vector<std::string> prefixes;
  for (const auto& prefix : single_file_prefixes())
    prefixes.insert(prefixes.end(), {prefix + "lm_head.", prefix + "language_model.lm_head."});
  if (auto tensors = models::find_below(entry, prefixes, "weight")) {
    const io::KeyMap keys({io::KeyRule{"weight", {"lm_head.weight"}}});
    const models::Source source{&entry, tensors, keys};
    const auto vocabulary = source.shapes().at("lm_head.weight").at(0);
    components_.add({.name = kHead, .what = "head", .source = source, .build = [width, vocabulary](const auto&, const auto& o) {
                       return std::make_unique<Head>(width, vocabulary, o);
                     }});
    return;
  }
  if (!is_tied(entry.config).value_or(width <= kWidestTied))
    data_error("captioning", "the {} in {} has no lm_head.weight, without which nothing is written; take the files of the whole model",
               language.name, entry.label);
}

void LanguageModel::find_tokenizer() {
  const auto& language = sight_->language();
  const auto& entry = *language.source.entry;
  auto chosen = options_.tokenizer_path;
  if (chosen.empty() && !models::find_tokenizer(files_, "", "tokenizer"))
    chosen = models::folder_with(entry, {"tokenizer.json", "vocab.json"});
  tokenizer_ = language.load(models::tokenizer_folder(files_, chosen, "tokenizer", language.name.c_str()), language.chat);
  if (tokenizer_->num_ids() > language.config.vocab_size)
    data_error("captioning", "the tokenizer has {} tokens and the {} knows {}; they belong to different models", tokenizer_->num_ids(),
               language.name, language.config.vocab_size);
  for (const auto& end : language.ends) {
    if (auto ids = tokenizer_->encode_bare(end); ids.size() == 1) stops_.push_back(ids[0]);
  }
  const auto path = entry.folder / "generation_config.json";
  if (!io::is_there(path)) return;
  const auto settings = io::read_json(path);
  const auto ends = settings.is_object() ? settings.value("eos_token_id", nlohmann::json()) : nlohmann::json();
  for (const auto& id : ends.is_array() ? ends : nlohmann::json::array({ends})) {
    if (id.is_number_integer()) stops_.push_back(id.get<int64_t>());
  }
}

const std::vector<std::string>& LanguageModel::written_with() {
  static const std::vector<std::string> kNames{kLanguageModel, kHead};
  return kNames;
}

models::PictureText LanguageModel::ask(const Shown& shown, const std::string& prompt, const Detail& detail) {
  at::NoGradGuard no_grad;
  return sight_->ask(components_, *tokenizer_, shown, prompt, detail);
}

int64_t LanguageModel::next_place(const models::PictureText& text) {
  return text::places_of(std::ssize(text.ids), text.pictures, at::TensorOptions()).max().item<int64_t>() + 1;
}

/// Computes the scores of the token that follows the last one of each text.
at::Tensor LanguageModel::scores(const at::Tensor& ids_BL, text::QwenReading reading) {
  reading.after = {sight_->language().config.num_layers};
  auto& language = static_cast<text::QwenEncoder&>(components_.module(kLanguageModel));
  const auto states_BE = language.forward(ids_BL.to(options_.device), reading).front().select(1, -1);
  auto scores_BV = components_.find(kHead) != nullptr ? static_cast<Head&>(components_.module(kHead)).layer.forward(states_BE)
                                                      : at::linear(states_BE, language.table());
  return scores_BV.to(at::kFloat);
}

at::Tensor LanguageModel::read(const std::vector<models::PictureText>& texts, text::KeyValues& past) {
  const auto ids_L = at::tensor(texts.at(0).ids);
  return scores(ids_L.expand({std::ssize(texts), -1}), {.after = {}, .pictures = stacked(texts), .past = &past});
}

at::Tensor LanguageModel::read_next(const std::vector<int64_t>& tokens, const std::vector<int64_t>& places, text::KeyValues& past) {
  const auto places_B31 = at::tensor(places).view({-1, 1, 1}).expand({-1, 3, 1});
  return scores(at::tensor(tokens).unsqueeze(1), {.after = {}, .places_3L = places_B31, .past = &past});
}

}  // namespace burnish::captioning
