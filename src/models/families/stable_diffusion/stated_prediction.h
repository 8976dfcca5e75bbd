#pragma once
#include <map>
#include <string>

#include "models/files/files.h"

namespace burnish::models::stable_diffusion {

/// The words of a UNet's own file about what it predicts.
struct StatedPrediction {
  std::string type = {};           ///< "epsilon" or "v_prediction"; "": it says nothing
  bool zero_terminal_snr = false;  ///< whether the last timestep is noise alone
};
/// Reads it of the tensors "v_pred" and "ztsnr", or else of metadata: ModelSpec's, and for the last timestep our own. A data Error for the
/// noise levels of EDM, and for another prediction: what such models learn is none of the two.
StatedPrediction stated_prediction(const ModelEntry& entry);
/// Returns the metadata that say it of a file that is written; none for epsilon, which is what programs take for granted.
std::map<std::string, std::string> words_of_prediction(bool is_velocity, bool zero_terminal_snr);

}  // namespace burnish::models::stable_diffusion
