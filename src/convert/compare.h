#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace burnish::convert {

/// The difference of two tensors of one name, or of what two adapters add to a layer.
struct Difference {
  std::string name;
  double largest = 0;   ///< largest difference of a number
  double relative = 0;  ///< ‖a - b‖ / ‖a‖ (Frobenius); infinity where a is zero and b is not
};

/// The result of comparing two files.
struct Comparison {
  bool by_product = false;  ///< adapters: compared by what they add to each layer
  std::vector<std::string> only_in_a = {}, only_in_b = {};
  std::vector<std::string> other_shapes = {}, other_dtypes = {}, other_metadata = {};  ///< what differs, in words, with both values
  std::vector<Difference> differences = {};  ///< tensors that are not equal, the relatively largest difference first
  int64_t num_equal = 0;                     ///< tensors or layers
  bool equal() const;
};

/// Two files or folders, tensor by tensor in fp64. Two adapters are compared by their products, layer by layer: by the names in their files
/// where those are the same, else by the layers of the model that both are for (model_of).
Comparison compare(const std::string& a, const std::string& b, const std::vector<std::string>& model);

/// Writes a comparison for people: the first `num_shown` of every kind.
std::string text_of(const Comparison& comparison, const std::string& a, const std::string& b, int64_t num_shown);

}  // namespace burnish::convert
