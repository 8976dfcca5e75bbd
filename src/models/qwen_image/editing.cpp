#include "models/qwen_image/editing.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/files.h"
#include "io/json.h"
#include "io/model_values.h"
#include "models/text/resample.h"

namespace burnish::models::qwen_image {

namespace {

struct NamingWord {
  const char* word;
  Naming naming;
};
constexpr const char* kPictureToken = "<|image_pad|>";
constexpr std::array<NamingWord, 3> kNamings{{{"by_count", Naming::by_count}, {"plain", Naming::plain}, {"numbered", Naming::numbered}}};

constexpr const char* kBefore =
    "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, texture, objects, background), then explain how "
    "the user's text instruction should alter or modify the image. Generate a new image that meets the user's requirements while "
    "maintaining consistency with the original input where appropriate.<|im_end|>\n<|im_start|>user\n";
constexpr const char* kAfter = "<|im_end|>\n<|im_start|>assistant\n";

/// What stands for pictures, before the prompt.
std::string told_pictures(bool numbered, size_t count) {
  std::string told;
  for (size_t i = 1; i <= count; ++i)
    told += fmt::format("{}<|vision_start|>{}<|vision_end|>", numbered ? fmt::format("Picture {}: ", i) : "", kPictureToken);
  return told;
}

void add_picture(EditText& text, const at::Tensor& tokens_RCE) {
  text.pictures.push_back({std::ssize(text.ids), tokens_RCE});
  text.ids.resize(text.ids.size() + static_cast<size_t>(tokens_RCE.size(0) * tokens_RCE.size(1)));
}

}  // namespace

std::string word_of(Naming naming) {
  for (const auto& [word, of] : kNamings) {
    if (of == naming) return word;
  }
  throw std::logic_error("a way to tell of reference pictures without a word");
}

std::optional<Naming> published_naming(const ModelFiles& files) {
  for (const auto& folder : files.pipeline_folders) {
    auto path = folder / "model_index.json";
    auto name = io::is_there(path) ? io::class_name(io::read_json(path)) : "";
    if (name == "QwenImageEditPipeline") return Naming::plain;
    if (name == "QwenImageEditPlusPipeline") return Naming::numbered;
  }
  return std::nullopt;
}

Naming naming_of(const std::string& word, const ModelFiles& files) {
  for (const auto& [known, naming] : kNamings) {
    if (word == known) return naming;
  }
  return published_naming(files).value_or(Naming::by_count);
}

std::vector<std::string> namings() {
  std::vector<std::string> words{"auto"};
  for (const auto& [word, naming] : kNamings) words.emplace_back(word);
  return words;
}

bool is_numbered(Naming naming, size_t count) {
  if (naming == Naming::plain && count > 1)
    data_error("models",
               "a row or a prompt has {} reference pictures, and this model's prompts tell of one; take the others out, or choose "
               "reference_prompt numbered",
               count);
  return naming == Naming::numbered || (naming == Naming::by_count && count > 1);
}

Extent scaled_to(const Extent& picture, int64_t area) {
  constexpr double kStep = 32;
  auto ratio = static_cast<double>(picture.width) / static_cast<double>(picture.height);
  auto width = std::sqrt(static_cast<double>(area) * ratio), height = width / ratio;
  auto side = [](double length) { return std::max<int64_t>(1, static_cast<int64_t>(std::nearbyint(length / kStep))) * 32; };
  return {.height = side(height), .width = side(width)};
}

at::Tensor levels_at(const at::Tensor& image_3HW, int64_t area) {
  auto size = scaled_to({.height = image_3HW.size(1), .width = image_3HW.size(2)}, area);
  return text::resampled(text::to_levels(image_3HW), size.height, size.width, text::Filter::lanczos);
}

EditText edit_text(const tokenizers::ChatTokenizer& tokenizer, std::string_view prompt, const std::vector<at::Tensor>& seen, bool numbered,
                   int64_t limit) {
  EditText text;
  text.ids = tokenizer.encode_bare(kBefore);
  text.num_dropped = std::ssize(text.ids);
  const auto stands_for_picture = picture_token(tokenizer);
  auto next = seen.begin();
  for (auto id : tokenizer.encode_bare(told_pictures(numbered, seen.size()))) {
    if (id == stands_for_picture) add_picture(text, *next++);
    else text.ids.push_back(id);
  }
  auto ids = tokenizer.encode_bare(prompt), behind = tokenizer.encode_bare(kAfter);
  ids.resize(static_cast<size_t>(std::clamp(limit - std::ssize(behind), int64_t{0}, std::ssize(ids))));
  for (const auto* more : {&ids, &behind}) text.ids.insert(text.ids.end(), more->begin(), more->end());
  return text;
}

EditText longest_edit_text(const std::vector<at::Tensor>& seen, int64_t limit) {
  EditText text;
  for (const auto& tokens_RCE : seen) add_picture(text, tokens_RCE);
  text.ids.resize(text.ids.size() + static_cast<size_t>(limit));
  return text;
}

int64_t picture_token(const tokenizers::ChatTokenizer& tokenizer) {
  auto ids = tokenizer.encode_bare(kPictureToken);
  if (ids.size() != 1)
    data_error("models", "the tokenizer knows no {}, which stands for a reference picture; take that of Qwen2.5-VL", kPictureToken);
  return ids[0];
}

text::PixelRule find_pixel_rule(const ModelFiles& files, const std::string& chosen) {
  const std::string name = "preprocessor_config.json";
  auto path = chosen.empty() ? files.in_pipeline("processor/" + name) : std::filesystem::path(chosen) / name;
  if (!path) return {};
  if (!io::is_there(*path)) data_error("models", "the processor_path {} holds no {}; name the folder that has it", chosen, name);
  return naming(path->string(), [&] { return text::pixel_rule(io::read_json(*path)); });
}

}  // namespace burnish::models::qwen_image
