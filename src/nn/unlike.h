#pragma once
#include <string>

namespace burnish::nn {

/// A module that may take other memory than one of the same class with the same tensors, such as attention over a window. A dry run takes
/// blocks for alike by classes and tensors, and by this.
class Unlike {
 public:
  virtual ~Unlike() = default;
  /// Returns the same for modules that take the same.
  virtual std::string differs_by() const = 0;
};

}  // namespace burnish::nn
