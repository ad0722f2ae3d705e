// Numbers of users and groups that an archive names, as this machine has them.
#pragma once

#include <cstdint>
#include <string_view>

namespace lsmfs::cli {

// `number`: what the archive says, which holds if nobody here has the name, or there is none. UINT32_MAX: nobody can have it.
std::uint32_t user_id(std::string_view name, std::int64_t number);
std::uint32_t group_id(std::string_view name, std::int64_t number);

}  // namespace lsmfs::cli
