#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "adapters/attach.h"
#include "io/checkpoint_files.h"

namespace burnish::adapters {

/// Our layers behind a layer name in a file.
struct Behind {
  std::vector<std::string> layers = {};  ///< fused layers have several, stacked in this order; none when the name means nothing
  bool swapped_halves = false;           ///< whether the file has the second half of the rows first
};
using LayersOf = std::function<Behind(const std::string& name)>;

/// Reads LoRA, DoRA, LoHa and LoKr in any of the common layouts: diffusers/peft (`<prefix>path.lora_A.weight`, `.lora_magnitude_vector`),
/// DiffSynth-Studio (`.lora_A.default.weight`), diffusers before peft (`.to_q_lora.down.weight`, `.lora_linear_layer.down.weight`), kohya,
/// OneTrainer and LyCORIS (`lora_unet_path_with_underscores.lora_down.weight`,
/// `.hada_w1_a`, `.lokr_w1`, `.dora_scale`). `path` is a file or a folder (find_adapter). The scale is told by `.alpha`, else by the
/// settings beside the tensors (AdapterConfigs), and is 1 where nothing is said. Factors of convolutions may have any of their
/// usual shapes, Tucker form (`.lora_mid.weight`, `.hada_t1`, `.lokr_t2`) included, which is multiplied out. An adapter of a fused layer is
/// one for each of our layers behind it, which share its tensors (see Change). `rows_of` and `columns_of` give the output and input
/// features of one of our layers. The axis of a DoRA magnitude is told by its shape. A data Error names keys that are no adapter's, or that
/// belong to no layer, a layer that stands there under two names, and what turns rows of several of our layers together. Deltas of biases
/// and norms that are all zero, and embeddings of words (`bundle_emb.`), are skipped with a line. The other kinds of LyCORIS and peft are
/// read too (read_kind), and what changes biases and norms (`.diff_b`, `.b_norm`, `.lora_B.bias`,
/// `.w_norm`), each as an entry of its own.
std::vector<AdapterWeights> read_adapter(const std::filesystem::path& path, const LayersOf& layers_of,
                                         const std::function<int64_t(const std::string&)>& rows_of,
                                         const std::function<int64_t(const std::string&)>& columns_of);

/// How adapters are laid out in a file:
/// diffusers   `<prefix>path.lora_A.weight`, `.lora_magnitude_vector` (with `.weight` in text encoders): diffusers, peft, ComfyUI
/// kohya       kohya's layers, or `<prefix>path_with_underscores`; `.lora_down.weight`, `.dora_scale`: sd-scripts, ComfyUI, diffusers
/// lycoris     `<prefix>path_with_underscores.`, else as kohya: LyCORIS, ComfyUI
/// onetrainer  `<prefix>path_with_underscores.`, else as kohya: OneTrainer, ComfyUI
/// diffsynth   DiffSynth-Studio's layers, `.lora_A.default.weight`, without alphas: DiffSynth-Studio
/// auto        what keeps the adapters as they are (see settled)
enum class Layout { automatic, diffusers, kohya, lycoris, onetrainer, diffsynth };
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
  std::function<int64_t(const std::string& path)> rows_of = {};  ///< output features of one of our layers; for those two
  std::optional<std::string> diffsynth = {};                     ///< before our path, where DiffSynth-Studio's layers are ours
};

/// Makes the tensors of a file. Every layer has `.alpha`, with scale = alpha / rank; where diffusers would refuse that, its layout has the
/// scale multiplied into lora_B of LoRA instead. 16-bit dtypes keep magnitudes and alphas in fp32.
io::NamedTensors adapter_tensors(const AdaptedList& adapted, const LayerPrefixes& prefixes, c10::ScalarType dtype,
                                 Layout layout = Layout::automatic);

/// Exchanges the halves of ΔW's rows; a data Error about `file` where those of the factors have none.
void swap_halves(AdapterWeights& weights, const std::string& file);

/// Tells whether an adapter changes nothing: one of its factors is zero, and it has no magnitude.
bool is_zero(const AdapterWeights& weights);

/// Counts the layers of each kind ("lora of rank 4", "full", "bias") that a file holds, by its keys and shapes. Empty for a file that is no
/// adapter.
std::map<std::string, int64_t> kinds_in(const io::TensorSource& source);

}  // namespace burnish::adapters
