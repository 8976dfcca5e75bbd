#include "convert/convert.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "base/dtype.h"
#include "base/input_error.h"
#include "convert/embedding.h"
#include "convert/lora.h"
#include "convert/lora_format.h"
#include "convert/model.h"
#include "convert/model_of_lora.h"

namespace burnish::convert {

namespace {

namespace fs = std::filesystem;

void check_words(const Options& o) {
  parse_lora_format(o.lora_format);
  if (o.dtype != "keep") parse_dtype(o.dtype);
}

void check_paths(const Options& o) {
  if (o.paths.size() < 2) config_error("convert", "name what is read and what is written: burnish convert INPUT OUTPUT");
  const fs::path out = o.paths.back();
  check_free(o, out);
  std::error_code ignored;
  for (size_t i = 0; i + 1 < o.paths.size(); ++i) {
    if (fs::equivalent(o.paths[i], out, ignored))
      config_error("convert", "{} is read and written; name another file to write", out.string());
  }
}

/// Readers tell what a file is by the ending of its name.
void check_lora_name(const Options& o) {
  const fs::path out = o.paths.back();
  bool is_file = out.extension() == ".safetensors", wants_folder = parse_lora_format(o.lora_format) == LoraFormat::peft;
  if (wants_folder && is_file)
    config_error("convert", "--lora_format peft writes a folder, and {} is named like a file; leave .safetensors out", out.string());
  if (!wants_folder && !is_file)
    config_error("convert", "a LoRA is written into one file; name it {}.safetensors", fs::path(out).replace_extension().string());
}

/// Options that were given and say nothing about what is done.
void refuse(const std::string& what, std::initializer_list<std::pair<const char*, bool>> given) {
  for (const auto& [name, is_given] : given) {
    if (is_given) config_error("convert", "--{} has no meaning where {}; take it out", name, what);
  }
}

std::string text_of(const LoraReport& report) {
  auto text = fmt::format("{}: {} layers", report.path, report.num_layers);
  if (report.num_widened > 0) text += fmt::format("; {} padded to the rank that is asked for, adding what they added", report.num_widened);
  if (report.num_changed == 0) return text;
  return text + fmt::format("; {} by SVD, relative error {:.3g} (median) to {:.3g} ({})", report.num_changed, report.median_error,
                            report.largest_error, report.worst_layer);
}

}  // namespace

std::string convert(const Options& o) {
  check_words(o);
  check_paths(o);
  const Options plain;
  if (!o.embedding_format.empty() || is_embedding(o.paths[0])) {
    refuse("vectors of a word are written", {{"a second input", o.paths.size() > 2}, {"lora", !o.lora.empty()}, {"base", !o.base.empty()}});
    auto words = o;
    if (words.embedding_format.empty()) words.embedding_format = "a1111";
    return convert_embedding(words);
  }
  auto reads_lora = [](const std::string& text) { return is_lora(loras::parse_lora_file(text).path); };
  bool from_lora = reads_lora(o.paths[0]), to_lora = from_lora || !o.base.empty();
  if (to_lora) {
    refuse("a LoRA is written",
           {{"weight_format", o.weight_format != plain.weight_format}, {"config_from", !o.config_from.empty()}, {"lora", !o.lora.empty()}});
    auto no_lora = std::find_if_not(o.paths.begin(), o.paths.end() - 1, reads_lora);
    if (from_lora) refuse("a LoRA is read", {{"base", !o.base.empty()}, {"a second input", no_lora != o.paths.end() - 1}});
    else refuse("a LoRA is extracted", {{"model", !o.model.empty()}, {"lora_type", o.lora_type != plain.lora_type}});
    if (!from_lora && o.lora_rank == 0 && o.lora_energy == 0)
      config_error("convert", "say how large the LoRA may become: --lora_rank, or --lora_energy with the share to keep");
    check_lora_name(o);
    return text_of(from_lora ? convert_lora(o) : extract_lora(o));
  }
  for (size_t i = 1; i + 1 < o.paths.size(); ++i) {
    if (reads_lora(o.paths[i]))
      config_error("convert", "{} is a LoRA, and what is read with a model are its parts; merge it with --lora {}", o.paths[i], o.paths[i]);
  }
  refuse("a model is written", {{"lora_format", o.lora_format != plain.lora_format},
                                {"lora_rank", o.lora_rank != 0},
                                {"lora_energy", o.lora_energy != 0},
                                {"lora_type", o.lora_type != plain.lora_type},
                                {"lora_base_model", !o.lora_base_model.empty()},
                                {"model", !o.model.empty()}});
  return convert_model(o);
}

}  // namespace burnish::convert
