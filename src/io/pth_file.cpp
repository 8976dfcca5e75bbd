#include "io/pth_file.h"

#include "base/input_error.h"
#include "io/gguf_file.h"
#include "io/safetensors.h"

namespace burnish::io {

std::shared_ptr<TensorFile> open_tensor_file(const std::filesystem::path& path) {
  if (path.extension() == ".safetensors") return SafetensorsFile::open(path);
  if (path.extension() == ".gguf") return GgufFile::open(path);
  return PthFile::open(path);
}

bool is_tensor_file(const std::filesystem::path& path) {
  auto ending = path.extension();
  return ending == ".safetensors" || ending == ".gguf" || ending == ".pth" || ending == ".pt" || ending == ".bin" || ending == ".ckpt";
}

std::shared_ptr<PthFile> PthFile::open(const std::filesystem::path& path) {
  std::shared_ptr<PthFile> opened(new PthFile);
  opened->path_ = path;
  opened->mapping_ = Mapping::open(path, 4, "torch");
  opened->header_ = PthHeader::parse(opened->mapping_->bytes(), path.string());
  opened->find_tensors();
  return opened;
}

void PthFile::find_tensors() {
  const auto* table = &header_.root();
  for (const char* key : {"state_dict", "model", "module", "params_ema", "params"}) {
    const auto* inner = header_.root().get(key);
    if (inner && inner->kind == PickleValue::Kind::dict) {
      table = inner;
      break;
    }
  }
  find_tensors(*table, "");
}

/// The parameters of a module that holds nothing else, as a dictionary; other values are themselves.
static const PickleValue& parameters_of(const PickleValue& value) {
  const auto* state = value.is_made_by(kParameterDict) ? value.state : nullptr;
  const auto* parameters = state == nullptr ? nullptr : state->get("_parameters");
  return parameters == nullptr ? value : *parameters;
}

void PthFile::find_tensors(const PickleValue& table, const std::string& prefix) {
  for (size_t i = 0; table.kind == PickleValue::Kind::dict && i + 1 < table.items.size(); i += 2) {
    const auto &key = *table.items[i], &value = *table.items[i + 1];
    if (key.kind != PickleValue::Kind::text) continue;
    auto name = prefix + key.text;
    if (PthHeader::is_tensor(value)) {
      auto place = header_.tensor(value);
      named_[name] = &value;
      infos_[name] = {place.dtype, place.shape, place.begin, place.end};
    } else if (prefix.empty()) {
      find_tensors(parameters_of(value), name + ".");
    }
  }
}

at::Tensor PthFile::tensor(const PickleValue& value) {
  auto place = header_.tensor(value);
  return mapping_->tensor(place.begin, place.end, place.shape, place.dtype, at::IntArrayRef(place.strides));
}

at::Tensor PthFile::tensor(const std::string& name) {
  auto it = named_.find(name);
  if (it == named_.end()) data_error("io", "{} holds no tensor '{}'", path_.string(), name);
  return tensor(*it->second);
}

void PthFile::release(const std::string& name) const {
  const auto& info = infos_.at(name);
  mapping_->release(info.begin, info.end);
}

}  // namespace burnish::io
