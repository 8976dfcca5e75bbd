#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::ltx2 {

/// The bounds that samples are brought into at last.
enum class Bound { none, tanh, clamp };

/// Numbers of the activations: waves at twice the rate, or rectifiers.
struct ActivationConfig {
  bool is_smooth = true;        ///< whether they are waves
  bool has_two_numbers = true;  ///< whether a wave has an amplitude of its own beside its frequency
  int64_t num_taps = 12;        ///< taps of the filters between the rates
  double slope = 0.1;           ///< slope of rectifiers below 0
};

/// Numbers of a network that makes samples of the strength of bands: steps up, behind each residual blocks side by side (HiFi-GAN: Kong et
/// al. 2020, arXiv 2010.05646; where it is smooth, BigVGAN: Lee et al. 2022, arXiv 2206.04658).
struct GeneratorConfig {
  int64_t num_bands = 128;  ///< bands of all sides
  int64_t channels = 1536;  ///< of the first convolution, halved with every step
  int64_t num_sides = 2;    ///< sides of a sound
  std::vector<int64_t> steps = {5, 2, 2, 2, 2, 2}, kernels = {11, 4, 4, 4, 4, 4};
  std::vector<int64_t> block_kernels = {3, 7, 11};
  std::vector<std::vector<int64_t>> dilations = {{1, 3, 5}, {1, 3, 5}, {1, 3, 5}};  ///< of each kernel's block
  ActivationConfig activation = {};
  bool has_last_bias = false;  ///< whether the last convolution has a bias
  Bound bound = Bound::clamp;

  /// Returns the samples that are made for each window.
  int64_t samples_per_window() const;
};

/// Numbers of what hears the sound of the first network for the second, which makes it one of a higher rate.
struct HearingConfig {
  int64_t step = 80, window = 512, num_bands = 64;
};

/// Numbers of a vocoder. Defaults are LTX-2.3's and 2.5's, which make 16 kHz and then 48 kHz of it; LTX-2.0's has one network.
struct VocoderConfig {
  GeneratorConfig first = {};
  std::optional<GeneratorConfig> second =
      GeneratorConfig{.channels = 512, .steps = {6, 5, 2, 2, 2}, .kernels = {12, 11, 4, 4, 4}, .bound = Bound::none};
  HearingConfig hearing = {};
  int64_t first_rate = 16000;  ///< samples a second of the first network
  int64_t rate = 48000;        ///< samples a second of the sound
};

/// Returns LTX-2.0's numbers.
VocoderConfig vocoder_config_20();

/// Reads sizes from shapes (our names), and what these cannot tell from the settings of the files, diffusers' config.json or the section
/// "vocoder" of a single file's metadata; steps that no settings say are those of the published vocoder with such kernels. Throws a data
/// Error for a vocoder that cannot be run.
VocoderConfig vocoder_config(const nlohmann::json& settings, const io::Shapes& shapes);

}  // namespace burnish::models::ltx2
