#pragma once
#include "memory/paging.h"
#include "train/subject/subject.h"

namespace burnish::train {

/// Says why the denoiser's blocks cannot wait in its files while a run computes in `dtype`, as the end of a sentence; "" where they can:
/// their weights are frozen, and held as the files have them.
std::string why_not_on_disk(const Subject& subject, c10::ScalarType dtype);

/// Weights of a component's blocks as its files have them. Nothing is read before it is looked at.
class BlocksInFiles {
 public:
  /// `part` is the loaded part of a component.
  BlocksInFiles(const models::Components& components, const std::string& part);
  /// Returns the weights of the block of this number, by their names in it.
  memory::InFile of(size_t number) const;

 private:
  std::vector<std::string> blocks_;
  std::map<std::string, at::Tensor> weights_;
};

}  // namespace burnish::train
