#pragma once
#include <string>

#include "train/subject/model_choice.h"

namespace burnish::train {

/// Says DiffSynth-Studio's quant_options in the options of a run: `MODEL:METHOD/LAYER,LAYER` with semicolons between, or JSON that maps
/// models to methods. The models become fp8_models, the method weight_format, and the layers that are left out high_precision_layers. May
/// be done twice. Returns what became of it, in a line. A config Error for a method that has no counterpart, with the nearest, for several
/// methods, and where options of the run say something else.
std::string put_quant_options(const std::string& text, ModelChoice& choice);

}  // namespace burnish::train
