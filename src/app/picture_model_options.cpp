#include "app/picture_model_options.h"

#include "base/dtype.h"
#include "base/limits.h"
#include "config/everyday_words.h"
#include "models/parts/picture_texts.h"

namespace burnish::app {

void model_fields(config::Fields& f, PictureModelOptions& o, const char* model_help) {
  f.group("Model");
  f.path("model", o.model.model, model_help, {}, config::seen_from_if_there).called(config::kModel);
  f.path("tokenizer_path", o.model.tokenizer_path, "folder of its tokenizer, where it is not beside the model", {},
         config::seen_from_if_there);
  const auto processor = models::processor_option();
  f.path(processor.name, o.processor_path, processor.help);
  f("dtype", o.model.dtype, "fp32, bf16 or fp16: what the model is held and computed in")
      .label("Precision")
      .known(dtype_choices())
      .called(config::kPrecision);
  f("device", o.model.device, "auto, cpu or cuda").one_of({"auto", "cpu", "cuda"});
  f("num_threads", o.model.num_threads, "0 takes all cores, or as many as the quota of a container gives")
      .label("CPU threads")
      .at_least(0)
      .at_most(kMostThreads)
      .called(config::kThreads);
}

}  // namespace burnish::app
