#pragma once
#include <string>
#include <vector>

#include "config/fields.h"
#include "train/options/train_options.h"

namespace burnish::train {

/// Options of DiffSynth-Studio whose meaning here lies in others.
struct DiffSynthNames {
  std::string resume_from_checkpoint;  ///< weights that training starts from
  std::string customized_optimizer;    ///< a class in Python
  std::string quant_options = {};      ///< models that are held in codes, and how
};

void fields(config::Fields& f, DiffSynthNames& names);

/// Says them in the options of a run: a file of adapters is lora_checkpoint, and other weights stand before all of `model`; a class of
/// optimizers becomes `optimizer`, with what its package takes otherwise in optimizer_args; models in codes become fp8_models
/// (put_quant_options). May be done twice. Returns what became of them, a line each. A config Error for a class that is not known, and
/// where an option names something else; a data Error for a file that cannot be opened.
std::vector<std::string> put(const DiffSynthNames& names, TrainOptions& o);

}  // namespace burnish::train
