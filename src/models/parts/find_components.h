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

/// Returns the tensors of a file below the first of these prefixes under which it has a tensor of one of these names, without the counters
/// of averages that some programs save among them ("num_updates"); nothing where it has none.
std::optional<io::TensorSource> below_first(const io::TensorSource& file, const std::vector<std::string>& prefixes,
                                            const std::vector<std::string>& marks);
/// Returns an entry's, for one mark.
std::optional<io::TensorSource> find_below(const ModelEntry& entry, const std::vector<std::string>& prefixes, const std::string& mark);

/// Returns the class of pipeline that the index of a diffusers folder names; "" where there is none.
std::string pipeline_class(const ModelFiles& files);

/// The words that stand before a denoiser's tensors: none, those of ComfyUI's checkpoints, or those of programs that save the module which
/// holds it (Lightning, DDP, torch.compile, DiffSynth-Studio's pipelines).
extern const std::vector<std::string> kDenoiserPrefixes;

/// Finds a denoiser in its own files or in a single one, below one of kDenoiserPrefixes: the first entry that has a tensor of one of these
/// names, or that is a config.json of this class without weights. Entries with a tensor `unlike` are passed over. `keys` are left to the
/// family.
Source find_transformer(const ModelFiles& files, const std::vector<std::string>& marks, const std::string& class_name,
                        const std::string& unlike = "");

/// The names that a transformer's tensors have where they are its authors' and not diffusers'.
struct OriginalNames {
  std::string mark;                      ///< a tensor that every such file has
  io::KeyMap (*keys)();                  ///< makes the rules to our names
  std::vector<std::string> unread = {};  ///< what the names begin with of tensors that no code runs, or that are another component's
};
/// Finds a denoiser that has a tensor `mark` in diffusers' names, or else has the original ones.
Source find_transformer(const ModelFiles& files, const std::string& mark, const std::string& class_name, const OriginalNames& original);

/// Finds a module in a file of its own: the first entry with the tensor `mark`.
Source find_marked(const ModelFiles& files, const std::string& mark);

/// Finds a KL autoencoder in its own files or in a single one.
Source find_autoencoder(const ModelFiles& files);
/// Finds a KL autoencoder of latents in patches, which has statistics of them.
Source find_patch_autoencoder(const ModelFiles& files);
/// Finds a causal autoencoder in its own files or in a single one, as it serves for pictures, or for clips.
Source find_causal_autoencoder(const ModelFiles& files, vae::CausalFor use = vae::CausalFor::pictures);
/// Returns the prefixes under which files keep a text encoder: none, or those of ComfyUI's checkpoints, which have one of these words for
/// it.
std::vector<std::string> text_prefixes(const std::vector<std::string>& words);
/// Finds a T5 or umT5 encoder in its own files, those of Wan among them, or below one of these prefixes of a single one.
Source find_t5(const ModelFiles& files, const std::vector<std::string>& prefixes);
/// The tensors of a first layer by which text encoders of Qwen are told: norms of Qwen3 and Qwen3-VL, biases of Qwen2 and Qwen2.5, the
/// linear attention of Qwen3.5.
inline constexpr const char *kQwen3Mark = "self_attn.q_norm.weight", *kQwen2Mark = "self_attn.q_proj.bias",
                            *kQwen35Mark = "linear_attn.A_log";
/// Finds a Qwen text encoder with that tensor in its own files or below one of these prefixes of a single one. A Gemma, which has the
/// tensor too, is none.
Source find_qwen(const ModelFiles& files, const std::vector<std::string>& prefixes, const std::string& mark);
/// Finds the text encoder of a Qwen3-VL, which also sees; Qwen3 does not.
Source find_qwen3_vl(const ModelFiles& files, const std::vector<std::string>& prefixes);
/// Says how many layers an encoder may have.
struct Depth {
  int64_t least = 1, most = 1000;
};
/// Finds Mistral's: a text encoder of Qwen's names with neither, so deep. A rewriter of prompts beside it (a pipeline's `pe`) is none.
Source find_mistral(const ModelFiles& files, const std::vector<std::string>& prefixes, const Depth& depth);
/// Finds the text part of a Gemma in its own files or below one of these prefixes of a single one.
Source find_gemma(const ModelFiles& files, const std::vector<std::string>& prefixes);
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
