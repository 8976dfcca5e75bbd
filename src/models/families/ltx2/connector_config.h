#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "io/key_map.h"
#include "models/model/names.h"
#include "models/parts/find_components.h"

namespace burnish::models::ltx2 {

/// The sizes of the connector of a stream.
struct ConnectorSizes {
  int64_t num_heads = 32, head_dim = 128;
  int64_t num_blocks = 8;
  int64_t num_registers = 128;  ///< learned tokens, which are taken in turn

  int64_t width() const { return num_heads * head_dim; }
};

/// The numbers of what stands between the text encoder and the transformer. Defaults are LTX-2.3's, which are 2.5's as well.
struct ConnectorsConfig {
  int64_t state_width = 3840, num_states = 49;  ///< of the text encoder
  bool is_shared = false;                       ///< whether both streams have one projection, and states are normed over all tokens: 2.0
  bool has_biases = true;                       ///< of the projections
  bool has_gates = true;                        ///< whether every head has a gate (from 2.3 on)
  ConnectorSizes frames = {}, sound = {.head_dim = 64};
  int64_t num_places = 4096;  ///< tokens that places are counted in
  double theta = 1e4;
};

/// Returns LTX-2.0's numbers.
ConnectorsConfig connectors_20();

/// Reads the numbers from tensor shapes (our names) and, where there is one, config.json, which says what shapes cannot tell: how wide
/// states are, which is 3840 where they are as many, or else one state of all numbers, and 2.0's heads. A data Error when the two disagree,
/// or for places that are turned otherwise.
ConnectorsConfig connectors_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// Returns the rules from the original names, those of single files and of DiffSynth-Studio's, to ours. In a file with a whole model
/// connectors stand below the transformer's prefix, and projections beside it: `before` is of connectors alone.
io::KeyMap connector_keys(const std::string& before = "");

/// Returns the config for states that are so wide and so many, which no tensor tells one by one. A data Error where the projection reads
/// another number of them.
ConnectorsConfig with_states(ConnectorsConfig config, int64_t width, int64_t num_states);

/// Returns what layers of the component "connectors" are called in files and adapters; the projection is no layer of the blocks that carry
/// adapters where none are named.
ComponentNames connector_names(const ConnectorsConfig& config);

/// Finds the connectors: in a folder of diffusers', in a single file, beside or apart from the transformer, or with the projection in the
/// text encoder's file (LTX-2.5).
Source find_connectors(const ModelFiles& files);

}  // namespace burnish::models::ltx2
