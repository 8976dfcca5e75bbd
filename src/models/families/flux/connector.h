#pragma once
#include "io/key_map.h"
#include "nn/block.h"
#include "nn/layers.h"

namespace burnish::models::flux {

/// Makes from a text encoder's states and the time what FLUX.1 reads of a prompt (Step1X-Edit, Liu et al. 2025, arXiv 2504.17761; the
/// tensors are those below "connector." of its file). Shape letters: T tokens, F width of the states, E of texts.
class Connector : public nn::Module {
 public:
  struct Config {
    int64_t num_features = 3584, width = 4096, hidden = 16384, num_blocks = 2, num_heads = 32;
    int64_t pooled_width = 768;
  };
  /// Reads the sizes. Heads are 128 wide; a connector that is narrower has one.
  static Config detect(const io::Shapes& shapes);
  Connector(const Config& config, const at::TensorOptions& options);
  ~Connector() override;

  struct Text {
    at::Tensor text_BTE, pooled_BE;
  };
  /// Takes states [B, T, F]; mask [B, T], 1 for the text's tokens and 0 for what fills it up, which gives tokens as well; sigma [B], fp32.
  Text forward(const at::Tensor& states_BTF, const at::Tensor& mask_BT, const at::Tensor& sigma_B) const;
  const Config& config() const { return config_; }

 private:
  Config config_;
  nn::Linear in_, time_in_, time_out_, text_in_, text_out_, pooled_;
  at::Tensor scale_;  ///< [1]
  std::vector<std::unique_ptr<nn::Block>> blocks_;
};

}  // namespace burnish::models::flux
