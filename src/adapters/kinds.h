#pragma once
#include <map>
#include <optional>

#include "adapters/adapter_config.h"
#include "adapters/attach.h"

namespace burnish::adapters {

/// The tensors of one layer in a file, by the names that adapter_file.cpp gives to their keys' endings.
using Parts = std::map<std::string, at::Tensor>;

/// The things that reading a layer's parts needs to know beside them.
struct PartsOf {
  std::string layer;  ///< the layer's name in the file
  std::string file;   ///< the file's name, for messages
  int64_t out = 0;    ///< features of our layer, or layers stacked; 0 where it is not known
  int64_t in = 0;
  OftConfig oft = {};  ///< what peft's settings say of an OFT
};

/// Tells whether parts have the shapes that they are read in, not those of matrices or kernels of convolutions.
bool has_own_shape(const std::string& part);

/// The kind that a layer's parts make, by their names alone; nothing for those that make none.
std::optional<Kind> kind_of_parts(const std::vector<std::string>& parts);

/// Reads full deltas, OFT, BOFT, IA³, GLoRA and T-LoRA, in the forms of make_change; nothing for parts of other kinds. Of OFT's blocks that
/// are neither constrained nor rescaled it makes what can be trained further. A data Error for parts that lack one or do not fit together.
///   oft_blocks [blocks, b, b], or [stages, blocks, b, b] of BOFT, with alpha, the largest ‖Q‖ over the number of outputs (0: none), and
///     rescale: LyCORIS' modules/diag_oft.py and boft.py; sd-scripts' networks/oft.py, where every alpha is such a limit
///   oft_R [blocks, b (b - 1) / 2], boft_R [stages, blocks, b, b] with boft_s, ia3_l, glora_A and glora_B: peft's tuners/
///   ia3_weight with on_input, a1.weight to b2.weight, p_layer.weight to lambda_layer, diff: LyCORIS
std::optional<AdapterWeights> read_kind(const Parts& parts, const PartsOf& of);

/// Takes what changes the layer's bias out of `parts`: deltas, those of LoRA's second factor (times `lora_scale`), peft's IA³ over
/// outputs, which takes the bias with it, and what peft's GLoRA has for it.
std::vector<AdapterWeights> take_bias_changes(Parts& parts, double lora_scale, const PartsOf& of);

/// VeRA (Kopiczko et al. 2023, arXiv 2310.11454) as a LoRA: A and B are shared by all layers and cut to each one's sides, vera_lambda_d and
/// vera_lambda_b scale their rows.
void fold_vera(Parts& parts, const at::Tensor& shared_a, const at::Tensor& shared_b, const PartsOf& of);

}  // namespace burnish::adapters
