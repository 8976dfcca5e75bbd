#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/extent.h"

namespace burnish::drawing {

/// The most frames that a clip is drawn of; no model makes clips of a tenth as many.
constexpr int64_t kMostFrames = 100'000;

/// A picture, or a clip of several frames, that is to be drawn: its prompt, size, seed and guidance.
struct Picture {
  std::string prompt = {}, negative_prompt = {};
  std::optional<int64_t> seed = {};  ///< seed of its noise; none before `numbered`, unless the picture has one of its own
  Extent extent = {.height = 1024, .width = 1024};
  double frame_rate = 0;  ///< frames a second at which a clip plays; 0: as many as the model was made with
  int64_t num_inference_steps = 28;
  struct Guidance {
    double scale = 1;    ///< 1: none
    double rescale = 0;  ///< share by which guided predictions are brought back to their deviation without guidance
    auto operator<=>(const Guidance&) const = default;
  };
  Guidance guidance = {};
  std::vector<std::string> references = {};  ///< files of the reference pictures that the model is to see
  /// The contents of further columns that the model is to read (base/column.h), by their names: files, texts or numbers.
  std::map<std::string, std::vector<std::string>> inputs = {};
  /// Strengths of the LoRAs that are merged, one for each file; none: as they are merged already.
  std::vector<double> strengths = {};

  bool is_guided() const { return guidance.scale != 1; }
};

/// The pictures of a prompt file's text: a prompt a line, blank lines and those that begin with # skipped. Behind a prompt, flags as in
/// kohya's sd-scripts (library/train_util.py, gen_img.py) replace a value of `defaults`: --w and --h (pixels), --d (seed), --s (steps), --l
/// (guidance scale), --n (negative prompt), --am (strengths of LoRAs, with commas between); as in musubi-tuner, --f (frames) and --ci (a
/// reference picture; may be given several times); and further columns under their names (--controlnet_image FILE), which may be given
/// several times as well. One strength is that of all files of `defaults`. A flag is two dashes before a letter, at
/// the line's start or behind a blank. A data Error names `origin` and the line for text that is not UTF-8, a flag that is not known, or a
/// value that makes no sense. Of a prompt that is a JSON object no part is a flag.
std::vector<Picture> parse_prompts(std::string_view text, const std::string& origin, const Picture& defaults);

/// The extents that pictures are drawn at.
std::vector<Extent> extents_of(const std::vector<Picture>& pictures);

/// Repeats each picture `num_copies` times in a row, every one with a seed: copies count up from a picture's own seed; without one the i-th
/// of all has `seed` + i. Behind the largest seed comes 0.
std::vector<Picture> numbered(const std::vector<Picture>& pictures, int64_t num_copies, int64_t seed);

}  // namespace burnish::drawing
