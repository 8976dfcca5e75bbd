#pragma once
#include <map>

#include "nn/module.h"
#include "optim/value_store.h"
#include "quant/quantized_weight.h"

namespace burnish::quant {

/// The codes of a weight that trains, as an optimizer reads and writes them: E4M3 with one scale for each output row, a power of two.
///
/// Written values are rounded stochastically, and what is written is right on average whatever the scale is, because rows are read and
/// updated in fp32 and their scale is settled before they are rounded. Powers of two make code · scale and value / scale exact, so a number
/// that was not updated is its code again. A row's scale changes when its largest magnitude leaves [112, 448] · scale, and then so that it
/// lies in (224, 448]: the half between 112 and 224 keeps a row from going back and forth, each time losing bits of its smallest numbers.
class TrainedCodes final : public optim::ValueStore {
 public:
  /// Shares storage with the weight that a source multiplies with.
  explicit TrainedCodes(QuantizedWeight weight) : weight_(std::move(weight)) {}
  int64_t granule() const override { return weight_.in; }
  void read(int64_t begin, const at::Tensor& exact) const override;
  void write(int64_t begin, at::Tensor exact, std::optional<uint64_t> key) override;
  optim::StateList state() const override { return {{".codes", weight_.codes}, {".scales", weight_.scales}}; }

 private:
  QuantizedWeight weight_;
};

/// A weight for TrainedCodes, rounded to nearest; read tile by tile. NaN or infinity is a data Error that names the weight.
QuantizedWeight quantize_to_train(const nn::WeightSource::Rows& rows, int64_t out, int64_t in, c10::Device device, const std::string& name);

/// The stores of all weights below `root` that train as codes, by the paths of their parameters.
std::map<std::string, std::shared_ptr<optim::ValueStore>> trained_codes(nn::Module& root);

}  // namespace burnish::quant
