#pragma once
#include "foreign/program.h"

namespace burnish::foreign {

/// Returns the program whose settings these are: the one that `from` names, or else the one that has names of theirs alone, or that is the
/// only one to have their names at all. A config or data Error where there is none, and where there are several. `file` is for messages.
Program program_of(const Value& tree, const std::string& from, const std::string& file);

/// Returns the settings of a command that begins from a file of settings (--config_file run.toml, run.py run.yaml) together with those of
/// the file: its own count more. Other settings are returned as they are. A data Error where the file is not there.
Value with_named_settings(Value tree, const Open& open, const std::string& file);

/// Refuses settings by which all weights of a model would train for no other reason than that no network was seen in them: where some of
/// their words were not read, or where they are of a network.
void check_network_was_seen(const Program& program, const Settings& settings, const std::vector<std::string>& unread,
                            const std::string& file);

}  // namespace burnish::foreign
