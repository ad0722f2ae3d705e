// Why something could not be imported.
#pragma once

#include <cstdint>
#include <string>

#include "lsmfs/base.h"

namespace lsmfs::cli {

// Of an Importer's error, whose context is a path in `source`.
std::string explain_import(const std::string& source, const Error& error);

// That of this process.
std::uint32_t current_umask();

}  // namespace lsmfs::cli
