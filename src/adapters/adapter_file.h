#pragma once
#include <filesystem>
#include <functional>
#include <map>

#include "adapters/attach.h"
#include "adapters/layout.h"
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

/// Tells whether an adapter changes nothing: one of its factors is zero, and it has no magnitude.
bool is_zero(const AdapterWeights& weights);

/// Counts the layers of each kind ("lora of rank 4", "full", "bias") that a file holds, by its keys and shapes. Empty for a file that is no
/// adapter.
std::map<std::string, int64_t> kinds_in(const io::TensorSource& source);

}  // namespace burnish::adapters
