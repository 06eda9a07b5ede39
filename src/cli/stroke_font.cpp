#include "cli/stroke_font.h"

#include <algorithm>
#include <array>

namespace strata::cli {
namespace {

// Points are pairs of digits xy; a space lifts the pen; a stroke that starts with '~' is a polygon with rounded
// corners.
struct Shape {
  char character;
  const char* strokes;
};
constexpr Shape kShapes[] = {
  {'!', "0004 0606"},
  {'#', "1016 3036 0242 0444"},
  {'%', "4006 ~010020220201 ~252444462625"},
  {'\'', "0001"},
  {'(', "~20020426"},
  {')', "~00222406"},
  {'*', "2125 1234 3214"},
  {'+', "2125 0343"},
  {',', "1608"},
  {'-', "0333"},
  {'.', "0606"},
  {'/', "4006"},
  {':', "0303 0606"},
  {'<', "410345"},
  {'=', "0242 0444"},
  {'>', "014305"},
  {'?', "~010040432324 2626"},
  {'_', "0646"},
  {'|', "0008"},
  {'[', "20000626"},
  {']', "00202606"},
  {'0', "~030040460603"},
  {'1', "112026 1636"},
  {'2', "~0100404306 0646"},
  {'3', "~0100404323 ~2343460605"},
  {'4', "36300444"},
  {'5', "400003 ~0343460605"},
  {'6', "~400004 ~040343460604"},
  {'7', "004016"},
  {'8', "~234340000323 ~234346060323"},
  {'9', "~064642 ~424303004042"},
  {'A', "062046 1434"},
  {'B', "0006 ~00404303 ~03434606"},
  {'C', "~414000064645"},
  {'D', "0006 ~003042443606"},
  {'E', "40000646 0333"},
  {'F', "400006 0333"},
  {'G', "~424000064643 4323"},
  {'H', "0006 4046 0343"},
  {'I', "0006"},
  {'J', "~40460604"},
  {'K', "0006 4004 2246"},
  {'L', "000646"},
  {'M', "0600244046"},
  {'N', "06004640"},
  {'O', "~030040460603"},
  {'P', "0600 ~00404303"},
  {'Q', "~030040460603 3547"},
  {'R', "0600 ~00404303 2346"},
  {'S', "~4140000343460605"},
  {'T', "0040 2026"},
  {'U', "~000406464440"},
  {'V', "002640"},
  {'W', "0016324660"},
  {'X', "0046 4006"},
  {'Y', "002340 2326"},
  {'Z', "00400646"},
  {'a', "~444202064644 4246"},
  {'b', "0006 ~040242460604"},
  {'c', "~434202064645"},
  {'d', "4046 ~444202064644"},
  {'e', "0444 ~444202064645"},
  {'f', "~30101316 0222"},
  {'g', "~444202064644 ~4246480807"},
  {'h', "0006 ~0402424446"},
  {'i', "0206 0000"},
  {'j', "~12161808 1010"},
  {'k', "0006 4204 2346"},
  {'l', "0006"},
  {'m', "0206 ~0402323436 ~3432626466"},
  {'n', "0206 ~0402424446"},
  {'o', "~040242460604"},
  {'p', "0208 ~040242460604"},
  {'q', "4248 ~444202064644"},
  {'r', "0206 ~04023233"},
  {'s', "~4342020444460605"},
  {'t', "~10151636 0232"},
  {'u', "~020406464442 4246"},
  {'v', "022642"},
  {'w', "0216324662"},
  {'x', "0246 4206"},
  {'y', "0226 421808"},
  {'z', "02420646"},
};

// Cuts the corners of a polygon three times (Chaikin): approximates a quadratic spline. Keeps the ends.
std::vector<Point> rounded(std::vector<Point> p) {
  for (int round = 0; round < 3; ++round) {
    std::vector<Point> next{p.front()};
    for (size_t i = 0; i + 1 < p.size(); ++i) {
      const Point a = p[i], b = p[i + 1];
      if (i > 0) next.push_back({a.x * 0.75F + b.x * 0.25F, a.y * 0.75F + b.y * 0.25F});
      if (i + 2 < p.size()) next.push_back({a.x * 0.25F + b.x * 0.75F, a.y * 0.25F + b.y * 0.75F});
    }
    next.push_back(p.back());
    p = std::move(next);
  }
  return p;
}

Glyph read(const char* text) {
  constexpr float kGap = 1.7F;
  Glyph g{{}, 0};
  float width = 0;
  for (const char* p = text; *p;) {
    const bool smooth = *p == '~';
    if (smooth) ++p;
    std::vector<Point> stroke;
    for (; *p && *p != ' '; p += 2) stroke.push_back({static_cast<float>(p[0] - '0'), static_cast<float>(p[1] - '0')});
    for (Point q : stroke) width = std::max(width, q.x);
    g.strokes.push_back(smooth ? rounded(std::move(stroke)) : std::move(stroke));
    if (*p == ' ') ++p;
  }
  g.advance = width + kGap;
  return g;
}

std::array<Glyph, 128> make_table() {
  std::array<Glyph, 128> table;
  table.fill(read("0040460600"));  // a box
  table[' '] = Glyph{{}, 3};
  for (const Shape& s : kShapes) table[static_cast<size_t>(s.character)] = read(s.strokes);
  return table;
}

}  // namespace

const Glyph& glyph(char c) {
  static const std::array<Glyph, 128> table = make_table();
  return table[static_cast<unsigned char>(c) < 128 ? static_cast<size_t>(c) : 0];
}

}  // namespace strata::cli
