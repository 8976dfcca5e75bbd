#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nn/linear.h"

namespace burnish::adapters {

using NamedLayers = std::vector<std::pair<std::string, nn::LinearMap*>>;

/// Lists every linear layer and convolution below `root` by its path.
NamedLayers all_layers(nn::Module& root);

/// A function that gives all names that a layer goes by ("blocks.0.attn.a_to_qkv" and "transformer_blocks.0.attn.to_q"), its path among
/// them unless it must not be found by it; none means the path alone.
using AliasesOf = std::function<std::vector<std::string>(const std::string& path)>;

/// The paths of the linear layers and convolutions that `targets` names, by DiffSynth-Studio's rules: several comma-separated names match a
/// layer's name exactly or as its end after a dot; a single name is a regular expression for the whole name, and if that matches nothing
/// also an end; "" picks every linear layer (and no convolution) inside lists of more than one block whose sides are both at least 512,
/// all-linear every linear layer. No match is a config Error that names the layers there are.
std::vector<std::string> match_targets(nn::Module& root, const std::string& targets, const AliasesOf& aliases);

/// The names that stand for several layers ("blocks.0.attn.a_to_qkv" for query, key and value) by which `targets` picks those, none of them
/// by a name that is its own. Such layers are to share one adapter, which is what the target's program gives them.
std::vector<std::string> fused_targets(nn::Module& root, const std::string& targets, const AliasesOf& aliases);

/// Picks out of several comma-separated names those that match no layer of `root`; none of a single one, which match_targets refuses.
std::vector<std::string> unmatched_targets(nn::Module& root, const std::string& targets, const AliasesOf& aliases);

/// The end of a layer's name that `name` is most likely a misspelling of, or "".
std::string nearest_target(nn::Module& root, const std::string& name, const AliasesOf& aliases);

}  // namespace burnish::adapters
