#include "models/families/ltx2/vocoder_config.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/files/config_values.h"

namespace burnish::models::ltx2 {

namespace {

constexpr const char* kVocoderWords = "vocoder";
const std::string kFirst = "vocoder.", kSecond = "bwe_generator.";

int64_t side_of_vocoder(const io::Shapes& shapes, const std::string& name, size_t dim) {
  return io::side_of(shapes, name, dim, kVocoderWords);
}

/// The steps of published networks, by their kernels; none for others.
std::vector<int64_t> steps_of_kernels(const std::vector<int64_t>& kernels) {
  static const std::map<std::vector<int64_t>, std::vector<int64_t>> kSteps{
      {{16, 15, 8, 4, 4}, {6, 5, 2, 2, 2}}, {{11, 4, 4, 4, 4, 4}, {5, 2, 2, 2, 2, 2}}, {{12, 11, 4, 4, 4}, {6, 5, 2, 2, 2}}};
  const auto found = kSteps.find(kernels);
  return found == kSteps.end() ? std::vector<int64_t>{} : found->second;
}

GeneratorConfig read_generator(const io::Shapes& shapes, const std::string& below) {
  GeneratorConfig g;
  g.num_bands = side_of_vocoder(shapes, below + "conv_in.weight", 1);
  g.channels = side_of_vocoder(shapes, below + "conv_in.weight", 0);
  g.num_sides = side_of_vocoder(shapes, below + "conv_out.weight", 0);
  g.has_last_bias = shapes.contains(below + "conv_out.bias");
  g.kernels.clear();
  const auto num_steps = io::count_of(shapes, below + "upsamplers.{}.weight");
  for (int64_t i = 0; i < num_steps; ++i)
    g.kernels.push_back(side_of_vocoder(shapes, below + "upsamplers." + std::to_string(i) + ".weight", 2));
  g.steps = steps_of_kernels(g.kernels);
  const auto block = below + "resnets.";
  const auto num_blocks = io::count_of(shapes, block + "{}.convs1.0.weight") / std::max<int64_t>(num_steps, 1);
  g.block_kernels.clear();
  g.dilations.clear();
  for (int64_t i = 0; i < num_blocks; ++i) {
    g.block_kernels.push_back(side_of_vocoder(shapes, block + std::to_string(i) + ".convs1.0.weight", 2));
    auto& dilations = g.dilations.emplace_back();
    const auto count = io::count_of(shapes, block + std::to_string(i) + ".convs1.{}.weight");
    for (int64_t k = 0; k < count; ++k) dilations.push_back(2 * k + 1);
  }
  auto& a = g.activation;
  a.is_smooth = shapes.contains(below + "act_out.act.alpha");
  a.has_two_numbers = shapes.contains(block + "0.acts1.0.act.beta");
  if (a.is_smooth) a.num_taps = side_of_vocoder(shapes, below + "act_out.upsample.filter", 2);
  return g;
}

/// Takes a network's settings, whose keys begin with `before` in diffusers' config.json; original ones lie in a section of their own.
void take_generator(GeneratorConfig& g, const nlohmann::json& settings, const std::string& before) {
  auto take = [&](const std::string& key, auto& value) { return io::take(settings, key.c_str(), value, kVocoderWords); };
  take(before + "upsample_factors", g.steps);
  take("upsample_rates", g.steps);
  take(before + "resnet_dilations", g.dilations);
  take("resblock_dilation_sizes", g.dilations);
  take(before + "leaky_relu_negative_slope", g.activation.slope);
  const auto last = before + "final_act_fn";
  if (settings.is_object() && settings.contains(last)) {
    std::string word = "none";
    take(last, word);
    if (word != "none" && word != "tanh" && word != "clamp")
      data_error("models", "the settings of the vocoder have {} '{}', and tanh, clamp or null was expected", last, word);
    g.bound = word == "none" ? Bound::none : word == "tanh" ? Bound::tanh : Bound::clamp;
  }
  bool is_bound = g.bound != Bound::none, is_tanh = g.bound == Bound::tanh;
  const bool is_said = take("apply_final_activation", is_bound);
  if (take("use_tanh_at_final", is_tanh) || is_said) g.bound = !is_bound ? Bound::none : is_tanh ? Bound::tanh : Bound::clamp;
}

void take_vocoder_settings(VocoderConfig& c, const nlohmann::json& settings) {
  if (!settings.is_object()) return;
  // Original settings of two networks have a section for each.
  const bool has_sections = settings.contains("bwe") && settings["bwe"].is_object();
  const auto of_first = has_sections && settings.contains("vocoder") ? nlohmann::json(settings["vocoder"]) : settings;
  const auto of_second = has_sections ? nlohmann::json(settings["bwe"]) : settings;
  take_generator(c.first, of_first, "");
  if (!c.second) {
    for (const char* key : {"output_sampling_rate", "output_sample_rate"}) io::take(settings, key, c.rate, kVocoderWords);
    return;
  }
  take_generator(*c.second, of_second, "bwe_");
  c.second->bound = Bound::none;  // bounds are set to the sum of what it makes and what it hears
  io::take(of_second, "input_sampling_rate", c.first_rate, kVocoderWords);
  io::take(of_second, "output_sampling_rate", c.rate, kVocoderWords);
  io::take(of_second, "hop_length", c.hearing.step, kVocoderWords);
}

void check_generator(const GeneratorConfig& g) {
  check_sizes({g.num_bands, g.channels, g.num_sides, g.activation.num_taps});
  auto are_sizes = [](const std::vector<int64_t>& numbers) {
    return !numbers.empty() && std::ranges::all_of(numbers, [](int64_t n) { return n > 0 && n < 1000; });
  };
  bool fits = are_sizes(g.steps) && are_sizes(g.kernels) && are_sizes(g.block_kernels) && g.steps.size() == g.kernels.size() &&
              g.dilations.size() == g.block_kernels.size() && std::ranges::all_of(g.dilations, are_sizes) &&
              g.channels >> g.steps.size() > 0;
  for (size_t i = 0; fits && i < g.steps.size(); ++i) fits = g.kernels[i] >= g.steps[i] && (g.kernels[i] - g.steps[i]) % 2 == 0;
  if (!fits)
    data_error(
        "models",
        "the vocoder has {} steps up and {} kernels of them, and {} lists of dilations for {} kernels of blocks; as many of each were "
        "expected, and settings beside its weights that say them",
        g.steps.size(), g.kernels.size(), g.dilations.size(), g.block_kernels.size());
}

void check_vocoder(const VocoderConfig& c) {
  check_generator(c.first);
  check_sizes({c.first_rate, c.rate, c.hearing.step, c.hearing.window, c.hearing.num_bands});
  if (!c.second) return;
  check_generator(*c.second);
  const auto times = c.rate / c.first_rate;
  if (c.rate % c.first_rate != 0 || c.second->samples_per_window() != times * c.hearing.step || c.hearing.step > c.hearing.window)
    data_error("models",
               "the vocoder's second network makes {} samples of {} of the first, and the rates {} and {} were expected to differ so",
               c.second->samples_per_window(), c.hearing.step, c.first_rate, c.rate);
}

}  // namespace

int64_t GeneratorConfig::samples_per_window() const { return std::accumulate(steps.begin(), steps.end(), int64_t{1}, std::multiplies<>()); }

VocoderConfig vocoder_config_20() {
  return {.first = {.channels = 1024,
                    .steps = {6, 5, 2, 2, 2},
                    .kernels = {16, 15, 8, 4, 4},
                    .activation = {.is_smooth = false},
                    .has_last_bias = true,
                    .bound = Bound::tanh},
          .second = {},
          .rate = 24000};
}

VocoderConfig vocoder_config(const nlohmann::json& settings, const io::Shapes& shapes) {
  VocoderConfig c;
  if (!shapes.empty()) {
    c.first = read_generator(shapes, kFirst);
    if (shapes.contains(kSecond + "conv_in.weight")) {
      c.second = read_generator(shapes, kSecond);
      c.hearing.window = side_of_vocoder(shapes, "mel_stft.stft_fn.forward_basis", 2);
      c.hearing.num_bands = side_of_vocoder(shapes, "mel_stft.mel_basis", 0);
    } else {
      c.first.bound = Bound::tanh;
      c.second.reset();
      c.rate = vocoder_config_20().rate;
    }
  }
  take_vocoder_settings(c, settings);
  check_vocoder(c);
  return c;
}

}  // namespace burnish::models::ltx2
