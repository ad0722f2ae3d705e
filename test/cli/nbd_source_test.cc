// How devices of NBD servers are named.
#include "cli/nbd_source.h"

#include <gtest/gtest.h>

namespace lsmfs::cli {
namespace {

std::string fields(const std::string& source) {
  const auto found = parse_nbd(source);
  if (!found) return found.error().context;
  return found->host + "|" + found->port + "|" + found->socket + "|" + found->export_name + (found->without_flush ? "|no flush" : "");
}

TEST(NbdSource, IsTakenApart) {
  EXPECT_EQ(fields("nbd://host"), "host|10809||");
  EXPECT_EQ(fields("nbd://host/"), "host|10809||");
  EXPECT_EQ(fields("nbd://host:99/a/b%20c%2Fd"), "host|99||a/b c/d");
  EXPECT_EQ(fields("nbd://[::1]/x"), "::1|10809||x");
  EXPECT_EQ(fields("nbd://[fe80::1%25eth0]:7/x?flush=no"), "fe80::1%eth0|7||x|no flush");
  EXPECT_EQ(fields("nbd+unix:///?socket=/run/s"), "||/run/s|");
  EXPECT_EQ(fields("nbd+unix://?socket=/run/s"), "||/run/s|");
  EXPECT_EQ(fields("nbd+unix:///name?socket=/run/a%26b&flush=no"), "||/run/a&b|name|no flush");
}

TEST(NbdSource, SaysWhatIsWrong) {
  for (const auto& [source, why] : {std::pair{"nbd://", "names no host"}, {"nbd:///x", "names no host"}, {"nbd://:5/x", "names no host"}, {"nbd://me@host/x", "names a user"},
                                    {"nbd://host:/x", "port that is no number"}, {"nbd://host:1x/", "port that is no number"}, {"nbd://host/%", "hexadecimal"},
                                    {"nbd://host/%4", "hexadecimal"}, {"nbd://host/%00", "hexadecimal"}, {"nbd://host/x?&", "not known"}, {"nbd://%zz/x", "hexadecimal"}, {"nbd+unix:///x", "names no socket"},
                                    {"nbd+unix:///x?socket=", "names no socket"}, {"nbd+unix://host/x?socket=/s", "names a host"}, {"nbd://host/x?socket=/s", "not known, socket=/s"},
                                    {"nbd+unix:///x?socket=%zz", "not known, socket=%zz"}, {"nbds://host/x", "TLS"}, {"nbds+unix:///x?socket=/s", "TLS"}}) {
    const std::string said = fields(source);
    EXPECT_TRUE(said.find(why) != std::string::npos) << source << ": " << said;
  }
  EXPECT_EQ(parse_nbd("nbd+unix:///?socket=/" + std::string(107, 's')).error().code, EINVAL);
  EXPECT_TRUE(parse_nbd("nbd+unix:///?socket=/" + std::string(106, 's')));
}

TEST(NbdSource, IsKnownByItsScheme) {
  for (const char* source : {"nbd://h", "nbd+unix:///x", "nbds://h", "nbds+unix:///x"}) EXPECT_TRUE(is_nbd(source)) << source;
  for (const char* path : {"nbd", "/nbd://h", "nbd:/h", "./nbd://h", ""}) EXPECT_FALSE(is_nbd(path)) << path;
}

}  // namespace
}  // namespace lsmfs::cli
