#include "drawing/encode.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "base/input_error.h"
#include "base/text.h"
#include "data/read_given.h"
#include "data/resize.h"
#include "models/model/columns.h"
#include "models/model/negative_prompt.h"
#include "models/parts/shared_units.h"

namespace burnish::drawing {

namespace {

/// The strengths of a picture's LoRAs, where any of them is merged into models of these units.
std::vector<double> strengths_for(models::Model& model, const pipeline::Units& units, const Picture& picture) {
  auto has_merged = [&](const std::string& name) { return model.components().holding(name).merge != nullptr; };
  return std::ranges::any_of(pipeline::models_of(units), has_merged) ? picture.strengths : std::vector<double>();
}

/// The columns beside captions that prompts give, without what is drawn.
Columns columns_beside(const models::Model& model) {
  auto columns = models::columns_of(model);
  std::erase_if(columns, [](const Column& c) { return c.fit == Column::Fit::target || c.given == Column::Given::by_rows; });
  return columns;
}

/// Tells whether what is drawn goes on from a reference picture, its first frame.
bool begins_with_reference(const Columns& columns) {
  const auto* references = find_read_as(columns, kReferences);
  return references != nullptr && references->fit == Column::Fit::first_frame;
}

/// Tells whether what becomes of references depends on the extent of what is drawn: they are cut as it is, or may be clips and sounds,
/// which are as long at most.
bool extent_counts_for_references(const Columns& columns) {
  const auto* references = find_read_as(columns, kReferences);
  if (references == nullptr) return false;
  using Fit = Column::Fit;
  return references->fit == Fit::first_frame || references->fit == Fit::as_target || references->is == Column::Is::references;
}

Given given_of(models::Model& model, const Picture& picture) {
  Given given{picture.references, model.scales_references() ? 0 : picture.extent.height * picture.extent.width, picture.inputs};
  const auto columns = columns_beside(model);
  if (!picture.inputs.empty() || extent_counts_for_references(columns)) {
    given.extent = picture.extent;
    given.frame_rate = rate_of(model, picture);
  }
  given.strengths = strengths_for(model, model.units().encode_references, picture);
  return given;
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
  if (tensor.dim() == 0) return tensor;
  auto shape = tensor.sizes().vec();
  shape[0] = count;
  return tensor.expand(shape);
}

/// Tells whether units for what is given read a value.
bool is_read(const pipeline::Units& units, const std::string& name) {
  return std::ranges::any_of(units, [&](const auto& unit) { return contains(unit.reads, name); });
}

/// Pixels in [-1, 1], of a picture [C, H, W] and of a clip [C, F, H, W]; other numbers as they are.
at::Tensor in_model_range(const at::Tensor& tensor) {
  if (tensor.scalar_type() != at::kByte) return tensor;
  return tensor.dim() == 3 ? data::to_model_range(tensor) : data::frames_to_model_range(tensor);
}

/// Returns a cell as units read it, with a leading dimension of 1, or a list.
pipeline::Value value_of(const data::Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* tensor = std::get_if<at::Tensor>(&cell)) return in_model_range(*tensor).unsqueeze(0);
  std::vector<at::Tensor> list;
  for (const auto& tensor : std::get<std::vector<at::Tensor>>(cell)) list.push_back(in_model_range(tensor));
  return pipeline::TensorLists{std::move(list)};
}

/// A clip that is gray where nothing of it is given.
at::Tensor unknown_clip(const data::DrawnTarget& target) {
  const auto& e = target.extent;
  return at::zeros({1, target.column.channels, e.frames, e.height, e.width});
}

/// A clip [1, 3, F, H, W], or layers [1, 4, F, H, W], of which the first frames alone are known, as many as the model is given, and the
/// rest is gray.
at::Tensor load_first_frames(const Column& references, const Given& given, const data::DrawnTarget& target) {
  if (given.references.size() != 1)
    config_error("drawing",
                 "this model goes on from one picture, and {} are given for a clip; give one with --reference, or --ci behind a "
                 "prompt",
                 given.references.size());
  auto clip = unknown_clip(target);
  if (const auto count = references.frames.first; count > 1) {
    const auto frames = data::read_beginning(references, given.references.front(), target, count);
    clip.narrow(2, 0, count).copy_(data::frames_to_model_range(frames).unsqueeze(0));
    return clip;
  }
  const auto pictures = std::get<std::vector<at::Tensor>>(data::read_given(references, given.references, target));
  clip.select(2, 0).copy_(data::to_model_range(pictures.front()).unsqueeze(0));
  return clip;
}

/// Puts the frames that prompts give of the end of what is drawn, the first of a clip, where rows have them: at the end of the target.
void put_last_frames(const Column& column, const std::string& file, const data::DrawnTarget& target, pipeline::Value& value) {
  const auto count = column.frames.first;
  const auto frames = data::read_beginning(column, file, target, count);
  auto& clip = std::get<at::Tensor>(value);
  clip.narrow(2, clip.size(2) - count, count).copy_(data::frames_to_model_range(frames).unsqueeze(0));
}

/// That a sound is given which the units read, whether or not its column is among those of the model.
void check_hears(const pipeline::Units& units, const pipeline::Values& values) {
  for (const auto& column : models::extra_inputs()) {
    if (column.is == Column::Is::sound && is_read(units, column.read_as()) && !values.contains(column.read_as()))
      config_error("drawing",
                   "this model hears a sound; name its file with --{}, or so behind a prompt; for previews name the column in extra_inputs",
                   column.name);
  }
}

/// The distinct ones of the pictures, where the model reads any: also that there is none.
std::map<Given, pipeline::Values> load_given(models::Model& model, const std::vector<Picture>& pictures) {
  std::map<Given, pipeline::Values> all;
  const auto columns = columns_beside(model);
  if (columns.empty()) return all;
  const auto target = models::target_of(model.latent_space());
  const auto units = model.units().encode_references;
  for (const auto& picture : pictures) {
    auto given = given_of(model, picture);
    if (all.contains(given)) continue;
    auto& values = all[given];
    values[kNumFrames] = at::scalar_tensor(picture.extent.frames, at::kLong);
    data::DrawnTarget drawn{target, given.extent, given.max_pixels};
    drawn.column.frames.rate = given.frame_rate;
    if (is_read(units, kTarget) && !begins_with_reference(columns)) values[kTarget] = unknown_clip(drawn);
    for (const auto& column : columns) {
      if (column.is == Column::Is::clip && column.given == Column::Given::by_prompts) {
        put_last_frames(column, given.inputs.at(column.name).front(), drawn, values.at(kTarget));
        continue;
      }
      const bool is_reference = column.read_as() == kReferences;
      if (!is_reference || !begins_with_reference(columns)) {
        const auto& cells = is_reference ? given.references : given.inputs.at(column.name);
        values[column.read_as()] = value_of(data::read_given(column, cells, drawn));
        continue;
      }
      values[kTarget] = load_first_frames(column, given, drawn);
      if (is_read(units, kReferences)) values[kReferences] = pipeline::TensorLists{{}};
    }
    check_hears(units, values);
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
  const auto columns = columns_beside(model);
  bool beside = std::ranges::any_of(columns, [&](const Column& column) { return is_read(units, column.read_as()); }) ||
                (begins_with_reference(columns) && is_read(units, kTarget));
  return {prompt, beside ? given_of(model, picture) : Given{}, strengths_for(model, units, picture)};
}

std::optional<Encoded> encode(loras::Loader& loader, const std::vector<Picture>& pictures, const std::function<bool()>& goes_on) {
  at::NoGradGuard no_grad;
  auto prompts = prompts_of(loader.model(), pictures);
  std::vector<std::string> texts;
  for (const auto& prompt : prompts) texts.push_back(prompt.prompt);
  Encoded encoded{{}, load_given(loader.model(), pictures)};
  auto columns = columns_beside(loader.model());
  models::warn_of_cut_texts(loader.model().components(), loader.model().units().encode_prompt, texts, "prompts");
  for (const auto& unit : loader.model().units().encode_prompt) {
    auto encode_prompt = [&](int64_t number) {
      const auto& prompt = prompts[static_cast<size_t>(number)];
      loader.merge_at(prompt.strengths);
      auto& values = encoded.prompts[prompt];
      values["prompt"] = prompt.prompt;
      for (const auto& column : columns) {
        if (contains(unit.reads, column.read_as())) values[column.read_as()] = encoded.given.at(prompt.given).at(column.read_as());
      }
      if (begins_with_reference(columns) && contains(unit.reads, kTarget)) values[kTarget] = encoded.given.at(prompt.given).at(kTarget);
      values = pipeline::moved(std::move(values), loader.model().device());
      pipeline::run({unit}, values);
    };
    if (!loader.load_to_run({unit}).run(std::ssize(prompts), encode_prompt, goes_on)) return std::nullopt;
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

double rate_of(const models::Model& model, const Picture& picture) {
  return model.latent_space().rate_of(picture.extent.frames > 1 ? picture.frame_rate : 0);
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
