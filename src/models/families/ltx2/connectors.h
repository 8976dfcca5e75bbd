#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/families/ltx2/connector_config.h"
#include "nn/block.h"
#include "nn/linear.h"

// Shape letters: B texts, L tokens of a text, C width of the text encoder's states, S their number, N tokens that the transformer reads of
// a text, D width of what a stream reads.
namespace burnish::models::ltx2 {

/// Makes of a text encoder's states what the transformer's streams read of a text (diffusers: LTX2TextConnectors, whose parameter names
/// these are). It has two parts: the projection of all states of a token, whose features a cache keeps, and two connectors, one for each
/// stream, which put learned tokens behind a text's own and let all see each other.
class Connectors : public nn::Module {
 public:
  enum class Part { whole, projection, body };
  /// Returns the part of a component's name: "connectors", "connectors.projection" or "connectors.body".
  static Part part_of(const std::string& name);
  static std::vector<std::string> parts() { return {"connectors.projection", "connectors.body"}; }

  Connectors(const ConnectorsConfig& config, const at::TensorOptions& options, Part part = Part::whole);
  ~Connectors() override;

  /// Sums up the features of texts of one length over states that come one after the other, so that few of them are in memory. It refers to
  /// the connectors, whose projection it reads.
  class Features {
   public:
    explicit Features(const Connectors& connectors) : of_(connectors) {}
    /// Adds the next state [B, L, C], from the embedding on.
    void add(const at::Tensor& state_BLC);
    /// Returns, when all states were added, the features of frames and of sound [B, L, D], or of LTX-2.0 one tensor [B, L, C] for both, in
    /// the states' dtype.
    nn::Tensors take();

   private:
    void project();

    const Connectors& of_;
    nn::Tensors waiting_;  ///< normed states that are not projected yet
    int64_t num_projected_ = 0;
    nn::Tensors sums_;  ///< fp32
    std::optional<at::ScalarType> dtype_;
  };

  /// Makes of features [B, L, D] of frames and of sound, which of LTX-2.0 are the same, and a mask [B, L], 1 for a text's tokens and behind
  /// them 0, what the streams read: `num_tokens` of each [B, N, D].
  nn::Tensors forward(const at::Tensor& frames_BLD, const at::Tensor& sound_BLD, const at::Tensor& mask_BL, int64_t num_tokens) const;
  const ConnectorsConfig& config() const { return config_; }

 private:
  class Connector;

  ConnectorsConfig config_;
  std::vector<std::unique_ptr<nn::Linear>> projections_;
  std::unique_ptr<Connector> frames_, sound_;
};

}  // namespace burnish::models::ltx2
