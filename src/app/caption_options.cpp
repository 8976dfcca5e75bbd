#include "app/caption_options.h"

#include "base/limits.h"
#include "config/everyday_words.h"
#include "config/problems.h"
#include "data/caption_places.h"

namespace burnish::app {

namespace {

constexpr double kLeastPenalty = 0.1, kMostPenalty = 10, kMostTemperature = 10, kLeastRate = 0.01, kMostRate = 240;
constexpr int64_t kMostPixelsShown = 4096 * 4096, kMostFrames = 768;

void add_writing(config::Fields& f, CaptionOptions& o) {
  f.group("Writing");
  auto& tokens = o.writing.tokens;
  f("max_new_tokens", o.writing.max_new_tokens, "tokens of a caption at most")
      .label("Longest caption")
      .at_least(1)
      .at_most(kMostTokens)
      .in("tokens");
  f("repetition_penalty", tokens.repetition_penalty, "how much less likely tokens are that were said; 1 is off")
      .at_least(kLeastPenalty)
      .at_most(kMostPenalty);
  f("temperature", tokens.temperature,
    "0 takes the likeliest token; above, tokens are drawn, by numbers that seed and a picture's name give")
      .at_least(0)
      .at_most(kMostTemperature);
  auto is_drawn = [&o] { return o.writing.tokens.temperature > 0; };
  f("top_k", tokens.top_k, "draws one of so many likeliest tokens; 0: of all").at_least(0).counts_when("temperature above 0", is_drawn);
  f("top_p", tokens.top_p, "draws one of the likeliest tokens that have this probability together")
      .at_least(0)
      .at_most(1)
      .counts_when("temperature above 0", is_drawn);
  f("seed", o.seen_by.model.seed, "names every random draw").label("Random seed").at_least(0).matters_when("temperature above 0", is_drawn);
}

}  // namespace

void fields(config::Fields& f, CaptionOptions& o) {
  f.group("Captions");
  f.positional("folder", o.folders, "folders of pictures and clips, beside which captions are written");
  f("only", o.seen_by.only, "pictures of the folder that are written for, by their names from it on; without it all of them");
  f("caption_style", o.style, "sentences, or tags with commas between").label("Style").one_of({"sentences", "tags"});
  f("caption_prompt", o.caption.prompt, "what is asked about every picture, in place of this program's prompt for the style")
      .label("Question asked");
  f("trigger_word", o.caption.trigger, "a word that every caption begins with, or holds; the prompt tells the model of it")
      .called(config::kTrigger);
  f("caption_mode", o.mode, "fill writes captions that are missing, replace all, add goes on behind those that are there")
      .label("Captions that are there")
      .one_of({"fill", "replace", "add"});
  f("caption_extension", o.extension, "ending of the files with captions");
  f("json", o.seen_by.json, "print what was written, and what could not be, as JSON, and nothing else");
  model_fields(f, o.seen_by,
               "Qwen2.5-VL or Qwen3-VL: its folder, its id on a hub (Qwen/Qwen3-VL-4B-Instruct, say), which is fetched, or the folder of a "
               "model that has one as its text encoder");
  f("weight_format", o.weight_format, "how the weights of the language model are held: none takes dtype, or the codes of its files")
      .label("Format of weights")
      .one_of({"none", "fp8", "fp8_tensor", "fp8_block", "fp8_plain", "fp8_e5m2", "int8", "int8_convrot", "nf4"});
  f.group("Pictures");
  f("max_pixels", o.detail.picture_pixels, "pixels of a picture that the model sees at most; 0: as many as it was published with")
      .label("Detail of pictures")
      .at_least(0)
      .at_most(kMostPixelsShown)
      .in("pixels");
  f("frame_pixels", o.detail.frame_pixels, "pixels of a frame of a clip that the model sees at most")
      .label("Detail of frames")
      .at_least(1)
      .at_most(kMostPixelsShown)
      .in("pixels");
  f("num_frames", o.frames.most, "frames of a clip that the model sees at most; 1: the first one")
      .label("Frames of a clip")
      .at_least(1)
      .at_most(kMostFrames)
      .in("frames");
  f("frame_rate", o.frames.rate, "frames of a clip that it sees in a second").at_least(kLeastRate).at_most(kMostRate);
  f("batch_size", o.batch_size, "pictures that are written about at once")
      .label("Pictures at once")
      .at_least(1)
      .at_most(kMostInABatch)
      .called(config::kBatch);
  add_writing(f, o);
}

void check(CaptionOptions& o) {
  config::Fields listed;
  fields(listed, o);
  config::Problems problems(listed);
  problems.check_values();
  problems.gather([&] { train::check(o.seen_by.model); });
  if (o.folders.empty())
    problems.add("folder names the pictures that are to be captioned; for example: burnish caption photos --model MODEL");
  if (o.seen_by.model.model.empty()) problems.add("model names a Qwen2.5-VL or Qwen3-VL; for example --model Qwen/Qwen3-VL-4B-Instruct");
  problems.gather([&] { data::check_ending_written(o.extension); });
  const auto& tokens = o.writing.tokens;
  if (tokens.temperature == 0 && (tokens.top_k > 0 || tokens.top_p < 1))
    problems.add("{} has no effect here: it belongs to temperature above 0; give that, or take it out",
                 tokens.top_k > 0 ? "top_k" : "top_p");
  problems.refuse("caption");
  o.caption.is_tags = o.style == "tags";
  o.caption.is_added = o.mode == "add";
  o.writing.seed = static_cast<uint64_t>(o.seen_by.model.seed);
}

}  // namespace burnish::app
