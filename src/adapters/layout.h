#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/attach.h"

namespace burnish::adapters {

/// The way in which adapters are laid out in a file:
/// diffusers   `<prefix>path.lora_A.weight`, `.lora_magnitude_vector` (with `.weight` in text encoders): diffusers, peft, ComfyUI
/// kohya       kohya's layers, or `<prefix>path_with_underscores`; `.lora_down.weight`, `.dora_scale`: sd-scripts, ComfyUI, diffusers
/// lycoris     `<prefix>path_with_underscores.`, else as kohya: LyCORIS, ComfyUI
/// onetrainer  `<prefix>path_with_underscores.`, else as kohya: OneTrainer, ComfyUI
/// diffsynth   DiffSynth-Studio's layers, `.lora_A.default.weight`, without alphas: DiffSynth-Studio
/// auto        what keeps the adapters as they are (see settled)
enum class Layout { automatic, diffusers, kohya, lycoris, onetrainer, diffsynth };
/// Returns the words that parse_layout reads.
const std::vector<std::string>& layouts();
Layout parse_layout(std::string_view name);

/// Throws a config Error for a layout whose readers do not know adapters of this kind; `axis` is that of a DoRA.
void check_readers(Layout layout, Kind kind, bool is_dora, NormAxis axis);

/// The layout of a file with these adapters: the one that is asked for, and for `automatic` kohya where layers share an adapter and no
/// DoRA over outputs, which diffusers reads under its own names alone; onetrainer for DoRA over inputs; lycoris for the other kinds, which
/// diffusers lacks; diffusers otherwise. The config Error of check_readers.
Layout settled(Layout layout, const std::vector<AdaptedList>& all);

/// Our layers behind a layer of another program, by its name there; fused layers have several, stacked in this order.
using ForeignLayers = std::map<std::string, std::vector<std::string>>;

/// Names of layers in each layout, and what stands before a layer's path: "transformer.", "lora_transformer_", "lycoris_".
struct LayerPrefixes {
  std::string diffusers, kohya, lycoris;
  bool diffusers_alpha = true;  ///< whether diffusers takes `.alpha` beside this model's layers
  /// Whole names, where a program has layers other than ours.
  ForeignLayers kohya_layers = {}, diffsynth_layers = {};
  std::set<std::string> swapped_halves = {};                     ///< names of layers whose rows stand the second half first
  std::function<int64_t(const std::string& path)> rows_of = {};  ///< output features of one of our layers; for those
  std::optional<std::string> diffsynth = {};                     ///< before our path, where DiffSynth-Studio's layers are ours
  ForeignLayers diffusers_layers = {};                           ///< whole names, where diffusers has paths other than ours
  std::string onetrainer = {};                                   ///< as kohya in OneTrainer's files; "": as kohya
};

/// Tells whether layers share an adapter.
bool any_fused(const AdaptedList& adapted);

}  // namespace burnish::adapters
