#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::wan {

/// The number of values that the time gives every block: shift, scale and gate of attention, and of the MLP.
inline constexpr int64_t kModulations = 6;

/// What Wan-Animate-2's transformer has of its own, which runs on a clip too: what is drawn moves as the clip does.
struct DrivingConfig {
  bool is_read = false;                    ///< whether it runs on one
  std::vector<int64_t> offsets{1, 0, -1};  ///< where the clip's places begin by frame, row and column; below 0: behind as many as it has
  int64_t stride = 1;                      ///< how far its places are apart by frame
};

/// Holds what the transformer of Wan-S2V has beside the others.
struct SpeechConfig {
  std::vector<int64_t> layers = {};  ///< blocks behind which it hears, rising; none: it is another transformer
  int64_t num_states = 25;           ///< states of a sound, the layers of wav2vec 2.0 and one more
  int64_t sound_width = 1024;        ///< their width
  int64_t num_tokens = 4;            ///< tokens that a frame's sound becomes, before the one that is learned
  int64_t pose_channels = 16;        ///< of the latents of poses
  bool has_packer = false;           ///< whether its file holds what packs frames before the clip

  bool is_there() const { return !layers.empty(); }
};
/// The blocks behind which the published model hears.
inline const std::vector<int64_t> kPublishedHearing{0, 4, 8, 12, 16, 20, 24, 27, 30, 33, 36, 39};

/// Holds what the transformer of InfiniteTalk has beside that of picture to video.
struct TalkConfig {
  int64_t sound_width = 0;  ///< numbers of what is heard in a frame: all states of wav2vec 2.0 but the first; 0: it is another transformer
  int64_t window = 5;       ///< frames around one that are heard with it
  int64_t hidden = 512;     ///< width between the layers that make tokens of them
  int64_t num_tokens = 32;  ///< tokens of a frame of the latents
  int64_t token_width = 768;

  bool is_there() const { return sound_width > 0; }
};
/// Numbers of a state of what hears for the published model, which gives twelve of them; and SimpleTuner's name of such a transformer.
inline constexpr int64_t kStateWidth = 768;
inline constexpr const char* kTalkClass = "InfiniteTalkTransformer3DModel";

/// The base of rotary frequencies.
inline constexpr double kRopeTheta = 10000.0;

/// Holds what some transformers have that others have not.
struct Extras {
  int64_t image_places = 0;    ///< rows of the table of places of CLIP's states, for first and last frame; 0: there is none
  bool has_reference = false;  ///< whether it takes a reference picture, as of the Fun models do
  bool has_camera = false;     ///< whether it takes rays of a camera, as others of them do
  DrivingConfig driving = {};
  SpeechConfig speech = {};
  TalkConfig talk = {};
  int64_t area_channels = 0;  ///< of coloured areas, which SCAIL-2's reads with pictures and a driving clip; 0: it is another transformer
};

/// Every architecture number of the transformer. Defaults are those of Wan2.1-T2V-14B, and of both experts of Wan2.2-T2V-A14B.
struct Config {
  int64_t in_channels = 16;   ///< channels of the noisy latents, and of what stands behind them (Wan: y)
  int64_t out_channels = 16;  ///< channels of the latents
  int64_t num_layers = 40;
  int64_t num_heads = 40;
  int64_t head_dim = 128;
  int64_t hidden = 13824;        ///< width between the layers of the MLP
  int64_t caption_width = 4096;  ///< width of umT5's states
  int64_t time_channels = 256;   ///< sinusoids of the time
  int64_t image_width = 0;       ///< width of CLIP's states of a picture; 0: none are read
  Extras extras = {};

  int64_t width() const { return num_heads * head_dim; }
  /// Returns the numbers of a head for each place: frame, row and column.
  std::vector<int64_t> axes_dims() const { return {head_dim - 4 * (head_dim / 6), 2 * (head_dim / 6), 2 * (head_dim / 6)}; }
};

/// Latents of a token along height and width; a token is of one frame of latents.
inline constexpr int64_t kPatch = 2;

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, diffusers' or the original's,
/// which wins for what shapes cannot tell: the number of heads. Throws a data Error when the two disagree, and for an adapter of other
/// rays.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);
/// Reads the numbers of a transformer that runs on a clip too, which shapes do not tell from others.
Config detect_driven(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::wan
