#pragma once
#include <map>
#include <string>
#include <vector>

#include "io/key_map.h"
#include "models/model/names.h"

// Tables of other programs' names for layers, from which families make rules for files and for adapters.
namespace burnish::models {

/// A layer of another program: its name and ours; a fused layer has several of ours, stacked in this order.
struct RenamedLayer {
  std::string theirs;
  std::vector<std::string> ours;
};
using RenamedLayers = std::vector<RenamedLayer>;

std::vector<std::string> each_behind(const std::string& prefix, std::vector<std::string> names);
/// Writes a path as kohya's files do.
std::string with_underscores(std::string path);

/// Adds `layers` of every block, with both sides' prefixes and the block's number before them: "double_blocks.", "transformer_blocks.".
void add_blocks(RenamedLayers& all, const RenamedLayers& layers, const std::string& theirs, const std::string& ours, int64_t count);

/// Blocks of a kind: what stands before their numbers in another program's names and in ours, and how many a model has.
struct NamedStack {
  std::string theirs, ours;
  int64_t count = 0;
};
/// Returns the layers outside of the blocks, and behind them those of all blocks of these stacks.
RenamedLayers with_blocks(RenamedLayers outside, const RenamedLayers& in_blocks, const std::vector<NamedStack>& stacks);

/// Returns `layers` by the names that adapters have for them: the other program's, and kohya's of them.
LayerTable named_by(const RenamedLayers& layers, const std::string& kohya = "lora_unet_");
/// Returns original names as ComfyUI writes them in adapter files, and as kohya's programs do (ComponentNames::written).
std::map<std::string, LayerTable> written_in(const RenamedLayers& originals);
/// Returns the same where DiffSynth-Studio writes the other program's names too.
std::map<std::string, LayerTable> written_for_all(const RenamedLayers& layers);
/// Returns a layer's own path and the other program's, by the rules between files and us.
std::vector<std::string> both_names(const io::KeyMap& keys, const std::string& path);

/// Adds the rules for the parameters of each layer, `theirs` and `ours` before the names: "double_blocks.{}.".
void add_rules(std::vector<io::KeyRule>& rules, const RenamedLayers& layers, const std::string& theirs = "", const std::string& ours = "");
/// Adds the rules for norms whose weights the other program calls scales.
void add_scales(std::vector<io::KeyRule>& rules, const RenamedLayers& norms, const std::string& theirs = "", const std::string& ours = "");

}  // namespace burnish::models
