#pragma once
#include "models/families/ltx2/config.h"
#include "models/model/names.h"

namespace burnish::models::ltx2 {

/// Returns the rules between Lightricks' original names of the transformer and ours.
io::KeyMap original_keys();

/// Returns the layer names of adapters of ComfyUI, ai-toolkit and musubi-tuner's fork.
LayerTable foreign_layers(const Config& config);
/// Returns the names in which adapters are written, by format: ComponentNames::written.
std::map<std::string, LayerTable> written_layers(const Config& config);

/// Returns the names by which adapter targets know a layer: ours, and the original ones.
std::vector<std::string> target_names(const std::string& path);

/// A name that only original files have, and one that only files in our names have.
inline constexpr const char *kOriginalMark = "av_ca_a2v_gate_adaln_single.linear.weight",
                            *kMark = "av_cross_attn_video_a2v_gate.linear.weight";

/// The beginnings of names that stand among those of an original transformer and are of the connectors.
inline const std::vector<std::string> kConnectorNames{"video_embeddings_connector.", "audio_embeddings_connector."};

}  // namespace burnish::models::ltx2
