#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::minimax_h3 {

/// Latents of a side of a sound in a second.
inline constexpr int64_t kLatentsASecond = 40;

/// Numbers of the encoder of sound: convolutions that step, and behind them attention.
struct SoundEncoderConfig {
  int64_t channels = 64;  ///< of the first convolution, doubled with every step
  std::vector<int64_t> steps = {2, 4, 4, 5, 5};
  int64_t num_heads = 8;
};

/// Numbers of the decoder of sound (BigVGAN: Lee et al. 2022, arXiv 2206.04658).
struct SoundDecoderConfig {
  int64_t channels = 1024;  ///< of the first convolution, halved with every step
  std::vector<int64_t> steps = {5, 5, 2, 2, 2, 2, 2}, kernels = {9, 9, 4, 4, 4, 4, 4};
  std::vector<int64_t> block_kernels = {3, 7, 11};
  std::vector<std::vector<int64_t>> dilations = {{1, 3, 5}, {1, 3, 5}, {1, 3, 5}};  ///< of each kernel's block
};

/// Numbers of the autoencoder of sound. Defaults are MiniMax-H3's, whose original files hold neither mean nor deviation.
struct SoundConfig {
  int64_t width = 2048;          ///< between convolutions and latents
  int64_t latent_channels = 32;  ///< numbers of a latent
  int64_t rate = 32000;          ///< samples a second
  bool has_weight_norm = true;   ///< whether files hold a convolution's weight as length and direction
  SoundEncoderConfig encoder = {};
  SoundDecoderConfig decoder = {};
  std::vector<double> latents_mean = {
      -0.020211687488382354, 0.3876466479950502,   -0.04398279799186767, -0.28591514936373,    0.08179686214561671,   -0.35782641352446604,
      0.040623809960919084,  -0.01552534501956604, -0.223362481667332,   0.1821006842509091,   0.2941778783780663,    -0.07901167601970885,
      -0.056815072777201,    -0.3699028221860095,  -0.31616315591624855, 0.5905951377425391,   -0.052139568068853864, 0.013673160263486295,
      -0.03691647864630577,  0.09732660653298163,  -0.3394662328788498,  -0.30685677538541667, -0.24504598907458763,  -0.034698524462007344,
      0.02868032184767538,   -0.21217779266454084, -0.1678263169941987,  0.3221287889040614,   -0.1223055851554907,   0.4356604928128464,
      -0.0502599202236253,   0.3979258376211797};
  std::vector<double> latents_std = {1.6895524230479284, 2.76263727217653,   1.7945344281264435, 1.6801681847309828, 1.6390226546605453,
                                     2.7788298348882177, 1.7659090095747236, 1.6199757612137327, 2.6336525640336896, 1.8539356672817833,
                                     2.5056497896915633, 1.811019237886178,  1.9579657790720237, 1.6685498243529284, 1.4922469314453364,
                                     3.298670198067373,  1.9491804496832168, 1.8720003270431442, 1.8334080103291832, 1.6488070416529093,
                                     1.6176957696319716, 1.9131449234774398, 1.5695245398428617, 1.6943659940415912, 1.8318420762504692,
                                     1.5540637421583379, 1.9344930328968526, 1.599198216109855,  1.718045989838149,  1.6307219190837705,
                                     1.8661226051202384, 1.5613768203168363};

  /// Returns the samples that a latent stands for.
  int64_t samples_per_latent() const;
};

/// Reads sizes from shapes (our names) and the rest from config.json (null for none), which wins for what shapes cannot tell.
SoundConfig sound_config(const nlohmann::json& config_json, const io::Shapes& shapes);

}  // namespace burnish::models::minimax_h3
