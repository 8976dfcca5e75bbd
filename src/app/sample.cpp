#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isfinite.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <utility>

#include "app/drawn_variants.h"
#include "app/named_models.h"
#include "app/sample_options.h"
#include "app/verbs.h"
#include "base/count.h"
#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/say.h"
#include "base/text.h"
#include "base/threads.h"
#include "config/command_line.h"
#include "data/drawn_file.h"
#include "data/image.h"
#include "data/labelled_row.h"
#include "drawing/draw.h"
#include "io/files.h"
#include "io/output_file.h"
#include "io/safetensors.h"
#include "loras/embedding_file.h"
#include "loras/merged.h"
#include "loras/said_options.h"
#include "memory/gpu.h"
#include "models/model/block_by_block.h"
#include "models/model/columns.h"
#include "models/model/drawn_sound.h"
#include "train/step/paged_loading.h"
#include "train/subject/auto_format.h"
#include "train/subject/output_folder.h"
#include "train/subject/slow_ways.h"
#include "train/subject/storage.h"

namespace burnish::app {

namespace {

using drawing::Picture;
using Variants = std::vector<DrawnVariant>;

bool is_clip(const Picture& picture) { return picture.extent.frames > 1; }

/// Refuses what no file of the format can hold, and a rate that nothing plays at.
void check_format(const SampleOptions& o, const std::vector<Picture>& pictures) {
  data::check_format({.asker = "sample", .name = "format", .format = o.format, .frames_hint = "give num_frames"},
                     drawing::extents_of(pictures), std::filesystem::path(o.output_path) / "0000");
  if (o.frame_rate > 0 && std::ranges::none_of(pictures, is_clip))
    config_error("sample", "frame_rate says how clips play, and all that is drawn is one frame; give num_frames, or take it out");
}

std::vector<Picture> pictures_of(const SampleOptions& o) {
  Picture defaults{.prompt = "",
                   .negative_prompt = o.negative_prompt,
                   .seed = {},
                   .extent = o.extent,
                   .num_inference_steps = o.num_inference_steps,
                   .guidance = {o.cfg_scale, o.guidance_rescale},
                   .references = o.reference};
  for (const auto& text : o.lora) defaults.strengths.push_back(loras::parse_lora_file(text).strength);
  for (const auto& [column, values] : o.inputs) {
    if (!values.empty()) defaults.inputs[column] = values;
  }
  std::vector<Picture> pictures(o.prompt.size(), defaults);
  for (size_t i = 0; i < pictures.size(); ++i) pictures[i].prompt = o.prompt[i];
  if (!o.prompts.empty()) {
    auto listed = drawing::parse_prompts(io::read_text(o.prompts), o.prompts, defaults);
    pictures.insert(pictures.end(), listed.begin(), listed.end());
  }
  if (pictures.empty() && !o.prompts.empty()) data_error("sample", "{} holds no prompts; write one a line", o.prompts);
  if (pictures.empty()) config_error("sample", "nothing to draw: give --prompt TEXT or --prompts FILE (one a line)");
  bool is_guided = std::ranges::any_of(pictures, &Picture::is_guided);
  if (!is_guided && (!o.negative_prompt.empty() || o.guidance_rescale > 0))
    config_error("sample", "{} has no effect without guidance; set cfg_scale above 1, or take it out",
                 o.negative_prompt.empty() ? "guidance_rescale" : "negative_prompt");
  auto other_size = [&](const Picture& p) { return p.extent != pictures[0].extent; };
  if (!o.save_latents.empty() && std::ranges::any_of(pictures, other_size))
    config_error("sample",
                 "save_latents keeps latents of one size, and the lines of {} ask for several; take it out, or draw each size by itself",
                 o.prompts);
  check_format(o, pictures);
  return drawing::numbered(pictures, o.num_images, o.model.seed);
}

/// The noise of a file, which must fit every picture.
drawing::Noise read_noise(const std::string& path, const std::vector<Picture>& pictures, const models::Model& model) {
  auto file = io::SafetensorsFile::open(path);
  if (file->tensors().empty()) data_error("sample", "the noise file {} holds no tensors", path);
  auto name = file->tensors().contains("noise")     ? "noise"
              : file->tensors().contains("latents") ? "latents"
                                                    : file->tensors().begin()->first;
  auto start = file->tensor(name).to(at::kFloat);
  at::Tensor steps;
  if (file->tensors().contains("step_noise")) steps = file->tensor("step_noise").to(at::kFloat);
  auto count = std::ssize(pictures);
  for (const auto& picture : pictures) {
    auto shape = model.latent_space().shape(picture.extent);
    if (start.dim() == std::ssize(shape)) start = start.unsqueeze(0);
    auto fits = [&](const at::Tensor& t) {
      return t.dim() == std::ssize(shape) + 1 && t.size(0) >= count && t.sizes().slice(1) == at::IntArrayRef(shape);
    };
    if (!fits(start)) {
      data_error("sample", "{}: '{}' has the shape {}; {} pictures of this size need [{}, {}]", path, name, start.sizes().vec(), count,
                 count, fmt::join(shape, ", "));
    }
    auto num_steps = picture.num_inference_steps;
    if (steps.defined() && (steps.dim() != std::ssize(shape) + 2 || steps.size(0) < num_steps || !fits(steps[0]))) {
      data_error("sample", "{}: 'step_noise' has the shape {}; {} pictures of this size in {} steps need [{}, {}, {}]", path,
                 steps.sizes().vec(), count, num_steps, num_steps, count, fmt::join(shape, ", "));
    }
  }
  std::map<std::string, at::Tensor> starts{{models::kLatents, start}};
  for (const auto& stream : model.latent_space().streams) {
    const auto of_stream = stream.value("noise");
    if (stream.name == models::kLatents || !file->tensors().contains(of_stream)) continue;
    auto& recorded = starts[stream.name] = file->tensor(of_stream).to(at::kFloat);
    const auto shape = model.latent_space().shape(stream, pictures.front().extent, drawing::rate_of(model, pictures.front()));
    if (recorded.dim() != std::ssize(shape) + 1 || recorded.size(0) < count || recorded.sizes().slice(1) != at::IntArrayRef(shape))
      data_error("sample", "{}: '{}' has the shape {}; {} pictures of this size need [{}, {}]", path, of_stream, recorded.sizes().vec(),
                 count, count, fmt::join(shape, ", "));
  }
  return {pictures, starts, steps};
}

/// Writes the latents of all pictures, each stream in a tensor of its name.
void save_latents(const std::string& path, const std::vector<drawing::Latents>& latents) {
  io::NamedTensors streams;
  for (const auto& [stream, value] : latents.front()) {
    std::vector<at::Tensor> of_pictures;
    for (const auto& picture : latents) of_pictures.push_back(std::get<at::Tensor>(picture.at(stream)));
    streams.emplace_back(stream, at::cat(of_pictures, 0));
  }
  io::save_safetensors(path, streams);
}

/// Tells whether a file is one that save_latents wrote.
bool is_latents(const std::filesystem::path& path) {
  auto file = io::SafetensorsFile::open(path);
  auto is_stream = [](const auto& tensor) { return tensor.first.ends_with(models::kLatents); };
  return file->tensors().contains(models::kLatents) && std::ranges::all_of(file->tensors(), is_stream);
}

/// Tells whether the pictures of each prompt and seed are written in all variants once more, side by side; clips and layers are looked at
/// one by one.
bool has_rows(const Variants& variants, const std::vector<Picture>& pictures, const Column& target) {
  return variants.size() > 1 && target.is != Column::Is::layers && std::ranges::none_of(pictures, is_clip);
}

std::filesystem::path row_file(const SampleOptions& o, size_t row) {
  return std::filesystem::path(o.output_path) / fmt::format("row-{:04}.png", row);
}

/// Refuses a folder in which something that was not drawn has the name of a picture.
void check_replaces(const SampleOptions& o, const Variants& variants, const std::vector<Picture>& pictures, const Column& target) {
  for (size_t i = 0; i < pictures.size(); ++i)
    data::check_replaces_drawn("sample", std::filesystem::path(o.output_path) / fmt::format("{:04}", i), o.format, pictures[i].extent,
                               target.is == Column::Is::layers);
  if (!has_rows(variants, pictures, target)) return;
  for (size_t row = 0; row < pictures.size() / variants.size(); ++row) io::check_replaces("sample", row_file(o, row), data::is_drawn_file);
}

/// Refuses what can be refused before anything is loaded: missing parts, places that cannot be written.
void check_files(const SampleOptions& o, models::Model& model, const Variants& variants, const std::vector<Picture>& pictures) {
  auto groups = model.units();
  if (std::ranges::none_of(pictures, &Picture::is_guided)) groups.draw_away.clear();
  for (const auto* group : {&groups.encode_prompt, &groups.encode_references, &groups.denoise, &groups.draw_away, &groups.decode}) {
    for (const auto& component : pipeline::models_of(*group)) model.components().check(component);
  }
  check_replaces(o, variants, pictures, models::target_of(model.latent_space()));
  train::make_output_folder(o.output_path);
  if (o.save_latents.empty()) return;
  if (auto folder = std::filesystem::path(o.save_latents).parent_path(); !folder.empty()) train::make_output_folder(folder);
  io::check_output("sample", o.save_latents, ".safetensors", is_latents);
}

std::unique_ptr<models::Model> open_model(const SampleOptions& o, const std::vector<Picture>& pictures) {
  auto options = train::model_options(o.model);
  options.references = std::ranges::any_of(pictures, [](const auto& picture) { return !picture.references.empty(); });
  for (const auto& picture : pictures) {
    for (const auto& [column, values] : picture.inputs) options.extra_inputs.insert(column);
  }
  auto model =
      models::open_model(models::open_model_files({o.model.model, o.model.model_paths, o.model.model_id_with_origin_paths}), options);
  auto choice = o.model;
  if (const auto line = train::settle_format(choice, options.device, [] { return false; }); !line.empty()) info("{}", line);
  train::choose_storage(*model, choice);
  for (const auto& component : model->components().list()) {
    if (component.num_stored > 0) info("{}:{}", component.name, train::storage_text(*model, component, choice));
  }
  for (const auto& line : train::slow_ways(*model, choice, options.device)) warn("{}", line);
  return model;
}

/// The files that are merged for a picture, as --lora takes them.
std::vector<std::string> loras_of(const SampleOptions& o, const Picture& picture) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < o.lora.size(); ++i) {
    auto file = loras::parse_lora_file(o.lora[i]);
    file.strength = picture.strengths[i];
    if (file.strength != 0) texts.push_back(loras::text_of(file));
  }
  return texts;
}

/// Returns what a file says of how its picture was drawn.
data::Texts texts_of(const SampleOptions& o, const Picture& picture, const Column& target) {
  data::Texts text{{"prompt", picture.prompt},
                   {"negative_prompt", picture.negative_prompt},
                   {"seed", std::to_string(*picture.seed)},
                   {"num_inference_steps", std::to_string(picture.num_inference_steps)},
                   {"sampler", o.sampler},
                   {"cfg_scale", fmt::format("{}", picture.guidance.scale)}};
  for (const auto& name : models::options_about(models::Option::About::guidance))
    text.emplace_back(name, fmt::format("{}", o.model.own.get<double>(name)));
  if (!o.sigmas.empty()) text.emplace_back("sigmas", o.sigmas);
  text.emplace_back("model", join(o.model.model));
  text.emplace_back("lora", join(loras_of(o, picture)));
  if (!o.embedding.empty()) text.emplace_back("embedding", join(o.embedding));
  if (is_clip(picture)) {
    text.emplace_back("num_frames", std::to_string(picture.extent.frames));
    if (is_clip_of(target, picture.extent)) text.emplace_back("frame_rate", fmt::format("{}", o.frame_rate));
  }
  if (!picture.references.empty()) text.emplace_back("references", join(picture.references));
  for (const auto& [column, values] : picture.inputs) text.emplace_back(column, join(values));
  return text;
}

/// Writes finished pictures, those from `first` on. A data Error for one that is not finite.
void write_pictures(const SampleOptions& o, loras::Loader& loader, const std::vector<drawing::Latents>& latents,
                    const std::vector<Picture>& pictures, int64_t first) {
  for (auto i = static_cast<size_t>(first); i < latents.size(); ++i) {
    if (std::ranges::all_of(
            latents[i], [](const auto& stream) { return at::isfinite(std::get<at::Tensor>(stream.second)).all().template item<bool>(); }))
      continue;
    data_error("sample",
               "the latents came out not finite: the weights of the model or of a LoRA are damaged, or too large for {}; try --dtype fp32",
               o.model.dtype);
  }
  Progress bar("decode", std::ssize(latents), first);
  const auto target = models::target_of(loader.model().latent_space());
  auto write = [&](int64_t i, const drawing::Decoded& drawn) {
    data::write_drawn(std::filesystem::path(o.output_path) / fmt::format("{:04}", i), o.format, drawn.image, o.frame_rate,
                      texts_of(o, pictures[static_cast<size_t>(i)], target), drawn.sound);
    bar.update(i + 1);
  };
  drawing::decode(loader, latents, write, first);
}

/// Draws and writes the pictures; the latents of those that were finished when Ctrl-C came.
std::vector<drawing::Latents> draw(const SampleOptions& o, loras::Loader& loader, const std::vector<Picture>& pictures,
                                   const drawing::Noise& noise, const drawing::DrawOptions& drawing_options) {
  auto encoded = drawing::encode(loader, pictures, [] { return !interrupted(); });
  if (!encoded) throw Error(Exit::interrupted, "sample", "interrupted while encoding the prompts; nothing was drawn yet");
  auto num_steps = drawing::num_steps(pictures, o.batch_size);
  int64_t num_written = 0;
  auto write = [&](const std::vector<drawing::Latents>& finished) {
    write_pictures(o, loader, finished, pictures, std::exchange(num_written, std::ssize(finished)));
  };
  Progress bar("sample", num_steps);
  auto goes_on = [&](int64_t num_done) {
    bar.update(num_done);
    return !interrupted();
  };
  auto latents = drawing::draw(loader, *encoded, pictures, noise, drawing_options, goes_on, write);
  if (latents.empty()) throw Error(Exit::interrupted, "sample", "interrupted; no picture was written");
  if (latents.size() == pictures.size()) bar.update(num_steps);
  write(latents);
  return latents;
}

/// Writes the pictures of each prompt and seed in all variants once more, where has_rows, and says by how much those without a group of
/// blocks differ from the whole ones: the root of the mean square, of 0 to 255.
void write_rows(const SampleOptions& o, const Variants& variants, const std::vector<Picture>& pictures, const Column& target) {
  if (!has_rows(variants, pictures, target)) return;
  std::vector<std::string> labels;
  for (const auto& variant : variants) labels.push_back(variant.label);
  const auto num_rows = pictures.size() / variants.size();
  const std::filesystem::path folder(o.output_path);
  std::vector<double> squares(variants.size());
  for (size_t row = 0; row < num_rows; ++row) {
    std::vector<at::Tensor> drawn;
    for (size_t i = row; i < pictures.size(); i += num_rows)
      drawn.push_back(data::decode_image(data::drawn_path(folder / fmt::format("{:04}", i), o.format, /*is_clip=*/false)));
    data::write_png(
        row_file(o, row), data::labelled_row(drawn, labels),
        {{"prompt", pictures[row].prompt}, {"lora_strengths", o.lora_strengths.empty() ? join(labels, ",") : o.lora_strengths}});
    for (size_t i = 0; i < variants.size(); ++i) {
      if (variants[i].what.empty()) continue;
      squares[i] += (drawn[i].to(at::kDouble) - drawn[0].to(at::kDouble)).square().mean().item<double>();
    }
  }
  for (size_t i = 0; i < variants.size(); ++i) {
    if (variants[i].what.empty()) continue;
    info("without blocks {} ({}): pictures differ by {:.2f} of 255", variants[i].label, variants[i].what,
         std::sqrt(squares[i] / static_cast<double>(num_rows)));
  }
}

void run(SampleOptions o) {
  check(o);
  const auto times = times_of(o);
  if (!times.empty()) o.num_inference_steps = std::ssize(times) - 1;
  auto pictures = pictures_of(o);
  if (!times.empty()) {
    for (auto& picture : pictures) picture.num_inference_steps = o.num_inference_steps;
  }
  set_threads(o.model.num_threads, o.model.local_size);
  at::NoGradGuard no_grad;
  auto model = open_model(o, pictures);
  models::take_family_values(*model, o.model.own);
  const auto variants = variants_of(o, *model);
  pictures = at_variants(pictures, variants);
  const auto target = models::target_of(model->latent_space());
  data::check_holds(target, {.asker = "sample", .name = "format", .format = o.format, .frames_hint = ""});
  if (models::writes_sound(model->units().decode) && std::ranges::any_of(pictures, is_clip)) {
    o.format = data::format_with_sound(o.format);
    check_format(o, pictures);
  }
  o.frame_rate = model->latent_space().rate_of(o.frame_rate > 0 ? o.frame_rate : o.frame_rate_of_run);
  for (auto& picture : pictures) picture.frame_rate = o.frame_rate;
  auto noise = o.noise.empty() ? drawing::Noise(pictures) : read_noise(o.noise, pictures, *model);
  drawing::DrawOptions drawing_options{o.sampler, o.timestep_spacing, times, o.batch_size, train::model_options(o.model).device};
  drawing::check(*model, pictures, drawing_options);
  check_files(o, *model, variants, pictures);
  std::vector<loras::EmbeddingFile> embeddings;
  for (const auto& text : o.embedding) embeddings.push_back(loras::parse_embedding_file(text));
  loras::give_words(*model, embeddings);
  std::vector<loras::LoraFile> files;
  for (const auto& text : o.lora) files.push_back(loras::parse_lora_file(text));
  loras::Merged merged(*model, files);
  std::shared_ptr<memory::Pager> pager;  // of the denoiser, while it is loaded
  auto host = std::make_shared<memory::HostStore>(drawing_options.device);
  auto load_part = [&](const std::string& part) {
    if (!model->names().is_denoiser(pipeline::component_of(part))) return model->components().load(part);
    pager.reset();
    pager = train::load_paged(*model, part, {o.blocks_to_swap, o.blocks_on_disk}, host, drawing_options.device);
  };
  loras::Loader loader(*model, {}, o.blocks_to_swap == 0 ? loras::Loader::LoadPart() : load_part, &merged);
  loader.read_by_block(models::too_large_encoders(model->components(), memory::room_on(drawing_options.device)));

  auto latents = draw(o, loader, pictures, noise, drawing_options);
  if (!o.save_latents.empty()) save_latents(o.save_latents, latents);
  if (latents.size() < pictures.size()) {
    throw Error(Exit::interrupted, "sample",
                fmt::format("interrupted; {} of {} pictures were written to {}", latents.size(), pictures.size(), o.output_path));
  }
  write_rows(o, variants, pictures, target);
  const bool are_clips = std::ranges::all_of(pictures, [&](const auto& picture) { return is_clip_of(target, picture.extent); });
  info("{} in {}", count_of(std::ssize(pictures), are_clips ? "clip" : "picture"), o.output_path);
}

/// Runs it; errors of functions that training uses too are said as the sampler's own.
void run_as_sample(const SampleOptions& o) try { run(o); } catch (const Error& error) {
  if (!std::string_view(error.what()).starts_with("[train] ")) throw;
  throw Error(error.code(), "sample", without_source(error));
}

}  // namespace

void sample(const Arguments& arguments) {
  SampleOptions options;
  options.model.own.begin_with_drawing();
  auto read = [&] {
    config::Fields listed;
    fields(listed, options);
    return config::read_command_line("sample", "draw pictures, with or without LoRAs", arguments, listed, [&] { check(options); });
  };
  const auto parsed = read();
  if (parsed.help) return print("{}", parsed.help_text);
  if (!options.run.empty()) {
    SampleOptions of_run;
    of_run.run = options.run;
    take_run(of_run);
    options = of_run;
    read();  // what is given wins
  }
  take_times(options, parsed.given);
  for (const auto& text : options.lora) {
    const auto lines = loras::take_said_options(loras::parse_lora_file(text).path, parsed.given, options.model.own);
    for (const auto& line : lines) info("{}", line);
  }
  for (const auto& name : parsed.given) options.model.own.ask(name);
  watch_for_interrupt("interrupted: drawing ends after this step, and pictures that are finished are written");
  if (options.run.empty())
    check_models("sample", options.model.model,
                 "draw with it by --model MODEL --lora {0}, or by --run and the folder of the run that saved it");
  run_as_sample(options);
}

}  // namespace burnish::app
