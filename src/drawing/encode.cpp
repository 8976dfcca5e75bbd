#include "drawing/encode.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "base/text.h"
#include "data/clip_window.h"
#include "data/image.h"
#include "data/resize.h"
#include "data/row_sound.h"
#include "data/sound.h"
#include "models/model/extra_values.h"
#include "models/model/negative_prompt.h"
#include "models/parts/shared_units.h"

namespace burnish::drawing {

namespace {

/// Whether what is drawn are clips, of which a reference picture is the first frame.
bool begins_with_reference(const models::Model& model) {
  return model.latent_space().frames_step > 0 && !model.names().references.column.empty();
}

/// The strengths of a picture's LoRAs, where any of them is merged into models of these units.
std::vector<double> strengths_for(models::Model& model, const pipeline::Units& units, const Picture& picture) {
  auto has_merged = [&](const std::string& name) { return model.components().holding(name).merge != nullptr; };
  return std::ranges::any_of(pipeline::models_of(units), has_merged) ? picture.strengths : std::vector<double>();
}

Given given_of(models::Model& model, const Picture& picture) {
  Given given{picture.references, model.scales_references() ? 0 : picture.extent.height * picture.extent.width, picture.inputs};
  if (!picture.inputs.empty() || begins_with_reference(model)) given.extent = picture.extent;
  given.strengths = strengths_for(model, model.units().encode_references, picture);
  return given;
}

/// The columns beside the prompt that the model reads.
std::vector<std::string> columns_of(const models::Model& model) {
  std::vector<std::string> columns;
  if (!model.names().references.column.empty()) columns.emplace_back("reference_images");
  for (const auto& input : model.names().extra_inputs) columns.emplace_back(input.column);
  return columns;
}

/// Every prompt that is read, once, in the order of the pictures.
std::vector<Told> prompts_of(models::Model& model, const std::vector<Picture>& pictures) {
  std::vector<Told> prompts;
  auto add = [&](const Picture& picture, const std::string& prompt) {
    auto next = told(model, picture, prompt);
    if (std::ranges::find(prompts, next) == prompts.end()) prompts.push_back(next);
  };
  for (const auto& picture : pictures) add(picture, picture.prompt);
  const bool reads_negative = guides_by_prompts(model);
  for (const auto& picture : pictures) {
    if (!reads_negative && !picture.negative_prompt.empty())
      config_error("drawing",
                   "the negative prompt '{}' is of no use: guidance of this {} model leads away from what it draws without a text; take it "
                   "out",
                   picture.negative_prompt, model.names().family);
    if (reads_negative && picture.is_guided()) add(picture, picture.negative_prompt);
  }
  return prompts;
}

int64_t batch_size_of(const pipeline::Value& value) {
  const auto* tensor = std::get_if<at::Tensor>(&value);
  return tensor ? tensor->size(0) : std::ssize(std::get<pipeline::TensorLists>(value));
}

/// A value of one sample as that of a batch of equal ones, whose tensors are views of it.
pipeline::Value repeated(const pipeline::Value& value, int64_t count) {
  if (const auto* lists = std::get_if<pipeline::TensorLists>(&value))
    return pipeline::TensorLists(static_cast<size_t>(count), lists->at(0));
  const auto& tensor = std::get<at::Tensor>(value);
  auto shape = tensor.sizes().vec();
  shape[0] = count;
  return tensor.expand(shape);
}

/// fp32 [3, H, W] in [-1, 1]; of `max_pixels` 0 the whole picture as it is.
at::Tensor load_reference(const std::string& file, int64_t max_pixels, int64_t division) {
  auto pixels_HW3 = data::decode_image(file);
  if (max_pixels == 0) return data::to_model_range(pixels_HW3);
  data::Size size{pixels_HW3.size(0), pixels_HW3.size(1)};
  return data::to_model_range(
      data::resize_and_crop(pixels_HW3, data::target_size({.max_pixels = max_pixels, .division = division}, size, file)));
}

/// fp32 [3, H, W] in [-1, 1], with transparency [4, H, W], of the size of the picture that is drawn: scaled to cover it and cut around the
/// centre.
at::Tensor load_fitting(const std::string& file, const Extent& extent, bool with_alpha = false) {
  auto pixels_HWC = with_alpha ? data::decode_rgba(file) : data::decode_image(file);
  return data::to_model_range(data::resize_and_crop(pixels_HWC, data::frame_of(extent)));
}

/// A clip [1, 3, F, H, W], or layers [1, 4, F, H, W], of which the first frame alone is known, and the rest is gray.
at::Tensor load_first_frame(const Given& given, const models::LatentSpace& space) {
  if (given.references.size() != 1)
    config_error("drawing",
                 "this model goes on from one picture, and {} are given for a clip; give one with --reference, or --ci behind a "
                 "prompt",
                 given.references.size());
  auto clip = at::zeros({1, space.pixel_channels(), given.extent.frames, given.extent.height, given.extent.width});
  clip.select(2, 0).copy_(load_fitting(given.references.front(), given.extent, space.has_layers).unsqueeze(0));
  return clip;
}

/// The first frames of a clip, as many as are drawn, at the rate at which clips are trained: [1, 3, F, H, W] in [-1, 1], each frame as
/// load_fitting has it.
at::Tensor load_fitting_clip(const std::string& file, const Extent& extent, const models::LatentSpace& space) {
  const auto num_frames = extent.frames;
  if (num_frames == 1 && !data::is_video(file)) return load_fitting(file, extent).unsqueeze(0);
  const data::ClipRule rule{.num_frames = num_frames, .rate = data::as_fraction(space.frame_rate), .step = space.frames_step};
  const auto window = data::windows_of(rule, data::look_at_clip(file), file).front();
  if (window.count < num_frames)
    data_error("drawing", "{} has {} frames at {} a second, and {} are drawn; give a longer clip, or ask for fewer with --num_frames", file,
               window.count, window.rate.num / window.rate.den, num_frames);
  std::vector<at::Tensor> frames;
  for (const auto& frame : data::decode_frames(file, window.times()).unbind())
    frames.push_back(data::to_model_range(data::resize_and_crop(frame, data::frame_of(extent))));
  return at::stack(frames, 1).unsqueeze(0);
}

/// [1, N] in [-1, 1]: of a file's sound, as long as the clip that is drawn.
pipeline::Value load_sound(const std::string& file, const Extent& extent, const models::LatentSpace& space) {
  const auto rate = data::as_fraction(space.frame_rate);
  return data::decode_mono(file, {{0, 1}, {extent.frames * rate.den, rate.num}}, data::kSoundRate).unsqueeze(0);
}

/// Tells whether units for what is given read a value.
bool is_read(const pipeline::Units& units, const std::string& name) {
  return std::ranges::any_of(units, [&](const auto& unit) { return contains(unit.reads, name); });
}

/// The value of a further column.
pipeline::Value load_input(const models::ExtraInput& input, const Given& given, const models::LatentSpace& space) {
  const auto& cells = given.inputs.at(std::string(input.column));
  if (input.kind == models::ExtraInput::Kind::clip) {
    if (cells.size() == 1) return load_fitting_clip(cells[0], input.extent_beside(given.extent), space);
    config_error("drawing", "{} names one clip for each that is drawn, and {} are given", input.column, cells.size());
  }
  if (input.kind != models::ExtraInput::Kind::pictures)
    return models::extra_value(input, cells.size() == 1 ? nlohmann::json(cells[0]) : nlohmann::json(cells), "a prompt");
  std::vector<at::Tensor> images;
  for (const auto& file : cells)
    images.push_back(input.fits_picture ? load_fitting(file, given.extent)
                                        : load_reference(file, given.extent.height * given.extent.width, space.side));
  return pipeline::TensorLists{std::move(images)};
}

/// The distinct ones of the pictures, where the model reads any: also that there is none.
std::map<Given, pipeline::Values> load_given(models::Model& model, const std::vector<Picture>& pictures) {
  std::map<Given, pipeline::Values> all;
  if (columns_of(model).empty()) return all;
  const bool hears = is_read(model.units().encode_references, "sound");
  for (const auto& picture : pictures) {
    auto given = given_of(model, picture);
    if (all.contains(given)) continue;
    auto& values = all[given];
    for (const auto& input : model.names().extra_inputs) {
      const std::string column(input.column);
      if (input.of_rows) continue;
      const auto& files = given.inputs.at(column);
      if (column != data::kSoundColumn) values[column] = load_input(input, given, model.latent_space());
      else values["sound"] = load_sound(files.front(), given.extent, model.latent_space());
    }
    if (hears && !values.contains("sound"))
      config_error("drawing",
                   "this model hears a sound; name its file with --{}, or so behind a prompt; for previews name the column in extra_inputs",
                   data::kSoundColumn);
    if (model.names().references.column.empty()) continue;
    if (begins_with_reference(model)) {
      values["image"] = load_first_frame(given, model.latent_space());
      if (is_read(model.units().encode_references, "reference_images")) values["reference_images"] = pipeline::TensorLists{{}};
      continue;
    }
    std::vector<at::Tensor> images;
    for (const auto& file : given.references) images.push_back(load_reference(file, given.max_pixels, model.latent_space().side));
    values["reference_images"] = pipeline::TensorLists{std::move(images)};
  }
  return all;
}

/// Leaves what the denoiser reads.
void encode_given(loras::Loader& loader, std::map<Given, pipeline::Values>& all) {
  auto groups = loader.model().units();
  for (const auto& unit : groups.encode_references) {
    auto loaded = loader.load({unit});
    for (auto& [given, values] : all) {
      loader.merge_at(given.strengths);
      values = pipeline::moved(std::move(values), loader.model().device());
      pipeline::run({unit}, values);
    }
  }
  for (auto& [given, values] : all) std::erase_if(values, [&](const auto& value) { return !is_read(groups.drawing(), value.first); });
}

}  // namespace

Told told(models::Model& model, const Picture& picture, const std::string& prompt) {
  auto units = model.units().encode_prompt;
  bool beside = std::ranges::any_of(columns_of(model), [&](const std::string& column) {
    return std::ranges::any_of(units, [&](const auto& unit) { return contains(unit.reads, column); });
  });
  return {prompt, beside ? given_of(model, picture) : Given{}, strengths_for(model, units, picture)};
}

std::optional<Encoded> encode(loras::Loader& loader, const std::vector<Picture>& pictures, const std::function<bool()>& goes_on) {
  at::NoGradGuard no_grad;
  auto prompts = prompts_of(loader.model(), pictures);
  std::vector<std::string> texts;
  for (const auto& prompt : prompts) texts.push_back(prompt.prompt);
  Encoded encoded{{}, load_given(loader.model(), pictures)};
  auto columns = columns_of(loader.model());
  models::warn_of_cut_texts(loader.model().components(), loader.model().units().encode_prompt, texts, "prompts");
  for (const auto& unit : loader.model().units().encode_prompt) {
    auto loaded = loader.load({unit});
    for (const auto& prompt : prompts) {
      if (goes_on && !goes_on()) return std::nullopt;
      loader.merge_at(prompt.strengths);
      auto& values = encoded.prompts[prompt];
      values["prompt"] = prompt.prompt;
      for (const auto& column : columns) {
        if (contains(unit.reads, column)) values[column] = encoded.given.at(prompt.given).at(column);
      }
      values = pipeline::moved(std::move(values), loader.model().device());
      pipeline::run({unit}, values);
    }
  }
  auto read = loader.model().names().prompt_values();
  for (auto& [prompt, values] : encoded.prompts) std::erase_if(values, [&](const auto& value) { return !contains(read, value.first); });
  encode_given(loader, encoded.given);
  return encoded;
}

pipeline::Values stack_prompts(const models::Model& model, const Encoded& encoded, const std::vector<Told>& prompts) {
  pipeline::Values values;
  auto padded = model.names().padded_values();
  for (const auto& name : model.names().prompt_values()) {
    std::vector<pipeline::Value> of_prompts;
    for (const auto& prompt : prompts) of_prompts.push_back(encoded.prompts.at(prompt).at(name));
    values[name] = pipeline::join(name, of_prompts, padded.contains(name));
  }
  return values;
}

bool guides_by_prompts(models::Model& model) {
  const auto away = model.units().draw_away;
  return away.empty() || std::ranges::any_of(model.names().prompt_values(), [&](const std::string& name) { return is_read(away, name); });
}

pipeline::Values negative_of(const models::Model& model, const Encoded& encoded, const Told& prompt, const pipeline::Values& positive) {
  auto values = positive;
  bool zeros = prompt.prompt.empty() && model.names().zeros_for_no_prompt;
  for (const auto& name : model.names().prompt_values()) {
    values[name] = zeros ? positive.at(name) : repeated(encoded.prompts.at(prompt).at(name), batch_size_of(positive.at(name)));
    if (name == models::kIsNegative) pipeline::change_tensors(values[name], [](const at::Tensor& tensor) { return at::ones_like(tensor); });
    else if (zeros) pipeline::change_tensors(values[name], [](const at::Tensor& tensor) { return at::zeros_like(tensor); });
  }
  return values;
}

pipeline::Values stack_given(models::Model& model, const Encoded& encoded, const Picture& picture, int64_t count) {
  if (encoded.given.empty()) return {};
  auto values = encoded.given.at(given_of(model, picture));
  for (auto& [name, value] : values) value = repeated(value, count);
  return values;
}

pipeline::Values encode_size(const pipeline::Units& units, const Picture& picture, int64_t count, c10::Device device) {
  if (units.empty()) return {};
  auto height = static_cast<float>(picture.extent.height), width = static_cast<float>(picture.extent.width);
  auto row = at::tensor({height, width, 0.0f, 0.0f, height, width}).unsqueeze(0);
  pipeline::Values values{{"size_conditioning", row.expand({count, 6}).to(device)}};
  pipeline::run(units, values);
  return values;
}

}  // namespace burnish::drawing
