#include "cli/nearest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lsmfs::cli {
namespace {

// The optimal string alignment distance: https://en.wikipedia.org/wiki/Damerau%E2%80%93Levenshtein_distance
std::size_t mistakes(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> words) {
  constexpr std::size_t kLongest = 40;  // of what may be a mistyped word
  if (word.size() > kLongest) return {};
  std::string_view best;
  std::size_t least = std::max<std::size_t>(word.size() / 3, 1) + 1;
  for (const std::string_view one : words) {
    const std::size_t found = mistakes(word, one);
    if (found < least && found < one.size()) least = found, best = one;
  }
  return best;
}

}  // namespace lsmfs::cli
