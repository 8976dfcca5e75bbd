#include "models/picture_texts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/limits.h"
#include "io/files.h"
#include "io/json.h"

namespace burnish::models {

namespace {

constexpr const char* kPictureToken = "<|image_pad|>";

void add_picture(PictureText& text, const at::Tensor& seen) {
  const auto& picture = text.pictures.emplace_back(text::seen_at(std::ssize(text.ids), seen));
  text.ids.resize(text.ids.size() + static_cast<size_t>(picture.tokens_RCE.size(0) * picture.tokens_RCE.size(1)));
}

}  // namespace

PictureText picture_text(const tokenizers::ChatTokenizer& tokenizer, const tokenizers::ChatTemplate& chat, std::string_view told,
                         std::string_view prompt, const std::vector<at::Tensor>& seen, int64_t limit) {
  PictureText text;
  text.ids = tokenizer.encode_bare(chat.before);
  text.num_dropped = std::ssize(text.ids);
  const auto stands_for_picture = picture_token(tokenizer);
  auto next = seen.begin();
  for (auto id : tokenizer.encode_bare(told)) {
    if (id == stands_for_picture) add_picture(text, *next++);
    else text.ids.push_back(id);
  }
  auto ids = tokenizer.encode_bare(prompt), behind = tokenizer.encode_bare(chat.after);
  ids.resize(static_cast<size_t>(std::clamp(limit - std::ssize(behind), int64_t{0}, std::ssize(ids))));
  for (const auto* more : {&ids, &behind}) text.ids.insert(text.ids.end(), more->begin(), more->end());
  return text;
}

PictureText longest_picture_text(const std::vector<at::Tensor>& seen, int64_t limit) {
  PictureText text;
  for (const auto& picture : seen) add_picture(text, picture);
  text.ids.resize(text.ids.size() + static_cast<size_t>(limit));
  return text;
}

int64_t picture_token(const tokenizers::ChatTokenizer& tokenizer) {
  auto ids = tokenizer.encode_bare(kPictureToken);
  if (ids.size() != 1)
    data_error("models", "the tokenizer knows no {}, which stands for a reference picture; take that of Qwen2.5-VL", kPictureToken);
  return ids[0];
}

std::unique_ptr<tokenizers::ChatTokenizer> load_seeing_qwen(const std::filesystem::path& folder, const tokenizers::ChatTemplate& chat) {
  auto tokenizer = tokenizers::load_qwen(folder, chat);
  picture_token(*tokenizer);
  return tokenizer;
}

text::PixelRule find_pixel_rule(const ModelFiles& files, const std::string& chosen, const text::PixelRule& published) {
  const std::string name = "preprocessor_config.json";
  auto path = chosen.empty() ? files.in_pipeline("processor/" + name) : std::filesystem::path(chosen) / name;
  if (!path) return published;
  if (!io::is_there(*path)) data_error("models", "the processor_path {} holds no {}; name the folder that has it", chosen, name);
  return naming(path->string(), [&] { return text::pixel_rule(io::read_json(*path)); });
}

Option reference_pixels_option() {
  return {.name = "reference_pixels",
          .help = "area that reference pictures are scaled to, in pixels; 0 takes what the model was trained with",
          .otherwise = int64_t{0},
          .elsewhere = "its reference pictures are of the size that max_pixels, height and width say, leave it out",
          .least = 0,
          .most = kMostPixelsASide * kMostPixelsASide,
          .about = Option::About::references};
}

Option processor_option() {
  return {.name = "processor_path",
          .help = "folder of the vision tower's preprocessor_config.json, where it is not beside the model",
          .otherwise = std::string(),
          .elsewhere = "it has no vision tower, leave it out",
          .about = Option::About::references};
}

}  // namespace burnish::models
