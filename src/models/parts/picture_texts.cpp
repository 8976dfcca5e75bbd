#include "models/parts/picture_texts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "base/limits.h"
#include "io/files.h"
#include "io/json.h"
#include "models/files/processor_settings.h"
#include "models/model/family.h"
#include "models/text/qwen_vision.h"
#include "models/text/resample.h"

namespace burnish::models {

namespace {

constexpr const char* kPictureToken = "<|image_pad|>";

/// `id` is the token that stands for each of the picture's own.
void add_picture(PictureText& text, const at::Tensor& seen, int64_t id = 0) {
  const auto& picture = text.pictures.emplace_back(text::seen_at(std::ssize(text.ids), seen));
  text.ids.resize(text.ids.size() + static_cast<size_t>(picture.num_tokens()), id);
}

/// The ids of tokens, of which the vocabulary has the first, and may have the others.
std::vector<int64_t> ids_of(const tokenizers::ChatTokenizer& tokenizer, const std::vector<std::string>& tokens) {
  std::vector<int64_t> found;
  for (const auto& token : tokens) {
    if (auto ids = tokenizer.encode_bare(token); ids.size() == 1) found.push_back(ids[0]);
    else if (found.empty())
      data_error("models", "the tokenizer knows no {}, which stands for a picture; take that of a model that sees, Qwen2.5-VL's say",
                 token);
  }
  return found;
}

}  // namespace

PictureText picture_text(const tokenizers::ChatTokenizer& tokenizer, const tokenizers::ChatTemplate& chat,
                         const std::vector<std::string>& told, std::string_view prompt, const std::vector<at::Tensor>& seen, int64_t limit,
                         const std::vector<std::string>& stand_for_pictures) {
  PictureText text;
  text.ids = tokenizer.encode_bare(chat.before);
  text.num_dropped = std::ssize(text.ids);
  const auto ids_of_pictures = seen.empty() ? std::vector<int64_t>() : ids_of(tokenizer, stand_for_pictures);
  auto next = seen.begin();
  for (const auto& part : told) {
    for (auto id : tokenizer.encode_bare(part)) {
      if (std::ranges::find(ids_of_pictures, id) != ids_of_pictures.end()) add_picture(text, *next++, id);
      else text.ids.push_back(id);
    }
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

int64_t picture_token(const tokenizers::ChatTokenizer& tokenizer) { return ids_of(tokenizer, {kPictureToken}).front(); }

std::unique_ptr<tokenizers::ChatTokenizer> load_seeing_qwen(const std::filesystem::path& folder, const tokenizers::ChatTemplate& chat) {
  auto tokenizer = tokenizers::load_qwen(folder, chat);
  picture_token(*tokenizer);
  return tokenizer;
}

Extent scaled_to(const Extent& picture, int64_t area) {
  constexpr double kStep = 32;
  auto ratio = static_cast<double>(picture.width) / static_cast<double>(picture.height);
  auto width = std::sqrt(static_cast<double>(area) * ratio), height = width / ratio;
  auto side = [](double length) { return std::max<int64_t>(1, static_cast<int64_t>(std::nearbyint(length / kStep))) * 32; };
  return {.height = side(height), .width = side(width)};
}

Extent scaled_up_to(const Extent& picture, int64_t area) {
  constexpr int64_t kStep = 16;
  auto ratio = static_cast<double>(picture.width) / static_cast<double>(picture.height);
  auto width = std::sqrt(static_cast<double>(area) * ratio), height = width / ratio;
  auto side = [](double length) { return static_cast<int64_t>(std::ceil(length / kStep)) * kStep; };
  return {.height = side(height), .width = side(width)};
}

Extent shrunk_to(const Extent& picture, int64_t area) {
  constexpr int64_t kStep = 16;
  const auto most = std::sqrt(static_cast<double>(area));
  const auto longest = static_cast<double>(std::max(picture.height, picture.width));
  const auto by =
      std::min({most / std::sqrt(static_cast<double>(picture.height) * static_cast<double>(picture.width)), 2 * most / longest, 1.0});
  auto side = [&](int64_t length) { return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(length) * by) / kStep) * kStep; };
  return {.height = side(picture.height), .width = side(picture.width)};
}

at::Tensor levels_at(const at::Tensor& image_3HW, int64_t area, ScaleTo to) {
  auto size = to({.height = image_3HW.size(1), .width = image_3HW.size(2)}, area);
  return text::resampled(text::to_levels(image_3HW), size.height, size.width, text::Filter::lanczos);
}

std::string folder_with(const ModelEntry& entry, std::initializer_list<const char*> names) {
  bool has_any = std::ranges::any_of(names, [&](const char* name) { return io::is_there(entry.folder / name); });
  return has_any ? entry.folder.string() : "";
}

std::optional<ProcessorSettings> find_processor(const ModelFiles& files, const std::string& chosen) {
  // transformers 5 writes all rules of a processor into one file.
  const std::string name = "preprocessor_config.json", of_all = "processor_config.json";
  for (const auto& file : {name, of_all}) {
    auto path = std::optional(std::filesystem::path(chosen) / file);
    if (chosen.empty()) path = files.in_pipeline("processor/" + file);
    for (const char* folder : {"text_processor/", "tokenizer/"}) {
      if (chosen.empty() && !path) path = files.in_pipeline(folder + file);
    }
    if (!path || !io::is_there(*path)) continue;
    const auto json = io::read_json(*path);
    const bool is_part = file == of_all && json.is_object() && json.contains("image_processor");
    return ProcessorSettings{*path, is_part ? json["image_processor"] : json};
  }
  if (!chosen.empty()) data_error("models", "the processor_path {} holds no {}; name the folder that has it", chosen, name);
  return std::nullopt;
}

pipeline::Unit seeing_unit(Components& components, const std::string& tower, const SeePicture& see) {
  return {"see_references", {"reference_images"}, {"seen_references"}, {tower}, [&components, tower, see](pipeline::Scope& scope) {
            scope.uses(tower);
            auto& module = components.module(tower);
            pipeline::Value seen = scope.value("reference_images");
            const auto count = std::get<pipeline::TensorLists>(seen).at(0).size();
            pipeline::change_tensors(seen, [&](const at::Tensor& image) { return see(module, image, count); });
            scope.write("seen_references", std::move(seen));
          }};
}

ModelEntry vision_sizes(std::string_view name) {
  auto entry = sizes_of<text::QwenVision, text::VisionConfig>(name);
  entry.tensors = entry.tensors->renamed([](const std::string& path) { return "visual." + path; });
  return entry;
}

text::PixelRule find_pixel_rule(const ModelFiles& files, const std::string& chosen, const text::PixelRule& published) {
  const auto processor = find_processor(files, chosen);
  return processor ? naming(processor->file.string(), [&] { return text::pixel_rule(processor->of_pictures); }) : published;
}

int64_t reference_area(const ModelOptions& options, int64_t usual) {
  const auto chosen = options.get<int64_t>("reference_pixels");
  return chosen > 0 ? chosen : usual;
}

pipeline::Units scaled_reference_units(const std::string& vae, const Encode& encode, int64_t area, c10::Device device, ScaleTo to) {
  auto units = reference_picture_units(vae, [=](const at::Tensor& image_13HW) {
    return encode(text::from_levels(levels_at(image_13HW[0].to(device), area, to)).unsqueeze(0));
  });
  units.front().settings = fmt::format("reference_pixels {}", area);
  return units;
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
