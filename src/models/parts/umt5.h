#pragma once
#include "models/model/names.h"
#include "models/parts/shared_components.h"
#include "pipeline/unit.h"

// The text encoder umT5-XXL of models of clips, whose texts were filled up to a length with rows of zeros, all of which are attended to.
namespace burnish::models {

/// The name of the component.
inline const std::string kUmt5 = "text_encoder";
/// Returns the numbers of the published encoder.
text::T5Config umt5_xxl();

/// Makes the encoder. Where no tokenizer lies beside, its vocabulary is that of a folder google/umt5-xxl beside original files, or in the
/// encoder's own file.
TextPart umt5_part(const Source& source, const text::T5Config& config, const ModelFiles& files, const ModelOptions& options);

/// Does the work of a unit that encodes a text: it writes its states, behind them one row of zeros for all that are missing of the length,
/// as NAME_embedding [1, L, E], and how many tokens each row stands for as NAME_counts [1, L].
void encode_by_umt5(pipeline::Scope& scope, Components& components, c10::Device device, const std::string& text,
                    const std::string& name = "text");
/// Says where DiffSynth-Studio's caches have text_embedding and text_counts.
void add_diffsynth_text(Names& names);

}  // namespace burnish::models
