#pragma once
#include <utility>

#include "models/model/components.h"
#include "models/vae/causal_autoencoder.h"

// How components that families share are found among a run's files, by the names of their tensors. Sources point into the files.
namespace burnish::models {

/// The sources of the components of a family with one text encoder.
struct Sources {
  Source dit, text_encoder, vae;
};

/// Returns an entry's tensors below the first of these prefixes under which it has the tensor `mark`; nothing where it has none.
std::optional<io::TensorSource> find_below(const ModelEntry& entry, const std::vector<std::string>& prefixes, const std::string& mark);

/// Finds a denoiser in its own files or in a single one of ComfyUI's checkpoints: the first entry that has a tensor of one of these names,
/// or that is a config.json of this class without weights. Entries with a tensor `unlike` are passed over. `keys` are left to the family.
Source find_transformer(const ModelFiles& files, const std::vector<std::string>& marks, const std::string& class_name,
                        const std::string& unlike = "");

/// Finds a module in a file of its own: the first entry with the tensor `mark`.
Source find_marked(const ModelFiles& files, const std::string& mark);

/// Finds a KL autoencoder in its own files or in a single one.
Source find_autoencoder(const ModelFiles& files);
/// Finds a KL autoencoder of latents in patches, which has statistics of them.
Source find_patch_autoencoder(const ModelFiles& files);
/// Finds a causal autoencoder in its own files or in a single one, as it serves for pictures, or for clips.
Source find_causal_autoencoder(const ModelFiles& files, vae::CausalFor use = vae::CausalFor::pictures);
/// Finds a T5 or umT5 encoder in its own files, those of Wan among them, or below one of these prefixes of a single one.
Source find_t5(const ModelFiles& files, const std::vector<std::string>& prefixes);
/// Finds a Qwen text encoder in its own files or below one of these prefixes of a single one. Its first layer's attention has a tensor
/// `mark`: "q_norm.weight" of Qwen3, "q_proj.bias" of Qwen2 and Qwen2.5.
Source find_qwen(const ModelFiles& files, const std::vector<std::string>& prefixes, const std::string& mark);
/// Finds the text encoder of a Qwen3-VL, which also sees; Qwen3 does not.
Source find_qwen3_vl(const ModelFiles& files, const std::vector<std::string>& prefixes);
/// Says how many layers an encoder may have.
struct Depth {
  int64_t least = 1, most = 1000;
};
/// Finds Mistral's: a text encoder of Qwen's names with neither, so deep. A rewriter of prompts beside it (a pipeline's `pe`) is none.
Source find_mistral(const ModelFiles& files, const std::vector<std::string>& prefixes, const Depth& depth);
/// Finds the vision tower of Qwen2.5-VL among the text encoder's files, below one of these prefixes.
Source find_vision_tower(const ModelFiles& files, const std::vector<std::string>& prefixes);

/// Reads a component's configuration, as Source::read; a data Error of it begins with where the component lies.
template <class Read, class... Otherwise>
auto read_named(const Source& source, Read of, const Otherwise&... otherwise) {
  return naming(source.entry != nullptr ? source.entry->label : "", [&] { return source.read(of, otherwise...); });
}

/// Components with a few words for each.
using Described = std::vector<std::pair<Source, std::string>>;
/// Joins the words for components whose weights were found, for Family::describe: "T5 encoder + KL autoencoder".
std::string words_of(const Described& components);

}  // namespace burnish::models
