#include "models/parts/sound_beside.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "base/input_error.h"
#include "models/model/model.h"

namespace burnish::models {

namespace {
constexpr const char* kElsewhere = "it is of models that make sound beside frames, leave it out";
}  // namespace

std::vector<Option> sound_loss_options() {
  auto weight = [](const char* name, const char* help) {
    return Option{.name = name, .help = help, .otherwise = 1.0, .elsewhere = kElsewhere, .least = 0};
  };
  return {
      weight(kSoundWeight,
             "factor on the loss of sound, of models that make it beside frames, which extra_inputs input_audio adds to that of frames; "
             "0: it is seen beside them and not learned"),
      weight(kFramesWeight, "factor on the loss of frames, of models that make sound beside them; 0: sound alone is learned"),
      {.name = kSilence,
       .help = "whether samples that have no sound learn silence, of models that make sound beside frames; else nothing is learned of "
               "theirs",
       .otherwise = false,
       .elsewhere = kElsewhere}};
}

LossWeights loss_weights(const ModelOptions& options, const Column& column) {
  const LossWeights weights{.frames = options.get<double>(kFramesWeight),
                            .sound = options.get<double>(kSoundWeight),
                            .is_column_named = options.extra_inputs.contains(column.name)};
  if (weights.frames == 0 && !weights.learns_sound())
    config_error("models", "with {} 0 nothing is learned but sound; name {} in extra_inputs, with a {} above 0", kFramesWeight, column.name,
                 kSoundWeight);
  return weights;
}

HeardSounds heard_sounds(const at::Tensor& samples, int64_t length, bool learns_silence) {
  const auto are_numbers = samples.eq(samples);  // a number equals itself
  auto has_B11 = are_numbers.all(2, /*keepdim=*/true).all(1, /*keepdim=*/true).to(at::kFloat);
  if (learns_silence) has_B11 = at::ones_like(has_B11);
  const auto there = std::min(length, samples.size(2));
  const auto numbers = at::where(are_numbers, samples, at::zeros_like(samples));
  return {at::constant_pad_nd(numbers.narrow(2, 0, there), {0, length - there}), has_B11};
}

pipeline::Unit weigh_sound(const std::string& stream, const std::string& has_sound) {
  const auto map = stream_value(stream, kLossMap);
  return {"weigh_sound", {has_sound}, {map}, {}, [=](pipeline::Scope& s) { s.write(map, s.tensor(has_sound)); }};
}

}  // namespace burnish::models
