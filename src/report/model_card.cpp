#include "report/model_card.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "base/text.h"
#include "io/files.h"
#include "io/output_file.h"
#include "records/previews.h"
#include "report/preview_text.h"

namespace burnish::report {

namespace fs = std::filesystem;

namespace {

/// The name that diffusers looks for in a folder that it is given without the name of a file.
constexpr const char* kDiffusersName = "pytorch_lora_weights.safetensors";
constexpr const char* kReadme = "README.md";
/// A line by which a card is known again.
constexpr const char* kMark = "library_name: diffusers";

/// A text as YAML: JSON's strings are YAML's.
std::string quoted(const std::string& text) { return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

struct SampleFile {
  std::string name, prompt;
};

/// The previews of a run's last step that show what its file does as it is, copied into the folder: none that were drawn at other
/// strengths. Of a clip drawn as a folder of frames the first one is shown.
std::vector<SampleFile> copy_samples(const fs::path& run, const fs::path& folder, size_t most) {
  auto previews = records::find_previews(run);
  if (previews.empty() || most == 0) return {};
  const auto last = previews.back().step;
  std::erase_if(previews, [&](const auto& preview) { return preview.step != last; });
  fs::create_directories(folder / "samples");
  std::vector<SampleFile> samples;
  for (const auto& preview : previews) {
    auto path = records::preview_path(run, preview.step, preview.number, preview.kind);
    if (preview.kind == records::PreviewKind::frames) {
      const auto frames = records::preview_frames(path);
      if (frames.empty()) continue;
      path = frames.front();
    }
    auto text = preview_text(preview.kind, path);
    if (text.contains("strength")) continue;
    if (samples.size() == most) break;
    auto name = fmt::format("samples/{:02}{}", preview.number, path.extension().string());
    fs::copy_file(path, folder / name);
    samples.push_back({name, text["prompt"]});
  }
  return samples;
}

std::vector<std::string> copy_weights(const ModelCard& card, const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& path : card.weights) {
    names.push_back(card.for_diffusers && card.weights.size() == 1 ? kDiffusersName : path.filename().string());
    fs::copy_file(path, folder / names.back());
  }
  for (const auto& [word, path] : card.words) fs::copy_file(path, folder / path.filename());
  return names;
}

std::string front_matter(const ModelCard& card, const std::vector<SampleFile>& samples) {
  std::string text = "---\ntags:\n";
  std::vector<std::string> tags{card.pipeline_tag, card.kind, "diffusers", "template:sd-lora", "burnish"};
  tags.insert(tags.end(), card.tags.begin(), card.tags.end());
  for (const auto& tag : tags) text += fmt::format("- {}\n", quoted(tag));
  if (!card.base_id.empty()) text += fmt::format("base_model: {}\nbase_model_relation: adapter\n", quoted(card.base_id));
  if (!card.trigger.empty()) text += fmt::format("instance_prompt: {}\n", quoted(card.trigger));
  if (!card.license_link.empty())
    text += fmt::format("license: other\nlicense_name: {}\nlicense_link: {}\n", quoted(card.license), quoted(card.license_link));
  else if (!card.license.empty()) text += fmt::format("license: {}\n", quoted(card.license));
  if (!samples.empty()) text += "widget:\n";
  for (const auto& sample : samples)
    text += fmt::format("- text: {}\n  output:\n    url: {}\n", quoted(sample.prompt.empty() ? "-" : sample.prompt), quoted(sample.name));
  return text + fmt::format("pipeline_tag: {}\n{}\n---\n\n", card.pipeline_tag, kMark);
}

/// Which file a word of prompts is in, and how programs take it.
std::string table_of_words(const ModelCard& card) {
  if (card.words.empty()) return "";
  std::string text =
      "\n## Words\n\nThese words of a prompt have vectors of their own. ComfyUI takes a file from `models/embeddings`, and a prompt names "
      "it `embedding:` and the file; AUTOMATIC1111 takes it from `embeddings`, called as the word.\n\n| word | file |\n|---|---|\n";
  for (const auto& [word, path] : card.words) text += fmt::format("| `{}` | `{}` |\n", word, path.filename().string());
  return text;
}

/// Returns how diffusers and ComfyUI take the weights.
std::string ways_to_use(const ModelCard& card, const std::vector<std::string>& weights) {
  if (weights.empty()) return "";
  std::string text = "## Use it\n\n";
  if (card.for_diffusers) {
    text +=
        "In diffusers, where `REPOSITORY` is the id of this model or its folder:\n\n```python\nimport torch\nfrom diffusers import "
        "DiffusionPipeline\n\n";
    text += fmt::format("pipe = DiffusionPipeline.from_pretrained({}, torch_dtype=torch.bfloat16)\npipe.enable_model_cpu_offload()\n",
                        quoted(card.base_id.empty() ? "BASE_MODEL" : card.base_id));
    for (const auto& name : weights) text += fmt::format("pipe.load_lora_weights(\"REPOSITORY\", weight_name={})\n", quoted(name));
    text += "```\n\n";
  }
  return text + fmt::format("In ComfyUI, put {} into `models/loras`, and load {} with *Load LoRA*.\n",
                            weights.size() == 1 ? "`" + weights.front() + "`" : "the files of weights",
                            weights.size() == 1 ? "it" : "them");
}

std::string title_of(const std::string& kind) {
  if (kind == "lora") return "A LoRA";
  return kind == "textual_inversion" ? "Textual inversion" : "A " + kind;
}

std::string readme(const ModelCard& card, const std::vector<std::string>& weights, const std::vector<SampleFile>& samples) {
  auto text = front_matter(card, samples) + fmt::format("# {}\n\n", card.title);
  if (!samples.empty()) text += "<Gallery />\n\n";
  const auto over = card.base_id.empty() ? card.base_title : fmt::format("[{}](https://huggingface.co/{})", card.base_title, card.base_id);
  text += card.description.empty() ? fmt::format("{} over {}.\n\n", title_of(card.kind), over)
                                   : fmt::format("{}\n\nIt was trained over {}.\n\n", card.description, over);
  if (!card.trigger.empty()) text += fmt::format("## Trigger\n\nUse `{}` in a prompt.\n\n", card.trigger);
  text += ways_to_use(card, weights) + table_of_words(card);
  if (!card.facts.empty()) text += "\n## How it was trained\n\n| | |\n|---|---|\n";
  for (const auto& [name, value] : card.facts) text += fmt::format("| {} | {} |\n", name, value);
  if (!card.license_notice.empty()) text += fmt::format("\n## License\n\n{}.\n", card.license_notice);
  return text;
}

bool is_card(const fs::path& folder) {
  const auto path = folder / kReadme;
  return io::is_there(path) && io::read_text(path).find(std::string("\n") + kMark + "\n") != std::string::npos;
}

/// Tells whether a card may hold such a file, by its name from the card's folder on.
bool is_of_card(const fs::path& file) { return file == kReadme || file.extension() == ".safetensors" || *file.begin() == "samples"; }

}  // namespace

void write_model_card(const fs::path& folder, const ModelCard& card, size_t most_samples, bool overwrite) {
  const bool replaces = io::is_there(folder);
  if (replaces && !is_card(folder))
    config_error("card", "{} is there and is no model card; name another folder with --output", folder.string());
  if (replaces && !overwrite)
    config_error("card", "{} holds a card; replace it with --overwrite, or name another folder with --output", folder.string());
  if (replaces)
    io::check_replaces_folder("card", folder, [&](const fs::path& file) { return is_of_card(file.lexically_relative(folder)); });
  io::AtomicFolder whole(folder);
  try {
    const auto weights = copy_weights(card, whole.place());
    const auto samples = copy_samples(card.run, whole.place(), most_samples);
    io::write_text_atomic(whole.place() / kReadme, readme(card, weights, samples));
  } catch (const fs::filesystem_error& error) {
    data_error("report", "{} cannot be written: {}", folder.string(), error.what());
  }
  whole.commit();
}

}  // namespace burnish::report
