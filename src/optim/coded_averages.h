#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/block_codes/block_codes.h"
#include "optim/update_rule.h"

namespace burnish::optim {

/// Averages that a rule keeps as codes of dynamic_map (optim/rules.h), with one scale for each block of 256 elements.
class CodedAverages {
 public:
  static constexpr int64_t kBlock = 256;

  /// The values of codes and the halves between them, on one device.
  struct Map {
    at::Tensor values, borders;
    kernels::BlockCodes on_cpu;
  };

  /// Makes the slots of an average of zeros, "<name>.codes" and "<name>.scales", behind those of `list`.
  static void add_slots(const std::string& name, const NamedParameter& parameter, std::vector<Slot>& list);

  /// Returns the map of averages with a sign, or of those that are never negative, on a device.
  const Map& map(const at::Device& device, bool is_signed);
  /// Returns the average, flat and fp32.
  static at::Tensor decode(const Map& map, const at::Tensor& codes, const at::Tensor& scales);
  /// Rounds an average, flat and fp32, into its codes and scales.
  static void encode(const Map& map, const at::Tensor& exact, const at::Tensor& codes, const at::Tensor& scales);

 private:
  std::map<std::pair<std::string, bool>, Map> maps_;
};

}  // namespace burnish::optim
