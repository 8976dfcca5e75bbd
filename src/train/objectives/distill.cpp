#include "train/objectives/distill.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/randn.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"
#include "diffusion/flow_match.h"
#include "memory/gpu.h"
#include "train/objectives/sample_loss.h"

namespace burnish::train {

namespace {

/// Returns a JSON number, or that of a csv cell that is one.
std::optional<double> number_in(const nlohmann::json& columns, const char* name) {
  auto it = columns.find(name);
  if (it == columns.end()) return std::nullopt;
  if (it->is_number()) return it->get<double>();
  if (!it->is_string()) return std::nullopt;
  return parse_number<double>(it->get<std::string>());
}

int64_t count_in(const nlohmann::json& columns, const char* name, int64_t row, double least, double most) {
  auto value = number_in(columns, name);
  if (!value || *value != std::floor(*value) || *value < least || *value > most) {
    data_error("train",
               "row {}: the column {} must hold a whole number from {:.0f} to {:.0f}; direct_distill takes seed and num_inference_steps "
               "of every picture from the metadata",
               row, name, least, most);
  }
  return static_cast<int64_t>(*value);
}

}  // namespace

models::Option spacing_option() {
  return {.name = kSpacing,
          .help = "steps of the model's own sampler (default), or diffsynth",
          .otherwise = std::string("default"),
          .elsewhere = "",
          .choices = {"default", "diffsynth"}};
}

std::string spacing_of(const models::OptionValues& own) { return own.get<std::string>(kSpacing); }

Trajectory trajectory_of(const nlohmann::json& columns, int64_t row) {
  Trajectory trajectory;
  trajectory.seed = count_in(columns, "seed", row, 0, 9007199254740992.0);
  trajectory.num_steps = count_in(columns, "num_inference_steps", row, 1, 1000);
  auto device = columns.find("rand_device");
  if (device != columns.end() && device->is_string() && !device->get<std::string>().empty()) trajectory.rand_device = *device;
  if (trajectory.rand_device != "cpu" && !trajectory.rand_device.starts_with("cuda"))
    data_error("train", "row {}: rand_device '{}' is not known; it is cpu or cuda", row, trajectory.rand_device);
  auto scale = columns.find("cfg_scale");
  bool given = scale != columns.end() && !(scale->is_string() && scale->get<std::string>().empty());
  if (given && number_in(columns, "cfg_scale") != 1.0) {
    data_error("train", "row {}: cfg_scale is {}; the student takes one pass a step, without guidance: set it to 1", row,
               scale->is_string() ? scale->get<std::string>() : scale->dump());
  }
  return trajectory;
}

at::Tensor start_noise(const Trajectory& trajectory, at::IntArrayRef latent_shape, c10::ScalarType dtype, const std::string& stream) {
  const auto seed = models::stream_key(static_cast<uint64_t>(trajectory.seed), stream);
  if (trajectory.rand_device == "cpu") {
    // The engine takes 32 bits of a seed, as torch's does.
    auto key = seed & 0xFFFFFFFFu;
    return diffusion::normal_noise(key, latent_shape).unsqueeze(0).to(dtype).to(at::kFloat);
  }
  auto gpu = memory::gpu();
  if (!gpu)
    data_error("train",
               "noise of rand_device {} can only be drawn on a GPU, and this run has none; draw teacher pictures with rand_device cpu",
               trajectory.rand_device);
  auto generator = at::globalContext().defaultGenerator(*gpu).clone();
  generator.set_current_seed(seed);
  auto shape = latent_shape.vec();
  shape.insert(shape.begin(), 1);
  return at::randn(shape, generator, at::TensorOptions().device(*gpu).dtype(at::kFloat)).to(dtype).to(at::kFloat);
}

pipeline::Unit distill_unit(models::Model& model, const std::string& spacing) {
  auto denoiser = drawing::denoiser_of(model, model.experts_there(), drawing::UnitsFor::training);
  auto models = denoiser.models();
  const auto& space = model.latent_space();
  pipeline::Unit unit{"distill", {}, {"loss"}, models, {}};
  const auto maps = written_maps(model);
  for (const auto& stream : space.streams) unit.reads.insert(unit.reads.end(), {stream.name, stream.value("start_noise")});
  unit.reads.emplace_back("num_inference_steps");
  auto passed = denoiser.condition_names();
  unit.reads.insert(unit.reads.end(), passed.begin(), passed.end());
  unit.reads.insert(unit.reads.end(), maps.begin(), maps.end());
  unit.run = [&space, denoiser, models, passed, spacing, maps](pipeline::Scope& scope) {
    drawing::WalkOptions options;
    options.sampler.timestep_spacing = spacing;
    options.sampler.num_steps = scope.tensor("num_inference_steps").item<int64_t>();
    options.sampler.num_image_tokens = space.num_tokens(scope.tensor(models::kLatents).sizes().slice(1));
    options.step_noise = [](int64_t, const std::string&) -> at::Tensor {
      config_error("train", "direct_distill needs a sampler that draws no noise on its way; this model's own does");
    };
    pipeline::Values conditions;
    for (const auto& name : passed) conditions[name] = scope.value(name);
    for (const auto& name : models) scope.uses(name);
    pipeline::Values start;
    for (const auto& stream : space.streams) start[stream.name] = scope.tensor(stream.value("start_noise"));
    auto drawn = drawing::walk(denoiser, start, conditions, options);
    auto of_stream = [&](const models::LatentSpace::Stream& stream) -> at::Tensor {
      auto error = errors({}, std::get<at::Tensor>(drawn.at(stream.name)), scope.tensor(stream.name).to(at::kFloat), {});
      if (error.numel() == 0) return {};
      auto map = stream.value(models::kLossMap);
      return mean_error({}, error, {}, maps.contains(map) ? scope.tensor(map) : at::Tensor());
    };
    scope.write("loss", sum_of_streams(space, of_stream));
  };
  return unit;
}

pipeline::Units distill_units(models::Model& model, const std::string& spacing) {
  auto groups = model.units();
  pipeline::Units all;
  for (const auto* group : {&groups.encode_prompt, &groups.encode_image, &groups.encode_references, &groups.encode_size, &groups.weigh})
    all.insert(all.end(), group->begin(), group->end());
  all.push_back(distill_unit(model, spacing));
  return all;
}

}  // namespace burnish::train
