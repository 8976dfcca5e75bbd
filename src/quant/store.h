#pragma once
#include <functional>
#include <optional>

#include "nn/weight_source.h"
#include "quant/format.h"

namespace burnish::quant {

class QuantizedSource;
struct QuantizedWeight;

struct StoreOptions {
  std::optional<Format> format;             ///< nothing keeps what the file has: codes stay codes, the rest stays parameters
  std::vector<std::string> high_precision;  ///< regular expressions for whole layer paths whose weights stay parameters
  bool fp8_compute = false;                 ///< products of FP8 by FP8 numbers, MXFP8 too
  bool int8_compute = false;                ///< products of INT8 by INT8 numbers
  bool fp4_compute = false;                 ///< products of NVFP4 by NVFP4 numbers
  /// Weights at or below these paths train: they are held as E4M3 codes that an optimizer can write, whatever `format` says.
  std::vector<std::string> trained = {};
  c10::ScalarType gradient_dtype = c10::ScalarType::BFloat16;  ///< dtype of the gradients of trained weights
};

/// Stores the weights of a model's linear layers and convolutions as they are read. A weight that the file already has as codes is taken as
/// it is. Where it was changed since, FP8 becomes E4M3 with a scale an output row, and other codes INT8 with a scale an output row, whose
/// rounding is small beside theirs, of rotated rows where theirs were.
class Store : public nn::WeightStore {
 public:
  /// Throws a config Error for a bad regular expression or a format that fp8_compute or int8_compute cannot multiply.
  explicit Store(const StoreOptions& options);
  std::shared_ptr<nn::WeightSource> store(const std::string& name, const nn::FileWeight& weight, c10::Device device) override;
  std::string settings() const override;
  int64_t num_bytes(const std::string& name, const nn::FileWeight& weight) const override;

 private:
  bool stays(const std::string& name) const;
  bool trains(const std::string& name) const;
  /// The format in which a weight is held; nothing for a parameter.
  std::optional<Format> format_for(const std::string& name, const nn::FileWeight& weight) const;
  /// A source that multiplies as the options say.
  std::shared_ptr<QuantizedSource> source_of(const QuantizedWeight& weight, bool is_matrix) const;
  StoreOptions options_;
  std::function<bool(const std::string& layer)> is_high_precision_;
};

}  // namespace burnish::quant
