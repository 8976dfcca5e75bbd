#include "models/files/coded_weights.h"

#include <utility>

#include "models/files/bitsandbytes.h"
#include "models/files/comfy_weights.h"
#include "models/files/files.h"
#include "models/files/gguf.h"
#include "models/files/grouped_codes.h"
#include "models/files/tensor_subclasses.h"

namespace burnish::models {

namespace {

constexpr Coding kCodings[] = {find_row_scaled, find_fp8,     find_int8,      find_mxfp8,        find_nvfp4, find_unmarked_nvfp4,
                               find_int4,       find_grouped, find_four_bits, find_rows_of_int8, find_blocks};

/// Where tensors lie, for messages: their file, or the folder of several.
std::string place_of(const io::TensorSource& tensors) {
  const auto& first = tensors.files().front()->path();
  return (tensors.files().size() == 1 ? first : first.parent_path()).string();
}

/// Weights that lie as codes, shown as numbers. It reads from the tensors that it shows.
class Shown final : public io::TensorFile {
 public:
  Shown(const io::TensorSource& tensors, std::map<std::string, CodedWeight> weights) : tensors_(tensors), weights_(std::move(weights)) {
    for (const auto& [name, weight] : weights_) {
      auto info = tensors.info(name);
      for (const auto& other : weight.beside) info.end += tensors.info(other).end - tensors.info(other).begin;
      info.dtype = weight.has_rows() ? at::kFloat : at::kBFloat16;
      info.shape = weight.shape;
      info.codes = weight.has_rows() ? std::optional(weight.layout) : std::nullopt;
      infos_[name] = info;
    }
  }
  const std::map<std::string, io::TensorInfo>& tensors() const override { return infos_; }
  const std::map<std::string, std::string>& metadata() const override { return tensors_.metadata(); }
  const std::filesystem::path& path() const override { return tensors_.files().front()->path(); }
  at::Tensor tensor(const std::string& name) override {
    const auto& weight = weights_.at(name);
    return numbers_of(read(name)).reshape(weight.shape).to(infos_.at(name).dtype);
  }
  std::optional<Codes> codes(const std::string& name) override {
    return weights_.at(name).has_rows() ? std::optional(read(name)) : std::nullopt;
  }
  void release(const std::string& name) const override {
    tensors_.release(name);
    for (const auto& other : weights_.at(name).beside) tensors_.release(other);
  }

 private:
  Codes read(const std::string& name) const {
    return naming(place_of(tensors_), [&] { return weights_.at(name).codes_in(tensors_); });
  }

  io::TensorSource tensors_;
  std::map<std::string, CodedWeight> weights_;
  std::map<std::string, io::TensorInfo> infos_;
};

/// Tells whether a tensor says something of a weight that is read, or of the whole file, and is none itself.
bool goes_with_weights(const io::TensorSource& tensors, const std::map<std::string, CodedWeight>& coded, const std::string& name) {
  if (!is_scale_or_mark(name)) return false;
  const auto weight = name.substr(0, name.rfind('.') + 1) + "weight";
  return coded.contains(weight) || !tensors.contains(weight) || c10::isFloatingType(tensors.info(weight).dtype);
}

}  // namespace

namespace {

io::TensorSource shown(const io::TensorSource& given) {
  const auto tensors = with_weights_names(in_known_names(given));
  MarkedFiles files(tensors);
  std::map<std::string, CodedWeight> coded;
  std::vector<std::string> hidden;
  for (const auto& name : tensors.names()) {
    for (const auto find : kCodings) {
      auto weight = find(files, name);
      if (!weight) continue;
      hidden.insert(hidden.end(), weight->beside.begin(), weight->beside.end());
      coded.emplace(name, std::move(*weight));
      break;
    }
  }
  for (const auto& name : tensors.names()) {
    if (goes_with_weights(tensors, coded, name)) hidden.push_back(name);
  }
  if (coded.empty() && hidden.empty()) return tensors;
  return tensors.seen_through(std::make_shared<Shown>(tensors, std::move(coded)), hidden);
}

}  // namespace

io::TensorSource show_weights(const io::TensorSource& given) {
  return naming(place_of(given), [&] { return shown(given); });
}

}  // namespace burnish::models
