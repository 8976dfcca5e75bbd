#pragma once
#include <string>
#include <vector>

// Words that people bring from other programs, by what they mean there. A row says which are asked for it (config::Row::called), and
// whoever gives one is told the option's name.
namespace burnish::config {

using Words = std::vector<std::string>;

inline const Words kRank{"rank", "network_dim", "network_rank", "lora_dim", "r"};
inline const Words kAlpha{"alpha", "network_alpha"};
inline const Words kRate{"lr"};
inline const Words kSteps{"steps", "num_steps", "train_steps", "max_train_steps", "iterations", "inference_steps"};
inline const Words kEpochs{"epochs", "max_train_epochs"};
inline const Words kBatch{"batch", "bs", "train_batch_size"};
inline const Words kOutput{"output", "output_dir", "out", "out_dir", "output_folder", "save_dir"};
inline const Words kData{"dataset", "data", "data_dir", "dataset_dir", "train_data_dir", "instance_data_dir", "image_dir", "images"};
inline const Words kModel{"checkpoint", "base_model", "model_path", "model_name", "pretrained_model_name_or_path", "ckpt"};
inline const Words kSize{"size", "res"};
inline const Words kGuidance{"cfg", "guidance", "guidance_scale"};
inline const Words kNegative{"negative"};
inline const Words kLora{"lora_path", "lora_weights", "weights"};
inline const Words kTrigger{"trigger", "instance_token"};
inline const Words kPrecision{"precision", "mixed_precision"};
inline const Words kSave{"save_every"};
inline const Words kPreviews{"sample_prompts", "validation_prompt"};
inline const Words kThreads{"threads"};

}  // namespace burnish::config
