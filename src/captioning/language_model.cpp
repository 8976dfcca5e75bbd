#include "captioning/language_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/files.h"
#include "io/json.h"
#include "io/model_values.h"
#include "models/files/processor_settings.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_components.h"
#include "models/text/resample.h"

namespace burnish::captioning {

namespace text = models::text;

namespace {

const std::string kLanguageModel = "language_model", kHead = "lm_head", kTower = "vision_tower";
const std::vector<std::string> kPrefixes{"", "text_encoders.qwen25_7b.transformer.", "text_encoders.qwen3vl_4b.transformer.",
                                         "text_encoders.qwen3vl_8b.transformer."};
constexpr int64_t kWidestTied = 2560;  // of the published models those as wide as this or narrower are tied
constexpr int64_t kLeastFrameCells = 128;

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

at::Tensor levels_of(const at::Tensor& frames_FHW3) { return frames_FHW3.permute({0, 3, 1, 2}).to(at::kDouble); }

}  // namespace

LanguageModel::LanguageModel(const models::ModelFiles& files, const models::ModelOptions& options, const std::string& processor_path)
    : files_(files), options_(options), components_(files, options) {
  find_language_model();
  find_tower(processor_path);
  find_head();
  find_tokenizer();
}

void LanguageModel::find_language_model() {
  language_ = models::find_qwen(files_, kPrefixes, models::kQwen2Mark);
  kind_ = {"Qwen2.5-VL", {"<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n", ""}, false};
  if (!language_.entry) {
    language_ = models::find_qwen3_vl(files_, kPrefixes);
    kind_ = {"Qwen3-VL", {"<|im_start|>user\n", ""}, true};
  }
  if (!language_.entry)
    data_error("captioning",
               "there is no Qwen2.5-VL and no Qwen3-VL in {}; name the folder of one with --model, or of a model that has one as its text "
               "encoder",
               files_.describe());
  kind_.chat.after = "<|im_end|>\n<|im_start|>assistant\n";
  config_ = models::read_named(language_, kind_.tells_times ? text::qwen3_vl_config : text::qwen_config);
  components_.add({.name = kLanguageModel,
                   .what = kind_.name + " language model",
                   .source = language_,
                   .build = [config = config_](const auto&, const auto& o) { return std::make_unique<text::QwenEncoder>(config, o); }});
}

void LanguageModel::find_tower(const std::string& processor_path) {
  const auto tower = models::find_vision_tower(files_, kPrefixes);
  if (!tower.entry)
    data_error("captioning", "the {} in {} has no vision tower, and sees no pictures; take files that have one", kind_.name,
               language_.entry->label);
  auto chosen = processor_path.empty() ? models::folder_with(*language_.entry, {"preprocessor_config.json", "processor_config.json"})
                                       : processor_path;
  if (kind_.tells_times) {
    auto config = models::read_named(tower, text::qwen3_vl_vision_config);
    vision_ = config;
    pixels_ = models::find_pixel_rule(files_, chosen, text::qwen3_vl_pixels());
    components_.add(models::vision_recipe(kTower, tower, config, pixels_));
  } else {
    auto config = models::read_named(tower, text::vision_config);
    vision_ = config;
    pixels_ = models::find_pixel_rule(files_, chosen, {});
    components_.add(models::vision_recipe(kTower, tower, config, pixels_));
  }
}

void LanguageModel::find_head() {
  const auto& entry = *language_.entry;
  std::vector<std::string> prefixes;
  for (const auto& prefix : kPrefixes) prefixes.insert(prefixes.end(), {prefix + "lm_head.", prefix + "language_model.lm_head."});
  if (auto tensors = models::find_below(entry, prefixes, "weight")) {
    const io::KeyMap keys({io::KeyRule{"weight", {"lm_head.weight"}}});
    const models::Source source{&entry, tensors, keys};
    const auto vocabulary = source.shapes().at("lm_head.weight").at(0);
    components_.add(
        {.name = kHead, .what = "head", .source = source, .build = [width = config_.width, vocabulary](const auto&, const auto& o) {
           return std::make_unique<Head>(width, vocabulary, o);
         }});
    return;
  }
  if (!is_tied(entry.config).value_or(config_.width <= kWidestTied))
    data_error("captioning", "the {} in {} has no lm_head.weight, without which nothing is written; take the files of the whole model",
               kind_.name, entry.label);
}

void LanguageModel::find_tokenizer() {
  auto chosen = options_.tokenizer_path;
  if (chosen.empty() && !models::find_tokenizer(files_, "", "tokenizer"))
    chosen = models::folder_with(*language_.entry, {"tokenizer.json", "vocab.json"});
  tokenizer_ = models::load_seeing_qwen(models::tokenizer_folder(files_, chosen, "tokenizer", "Qwen"), kind_.chat);
  if (tokenizer_->num_ids() > config_.vocab_size)
    data_error("captioning", "the tokenizer has {} tokens and the {} knows {}; they belong to different models", tokenizer_->num_ids(),
               kind_.name, config_.vocab_size);
  for (const char* stop : {"<|im_end|>", "<|endoftext|>"}) {
    if (auto ids = tokenizer_->encode_bare(stop); ids.size() == 1) stops_.push_back(ids[0]);
  }
  const auto path = language_.entry->folder / "generation_config.json";
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

const text::Patching& LanguageModel::patching() const {
  return std::visit([](const auto& config) -> const text::Patching& { return config; }, vision_);
}

/// Returns what the tower makes of a picture or of frames that a patch spans.
at::Tensor LanguageModel::see(const at::Tensor& levels_F3HW) {
  const auto patches = text::patches_of_frames(levels_F3HW, patching(), pixels_);
  auto& tower = components_.module(kTower);
  return kind_.tells_times ? static_cast<text::Qwen3VlVision&>(tower).forward(patches)
                           : static_cast<text::QwenVision&>(tower).forward(patches);
}

/// Returns what stands before the prompt, with a token for each of the pictures that are seen.
std::string LanguageModel::told(const Shown& shown, size_t num_slices) const {
  if (shown.times.empty()) return models::kPictureInText;
  const auto num_frames = static_cast<size_t>(patching().num_frames);
  std::string told = kind_.tells_times ? "" : "<|vision_start|>";
  for (size_t i = 0; i < num_slices; ++i) {
    const auto first = i * num_frames, last = std::min(first + num_frames, shown.times.size()) - 1;
    const char* pad = "<|video_pad|>";
    told += kind_.tells_times
                ? fmt::format("<{:.1f} seconds><|vision_start|>{}<|vision_end|>", (shown.times[first] + shown.times[last]) / 2, pad)
                : pad;
  }
  return kind_.tells_times ? told : told + "<|vision_end|>";
}

/// Frames of a clip whose times are not told lie as far apart as time passes between them (transformers:
/// Qwen2_5_VLModel.get_vision_position_ids).
void LanguageModel::set_times(models::PictureText& text, const Shown& shown) const {
  if (shown.times.empty() || kind_.tells_times) return;
  const auto& config = std::get<text::VisionConfig>(vision_);
  const auto gap = shown.times.size() > 1 ? (shown.times.back() - shown.times.front()) / static_cast<double>(shown.times.size() - 1) : 0.0;
  const auto interval = static_cast<double>(config.places_per_second * config.num_frames) * gap;
  for (size_t i = 1; i < text.pictures.size(); ++i) text.pictures[i].time = static_cast<int64_t>(static_cast<double>(i) * interval);
}

models::PictureText LanguageModel::ask(const Shown& shown, const std::string& prompt, const Detail& detail) {
  at::NoGradGuard no_grad;
  const auto levels = levels_of(shown.frames_FHW3);
  const bool is_clip = !shown.times.empty();
  auto rule = pixels_;
  if (is_clip) rule.most = detail.frame_pixels;
  else if (detail.picture_pixels > 0) rule.most = std::min(rule.most, detail.picture_pixels);
  if (is_clip) rule.least = kLeastFrameCells * patching().cell() * patching().cell();
  rule.least = std::min(rule.least, rule.most);
  const auto [height, width] = text::shown_size(levels.size(2), levels.size(3), patching(), rule);
  nn::Tensors scaled;
  for (const auto& frame : levels.unbind()) scaled.push_back(text::resampled(frame, height, width, text::Filter::bicubic));
  const auto num_frames = patching().num_frames;
  while (scaled.size() > 1 && std::ssize(scaled) % num_frames != 0) scaled.push_back(scaled.back());
  nn::Tensors seen;
  for (int64_t i = 0; i < std::ssize(scaled); i += num_frames) {
    nn::Tensors slice(scaled.begin() + i, scaled.begin() + std::min(i + num_frames, std::ssize(scaled)));
    seen.push_back(see(at::stack(slice)));
  }
  constexpr int64_t kNoLimit = 1 << 20;
  auto text = models::picture_text(*tokenizer_, kind_.chat, {told(shown, seen.size())}, prompt, seen, kNoLimit);
  set_times(text, shown);
  return text;
}

BoxScale LanguageModel::box_scale(const models::PictureText& text) const {
  if (kind_.tells_times || text.pictures.empty()) return {};
  const auto& picture = text.pictures.front();
  return {static_cast<double>(picture.rows() * patching().cell()), static_cast<double>(picture.columns() * patching().cell())};
}

int64_t LanguageModel::next_place(const models::PictureText& text) {
  return text::places_of(std::ssize(text.ids), text.pictures, at::TensorOptions()).max().item<int64_t>() + 1;
}

/// Computes the scores of the token that follows the last one of each text.
at::Tensor LanguageModel::scores(const at::Tensor& ids_BL, text::QwenReading reading) {
  reading.after = {config_.num_layers};
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
