#include "train/step/blocks_on_disk.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/dtype.h"
#include "models/model/components.h"
#include "models/model/model.h"

namespace burnish::train {

namespace {

/// Returns what the file has of a tensor: its codes, where it has some, or its numbers.
at::Tensor bytes_in(const io::TensorSource& tensors, const std::string& name) {
  auto codes = tensors.info(name).codes ? tensors.codes(name) : std::nullopt;
  return codes ? codes->codes : tensors.tensor(name);
}

/// The mapped tensors of a source under our names, where their bytes are what the file has side by side.
std::map<std::string, at::Tensor> mapped(const models::Source& source, const io::Shapes& wanted) {
  using Op = io::KeyRule::Op;
  std::map<std::string, at::Tensor> all;
  for (const auto& theirs : source.tensors->names()) {
    const auto match = source.keys.to_ours(theirs);
    if (match.op != Op::copy && match.op != Op::reshape && match.op != Op::stack_rows) continue;
    auto whole = bytes_in(*source.tensors, theirs);
    if (whole.const_data_ptr() != bytes_in(*source.tensors, theirs).const_data_ptr()) continue;  // a copy, where the file does not align it
    int64_t row = 0;
    for (const auto& ours : match.ours) {
      const auto found = wanted.find(ours);
      if (found == wanted.end()) continue;
      const auto rows = match.ours.size() > 1 ? found->second[0] : whole.size(0);
      if (row + rows <= whole.size(0)) all[ours] = whole.narrow(0, row, rows);
      row += rows;
    }
  }
  return all;
}

}  // namespace

namespace {

std::string why_not_on_disk(const Subject& subject, const std::string& denoiser, c10::ScalarType dtype) {
  const auto& components = subject.model->components();
  if (subject.chosen.whole_components().contains(denoiser)) return fmt::format("{} trains whole", denoiser);
  if (components.holding(denoiser).merge) return fmt::format("LoRAs are merged into {}", denoiser);
  const auto& tensors = components.source(denoiser).tensors;
  if (!tensors) return fmt::format("{} comes from no file", denoiser);
  const auto listed = components.list();
  const auto component = std::ranges::find(listed, denoiser, &models::Component::name);
  const bool holds_codes = component != listed.end() && component->num_stored > 0;
  bool has_codes = false;
  for (const auto& name : tensors->names()) {
    const auto& info = tensors->info(name);
    if (info.shape.size() < 2) continue;
    has_codes = has_codes || info.codes;
    if (info.codes ? !holds_codes : info.dtype != dtype)
      return fmt::format("the file of {} has '{}' in {}, and the run holds it in {}", denoiser, name, io::numbers_name(info),
                         dtype_name(dtype));
  }
  if (holds_codes && !has_codes) return fmt::format("the file of {} has no codes, and the run holds it in codes", denoiser);
  return "";
}

}  // namespace

std::string why_not_on_disk(const Subject& subject, c10::ScalarType dtype) {
  std::string why;
  for (const auto& expert : subject.chosen.experts) {
    if (why.empty()) why = why_not_on_disk(subject, expert.component, dtype);
  }
  return why;
}

BlocksInFiles::BlocksInFiles(const models::Components& components, const std::string& part) {
  const auto tree = components.skeleton(part);
  const auto& recipe = *components.find(part);
  std::map<const nn::Module*, std::string> names;
  tree->visit([&](const std::string& path, nn::Module& module) { names[&module] = path; });
  for (const auto* block : recipe.blocks ? recipe.blocks(*tree) : nn::blocks_below(*tree)) blocks_.push_back(names.at(block));
  if (const auto& source = components.source(part); source.tensors && !source.entry->is_sizes)
    weights_ = mapped(source, models::shapes_of(*tree));
}

memory::InFile BlocksInFiles::of(size_t number) const {
  return [this, block = blocks_.at(number)](const std::string& name) {
    const auto found = weights_.find(block + "." + name);
    return found == weights_.end() ? at::Tensor() : found->second;
  };
}

}  // namespace burnish::train
