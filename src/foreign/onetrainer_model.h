#pragma once
#include <string>

#include "foreign/program.h"

namespace burnish::foreign::of_onetrainer {

/// Names our optimizer; "" for one that is not there.
std::string optimizer_of(const Settings& all);
bool has_unet(const Settings& all);
/// The parts of a model that read texts, of those that have so many.
inline constexpr const char* kTextEncoders[] = {"text_encoder", "text_encoder_2", "text_encoder_3"};
bool has_second_encoder(const Settings& all);
bool has_third_encoder(const Settings& all);
/// Names the part that predicts, "dit" or "unet".
std::string denoiser(const Settings& all);
/// Names it as OneTrainer does.
std::string part_of(const Settings& all);
bool is_lora(const Settings& all);
/// Tells whether the adapter begins as one that a file has.
bool from_file(const Settings& all);
/// Tells whether a part trains, by OneTrainer's name of it.
bool trains(const Settings& all, const std::string& part);
bool is_schedule_free(const Settings& all);
double batches_per_update(const Settings& all);
/// Names all parts that train, with commas between them.
std::string trained_parts(const Settings& all);

/// Reads a dtype as fp32, bf16 or fp16; "" for another.
std::string bits(const Value& value);
/// Carries a dtype of files.
Outcome precision(const Value& value, const Settings& all);
/// Carries the dtype that a run computes in.
Outcome dtype(const Value& value, const Settings& all);

}  // namespace burnish::foreign::of_onetrainer
