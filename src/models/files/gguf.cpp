#include "models/files/gguf.h"

#include <algorithm>
#include <numeric>

#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"

namespace burnish::models {

namespace {

/// Reads what the files' metadata say under a key; "" for nothing.
std::string said(const io::TensorSource& tensors, const std::string& key) {
  for (const auto& file : tensors.files()) {
    if (auto it = file->metadata().find(key); it != file->metadata().end()) return it->second;
  }
  return "";
}

const std::string kKeptShape = "comfy.gguf.orig_shape.";

int64_t product(const std::vector<int64_t>& shape) { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()); }

/// The shape that the metadata keep of a tensor of so many numbers: of one whose rows would be no whole blocks, or with more sides than
/// GGUF has. Nothing where they keep none.
std::optional<std::vector<int64_t>> kept_shape(const io::TensorSource& tensors, const std::string& name, int64_t num_numbers) {
  const auto original = said(tensors, kKeptShape + name);
  if (original.empty()) return std::nullopt;
  const auto sides = parse_numbers<int64_t>(original);
  int64_t left = num_numbers;
  for (auto side : sides.value_or(std::vector<int64_t>())) left = side > 0 && left % side == 0 ? left / side : 0;
  if (!sides || left != 1)
    data_error("models", "'{}' has {} numbers, which do not make its original shape of {}; the file is damaged", name, num_numbers,
               original);
  return sides;
}

std::vector<int64_t> shape_of(const io::TensorSource& tensors, const std::string& name, const io::TensorInfo& info) {
  const auto& block = code_block(info.codes->kind);
  auto shape = info.shape;
  shape.back() = shape.back() / block.bytes * block.numbers;
  return kept_shape(tensors, name, product(shape)).value_or(shape);
}

/// Tells what a part of a name in llama.cpp is in transformers (gguf-py's tensor_mapping.py).
struct Renamed {
  std::string_view theirs, ours;
};
constexpr Renamed kT5[] = {{"attn_norm", "layer.0.layer_norm"},       {"attn_q", "layer.0.SelfAttention.q"},
                           {"attn_k", "layer.0.SelfAttention.k"},     {"attn_v", "layer.0.SelfAttention.v"},
                           {"attn_o", "layer.0.SelfAttention.o"},     {"attn_rel_b", "layer.0.SelfAttention.relative_attention_bias"},
                           {"ffn_norm", "layer.1.layer_norm"},        {"ffn_gate", "layer.1.DenseReluDense.wi_0"},
                           {"ffn_up", "layer.1.DenseReluDense.wi_1"}, {"ffn_down", "layer.1.DenseReluDense.wo"}};
constexpr Renamed kQwen[] = {{"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
                             {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
                             {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
                             {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
                             {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
                             {"ffn_down", "mlp.down_proj"}};
constexpr Renamed kAroundT5[] = {{"token_embd.weight", "shared.weight"}, {"enc.output_norm.weight", "encoder.final_layer_norm.weight"}};
constexpr Renamed kAroundQwen[] = {
    {"token_embd.weight", "model.embed_tokens.weight"}, {"output_norm.weight", "model.norm.weight"}, {"output.weight", "lm_head.weight"}};

/// "blk.3.attn_q.weight" by a table of what stands after the number; "" for another name.
template <size_t n>
std::string renamed(const std::string& name, std::string_view before, std::string_view ours_before, const Renamed (&table)[n]) {
  if (!name.starts_with(before)) return "";
  const auto dot = name.find('.', before.size()), end = name.rfind('.');
  if (dot == std::string::npos || end <= dot) return "";
  const auto part = std::string_view(name).substr(dot + 1, end - dot - 1);
  const auto* found = std::ranges::find(table, part, &Renamed::theirs);
  if (found == std::end(table)) return "";
  return fmt::format("{}{}.{}{}", ours_before, name.substr(before.size(), dot - before.size()), found->ours, name.substr(end));
}

template <size_t n>
std::string renamed(const std::string& name, const Renamed (&table)[n]) {
  const auto* found = std::ranges::find(table, std::string_view(name), &Renamed::theirs);
  return found == std::end(table) ? "" : std::string(found->ours);
}

std::string name_in_t5(const std::string& name) {
  if (name.starts_with("dec.") || name == "output.weight") return "";  // of the decoder, which no model here runs
  if (auto ours = renamed(name, kAroundT5); !ours.empty()) return ours;
  auto ours = renamed(name, "enc.blk.", "encoder.block.", kT5);
  return ours.empty() ? name : ours;
}

std::string name_in_qwen(const std::string& name) {
  if (auto ours = renamed(name, kAroundQwen); !ours.empty()) return ours;
  auto ours = renamed(name, "blk.", "model.layers.", kQwen);
  return ours.empty() ? name : ours;
}

}  // namespace

std::optional<CodedWeight> find_blocks(const MarkedFiles& files, const std::string& name) {
  const auto& info = files.tensors.info(name);
  if (!info.codes || !code_block(info.codes->kind).holds_scales) return std::nullopt;
  const auto shape = shape_of(files.tensors, name, info);
  const auto kind = info.codes->kind;
  const auto numbers = product(shape);
  const bool is_flat = numbers / shape[0] % code_block(kind).numbers != 0;
  const auto layout = codes_on_meta(kind, is_flat ? std::vector{int64_t{1}, numbers} : shape);
  return CodedWeight{.shape = shape, .layout = layout, .read = [name, rows = layout.num_rows()](const io::TensorSource& tensors) {
                       return CodeTensors{tensors.tensor(name).reshape({rows, -1})};
                     }};
}

namespace {

/// Numbers in the shape that the metadata keep of them.
class InKeptShape final : public io::TensorFile {
 public:
  explicit InKeptShape(const io::TensorSource& tensors) : tensors_(tensors) {
    for (const auto& file : tensors.files()) {
      for (const auto& [key, _] : file->metadata()) {
        const auto name = key.starts_with(kKeptShape) ? key.substr(kKeptShape.size()) : std::string();
        if (name.empty() || !tensors.contains(name) || tensors.info(name).codes) continue;
        auto& info = infos_[name] = tensors.info(name);
        info.shape = *kept_shape(tensors, name, product(info.shape));
      }
    }
  }
  const std::map<std::string, io::TensorInfo>& tensors() const override { return infos_; }
  const std::map<std::string, std::string>& metadata() const override { return tensors_.metadata(); }
  const std::filesystem::path& path() const override { return tensors_.files().front()->path(); }
  at::Tensor tensor(const std::string& name) override { return tensors_.tensor(name).view(infos_.at(name).shape); }
  void release(const std::string& name) const override { tensors_.release(name); }

 private:
  io::TensorSource tensors_;
  std::map<std::string, io::TensorInfo> infos_;
};

/// Queries and keys whose rows llama.cpp wrote in another order, so that numbers which rotate together are neighbours: in their own.
class RowsInOrder final : public io::TensorFile {
 public:
  RowsInOrder(const io::TensorSource& tensors, const std::string& architecture) : tensors_(tensors) {
    for (const auto& name : tensors.names()) {
      const bool is_query = name.ends_with(".self_attn.q_proj.weight");
      if (!is_query && !name.ends_with(".self_attn.k_proj.weight")) continue;
      const auto key = architecture + (is_query ? ".attention.head_count" : ".attention.head_count_kv");
      const auto heads = parse_number<int64_t>(said(tensors, key)).value_or(0);
      const auto& info = tensors.info(name);
      if (heads < 1 || info.shape.size() != 2 || info.shape[0] % (2 * heads) != 0)
        data_error("models", "'{}' has not rows for each of the {} heads that '{}' says; the file is damaged", name, heads, key);
      infos_[name] = info;
      heads_[name] = heads;
    }
  }
  const std::map<std::string, io::TensorInfo>& tensors() const override { return infos_; }
  const std::map<std::string, std::string>& metadata() const override { return tensors_.metadata(); }
  const std::filesystem::path& path() const override { return tensors_.files().front()->path(); }
  at::Tensor tensor(const std::string& name) override {
    const auto rows = tensors_.tensor(name);
    return rows.view({heads_.at(name), -1, 2, rows.size(1)}).transpose(1, 2).reshape(rows.sizes());
  }
  void release(const std::string& name) const override { tensors_.release(name); }

 private:
  io::TensorSource tensors_;
  std::map<std::string, io::TensorInfo> infos_;
  std::map<std::string, int64_t> heads_;
};

}  // namespace

io::TensorSource in_known_names(const io::TensorSource& given) {
  const auto kept = std::make_shared<InKeptShape>(given);
  const auto tensors = kept->tensors().empty() ? given : given.seen_through(kept, {});
  const auto architecture = said(tensors, "general.architecture");
  if (architecture == "llama" || architecture == "mistral3") {
    const auto renamed = tensors.renamed(name_in_qwen);
    return renamed.seen_through(std::make_shared<RowsInOrder>(renamed, architecture), {});
  }
  if (architecture == "t5" || architecture == "t5encoder") return tensors.renamed(name_in_t5);
  if (architecture.starts_with("qwen2") || architecture.starts_with("qwen3")) return tensors.renamed(name_in_qwen);
  return tensors;
}

}  // namespace burnish::models
