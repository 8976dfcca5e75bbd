#pragma once
#include <string>
#include <vector>

#include "masking/decoder.h"
#include "models/model/components.h"
#include "models/parts/clip_towers.h"
#include "models/text/patches.h"

namespace burnish::masking {

/// A model that finds in a picture what a text names: CLIPSeg (Lüddecke and Ecker 2022, arXiv 2112.10003), in the files of
/// CIDAS/clipseg-rd64-refined and the like.
class ClipSeg {
 public:
  /// Finds its parts by file headers; both must outlive this. A data Error where there is none. `processor_path` is the folder of its
  /// preprocessor_config.json, "" for what lies beside the model.
  ClipSeg(const models::ModelFiles& files, const models::ModelOptions& options, const std::string& processor_path);

  /// Returns its parts, which are to be loaded before anything is looked for.
  models::Components& components() { return components_; }

  /// Embeds texts -> [P, C]. What of a text is beyond the encoder's places is cut.
  at::Tensor embed(const std::vector<std::string>& texts);
  /// Looks at a picture, uint8 [H, W, 3] -> how much each pixel of the square that it is scaled to shows each text, as logits, fp32
  /// [P, S, S].
  at::Tensor scores(const at::Tensor& picture_HW3, const at::Tensor& texts_PC);

 private:
  void read_processor(const std::string& processor_path);

  const models::ModelFiles& files_;
  const models::ModelOptions& options_;
  models::Components components_;
  const models::ModelEntry* entry_ = nullptr;
  models::text::ClipConfig text_;
  DecoderConfig decoder_;
  models::text::PixelRule pixels_;  ///< of which colours count
  int64_t side_ = 352;              ///< of the square that pictures are scaled to
  std::unique_ptr<tokenizers::Tokenizer> tokenizer_;
};

}  // namespace burnish::masking
