#include "io/safetensors.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/input_error.h"
#include "io/hash.h"

namespace burnish::io {

namespace {
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
}  // namespace

std::shared_ptr<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  std::shared_ptr<SafetensorsFile> opened(new SafetensorsFile);
  opened->path_ = path;
  opened->mapping_ = Mapping::open(path, 8, "safetensors");
  const auto bytes = opened->mapping_->bytes();
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - 8) {
    data_error("io", "{}: claims a header of {} bytes in a file of {}; it is truncated or not a safetensors file", path.string(),
               header_bytes, bytes.size());
  }
  opened->data_offset_ = 8 + header_bytes;
  opened->header_ = parse_header(bytes.substr(8, header_bytes), bytes.size() - opened->data_offset_, path.string());
  return opened;
}

at::Tensor SafetensorsFile::tensor(const std::string& name) {
  auto it = header_.tensors.find(name);
  if (it == header_.tensors.end()) data_error("io", "{} holds no tensor '{}'", path_.string(), name);
  const auto& info = it->second;
  return mapping_->tensor(data_offset_ + info.begin, data_offset_ + info.end, info.shape, info.dtype);
}

void SafetensorsFile::release(const std::string& name) const {
  auto it = header_.tensors.find(name);
  if (it != header_.tensors.end()) mapping_->release(data_offset_ + it->second.begin, data_offset_ + it->second.end);
}

void prefetch(const at::Tensor& tensor) {
  auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  auto first = begin / page * page;
  ::madvise(reinterpret_cast<void*>(first), begin + tensor.nbytes() - first, MADV_WILLNEED);  // advice: whether it is taken is no matter
}

uint64_t TensorSpec::num_bytes() const {
  uint64_t count = c10::elementSize(dtype);
  for (auto side : shape) count *= static_cast<uint64_t>(side);
  return count;
}

namespace {

/// Returns what sorts tensors in a file. Widest elements first, then by name, as the reference writer does: every tensor stays aligned.
std::pair<int64_t, std::string_view> place_of(c10::ScalarType dtype, const std::string& name) {
  return {-static_cast<int64_t>(c10::elementSize(dtype)), name};
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorSpec>& specs, const Metadata& metadata)
    : file_(path) {
  std::vector<const TensorSpec*> order;
  for (const auto& spec : specs) order.push_back(&spec);
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return place_of(a->dtype, a->name) < place_of(b->dtype, b->name); });

  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t at_byte = 0;
  for (const auto* spec : order) {
    if (!places_.emplace(spec->name, ReservedBytes{*spec, at_byte}).second)
      data_error("io", "cannot save {}: two tensors are named '{}'", path.string(), spec->name);
    auto end = at_byte + spec->num_bytes();
    header[spec->name] = {{"dtype", safetensors_dtype(spec->dtype)}, {"shape", spec->shape}, {"data_offsets", {at_byte, end}}};
    at_byte = end;
  }
  // Text that is not UTF-8 (a path in the metadata, say) must not cost the weights: its bad bytes are replaced.
  auto text = header.empty() ? std::string("{}") : header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t length = text.size();
  for (auto& [name, place] : places_) place.begin += 8 + length;
  file_.write(&length, 8);
  file_.write(text.data(), text.size());
}

void SafetensorsWriter::write(const std::string& name, const at::Tensor& tensor) {
  auto it = places_.find(name);
  if (it == places_.end() || it->second.written) throw std::logic_error("the tensor " + name + " is written twice, or was not announced");
  auto& place = it->second;
  if (tensor.scalar_type() != place.spec.dtype || tensor.sizes() != at::IntArrayRef(place.spec.shape))
    throw std::logic_error("the tensor " + name + " is not what was announced");
  auto plain = tensor.detach().cpu().contiguous();
  file_.write_at(place.begin, plain.const_data_ptr(), plain.nbytes());
  place.written = true;
}

void SafetensorsWriter::commit() {
  for (const auto& [name, place] : places_) {
    if (!place.written) throw std::logic_error("the tensor " + name + " was announced and not written");
  }
  file_.commit();
}

std::string tensors_sha256(const NamedTensors& tensors) {
  auto order = tensors;
  std::ranges::sort(order, {}, [](const auto& named) { return place_of(named.second.scalar_type(), named.first); });
  Sha256 sum;
  for (const auto& [name, tensor] : order) {
    const auto plain = tensor.detach().cpu().contiguous();
    sum.update({static_cast<const char*>(plain.const_data_ptr()), plain.nbytes()});
  }
  return sum.hex();
}

void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors, const Metadata& metadata) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) specs.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  SafetensorsWriter writer(path, specs, metadata);
  for (const auto& [name, tensor] : tensors) writer.write(name, tensor);
  writer.commit();
}

}  // namespace burnish::io
