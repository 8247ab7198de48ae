// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"unicode"
	"unicode/utf8"
)

// joint is the grapheme cluster class of a rune (UAX #29).
type joint uint8

const (
	jointOther joint = iota
	jointControl
	jointCR
	jointLF
	jointExtend
	jointZWJ
	jointSpacing
	jointPrepend
	jointL
	jointV
	jointT
	jointLV
	jointLVT
	jointFlag
	jointPicture
)

// cluster returns the length of the grapheme cluster at the beginning of s.
func cluster(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	before := jointOf(r)
	picture := before == jointPicture // a picture and its extenders so far
	flags := 0
	if before == jointFlag {
		flags = 1
	}
	for n < len(s) {
		r, m := utf8.DecodeRuneInString(s[n:])
		j := jointOf(r)
		switch {
		case before == jointCR:
			if j != jointLF {
				return n
			}
		case before == jointControl, before == jointLF, j == jointControl, j == jointCR, j == jointLF:
			return n
		case j == jointExtend, j == jointZWJ, j == jointSpacing, before == jointPrepend:
		case before == jointL && (j == jointL || j == jointV || j == jointLV || j == jointLVT):
		case (before == jointLV || before == jointV) && (j == jointV || j == jointT):
		case (before == jointLVT || before == jointT) && j == jointT:
		case before == jointZWJ && j == jointPicture && picture:
		case before == jointFlag && j == jointFlag && flags%2 == 1:
		default:
			return n
		}
		if j == jointFlag {
			flags++
		}
		if j != jointExtend && j != jointZWJ {
			picture = j == jointPicture
		}
		before, n = j, n+m
	}
	return n
}

func jointOf(r rune) joint {
	switch {
	case r == '\r':
		return jointCR
	case r == '\n':
		return jointLF
	case r < 0x20 || r >= 0x7f && r < 0xa0:
		return jointControl
	case r < 0xa9:
		return jointOther
	case r < 0x300:
		switch r {
		case 0xad:
			return jointControl
		case 0xa9, 0xae:
			return jointPicture
		}
		return jointOther
	case r == 0x200d:
		return jointZWJ
	case r == 0x200c, unicode.In(r, unicode.Mn, unicode.Me, unicode.Other_Grapheme_Extend), r >= 0x1f3fb && r <= 0x1f3ff:
		return jointExtend
	case unicode.Is(prepends, r), unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return jointPrepend
	case unicode.In(r, unicode.Zl, unicode.Zp, unicode.Cc, unicode.Cf), r >= 0xe0000 && r <= 0xe0fff, r == 0x2065,
		r >= 0xfff0 && r <= 0xfff8:
		return jointControl
	case r == 0xe33, r == 0xeb3, unicode.Is(unicode.Mc, r) && !unicode.Is(standing, r):
		return jointSpacing
	case r >= 0x1100 && r <= 0x115f, r >= 0xa960 && r <= 0xa97c:
		return jointL
	case r >= 0x1160 && r <= 0x11a7, r >= 0xd7b0 && r <= 0xd7c6:
		return jointV
	case r >= 0x11a8 && r <= 0x11ff, r >= 0xd7cb && r <= 0xd7fb:
		return jointT
	case r >= 0xac00 && r <= 0xd7a3:
		if (r-0xac00)%28 == 0 {
			return jointLV
		}
		return jointLVT
	case r >= 0x1f1e6 && r <= 0x1f1ff:
		return jointFlag
	case unicode.Is(pictures, r):
		return jointPicture
	}
	return jointOther
}

// prepends are letters that belong to the next rune.
var prepends = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0xd4e, Hi: 0xd4e, Stride: 1}},
	R32: []unicode.Range32{
		{Lo: 0x111c2, Hi: 0x111c3, Stride: 1},
		{Lo: 0x1193f, Hi: 0x1193f, Stride: 1},
		{Lo: 0x11941, Hi: 0x11941, Stride: 1},
		{Lo: 0x11a3a, Hi: 0x11a3a, Stride: 1},
		{Lo: 0x11a84, Hi: 0x11a89, Stride: 1},
		{Lo: 0x11d46, Hi: 0x11d46, Stride: 1},
		{Lo: 0x11f02, Hi: 0x11f02, Stride: 1},
	},
}

// standing are spacing marks that join no cluster.
var standing = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x102b, Hi: 0x102c, Stride: 1},
		{Lo: 0x1038, Hi: 0x1038, Stride: 1},
		{Lo: 0x1062, Hi: 0x1064, Stride: 1},
		{Lo: 0x1067, Hi: 0x106d, Stride: 1},
		{Lo: 0x1083, Hi: 0x1083, Stride: 1},
		{Lo: 0x1087, Hi: 0x108c, Stride: 1},
		{Lo: 0x108f, Hi: 0x108f, Stride: 1},
		{Lo: 0x109a, Hi: 0x109c, Stride: 1},
		{Lo: 0x1a61, Hi: 0x1a61, Stride: 1},
		{Lo: 0x1a63, Hi: 0x1a64, Stride: 1},
		{Lo: 0xaa7b, Hi: 0xaa7b, Stride: 1},
		{Lo: 0xaa7d, Hi: 0xaa7d, Stride: 1},
	},
	R32: []unicode.Range32{{Lo: 0x11720, Hi: 0x11721, Stride: 1}},
}

// pictures are Extended_Pictographic runes from U+0300 on.
var pictures = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x203c, Hi: 0x203c, Stride: 1},
		{Lo: 0x2049, Hi: 0x2049, Stride: 1},
		{Lo: 0x2122, Hi: 0x2122, Stride: 1},
		{Lo: 0x2139, Hi: 0x2139, Stride: 1},
		{Lo: 0x2194, Hi: 0x2199, Stride: 1},
		{Lo: 0x21a9, Hi: 0x21aa, Stride: 1},
		{Lo: 0x231a, Hi: 0x231b, Stride: 1},
		{Lo: 0x2328, Hi: 0x2328, Stride: 1},
		{Lo: 0x2388, Hi: 0x2388, Stride: 1},
		{Lo: 0x23cf, Hi: 0x23cf, Stride: 1},
		{Lo: 0x23e9, Hi: 0x23f3, Stride: 1},
		{Lo: 0x23f8, Hi: 0x23fa, Stride: 1},
		{Lo: 0x24c2, Hi: 0x24c2, Stride: 1},
		{Lo: 0x25aa, Hi: 0x25ab, Stride: 1},
		{Lo: 0x25b6, Hi: 0x25b6, Stride: 1},
		{Lo: 0x25c0, Hi: 0x25c0, Stride: 1},
		{Lo: 0x25fb, Hi: 0x25fe, Stride: 1},
		{Lo: 0x2600, Hi: 0x2605, Stride: 1},
		{Lo: 0x2607, Hi: 0x2612, Stride: 1},
		{Lo: 0x2614, Hi: 0x2685, Stride: 1},
		{Lo: 0x2690, Hi: 0x2705, Stride: 1},
		{Lo: 0x2708, Hi: 0x2712, Stride: 1},
		{Lo: 0x2714, Hi: 0x2714, Stride: 1},
		{Lo: 0x2716, Hi: 0x2716, Stride: 1},
		{Lo: 0x271d, Hi: 0x271d, Stride: 1},
		{Lo: 0x2721, Hi: 0x2721, Stride: 1},
		{Lo: 0x2728, Hi: 0x2728, Stride: 1},
		{Lo: 0x2733, Hi: 0x2734, Stride: 1},
		{Lo: 0x2744, Hi: 0x2744, Stride: 1},
		{Lo: 0x2747, Hi: 0x2747, Stride: 1},
		{Lo: 0x274c, Hi: 0x274c, Stride: 1},
		{Lo: 0x274e, Hi: 0x274e, Stride: 1},
		{Lo: 0x2753, Hi: 0x2755, Stride: 1},
		{Lo: 0x2757, Hi: 0x2757, Stride: 1},
		{Lo: 0x2763, Hi: 0x2767, Stride: 1},
		{Lo: 0x2795, Hi: 0x2797, Stride: 1},
		{Lo: 0x27a1, Hi: 0x27a1, Stride: 1},
		{Lo: 0x27b0, Hi: 0x27b0, Stride: 1},
		{Lo: 0x27bf, Hi: 0x27bf, Stride: 1},
		{Lo: 0x2934, Hi: 0x2935, Stride: 1},
		{Lo: 0x2b05, Hi: 0x2b07, Stride: 1},
		{Lo: 0x2b1b, Hi: 0x2b1c, Stride: 1},
		{Lo: 0x2b50, Hi: 0x2b50, Stride: 1},
		{Lo: 0x2b55, Hi: 0x2b55, Stride: 1},
		{Lo: 0x3030, Hi: 0x3030, Stride: 1},
		{Lo: 0x303d, Hi: 0x303d, Stride: 1},
		{Lo: 0x3297, Hi: 0x3297, Stride: 1},
		{Lo: 0x3299, Hi: 0x3299, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x1f000, Hi: 0x1f0ff, Stride: 1},
		{Lo: 0x1f10d, Hi: 0x1f10f, Stride: 1},
		{Lo: 0x1f12f, Hi: 0x1f12f, Stride: 1},
		{Lo: 0x1f16c, Hi: 0x1f171, Stride: 1},
		{Lo: 0x1f17e, Hi: 0x1f17f, Stride: 1},
		{Lo: 0x1f18e, Hi: 0x1f18e, Stride: 1},
		{Lo: 0x1f191, Hi: 0x1f19a, Stride: 1},
		{Lo: 0x1f1ad, Hi: 0x1f1e5, Stride: 1},
		{Lo: 0x1f201, Hi: 0x1f20f, Stride: 1},
		{Lo: 0x1f21a, Hi: 0x1f21a, Stride: 1},
		{Lo: 0x1f22f, Hi: 0x1f22f, Stride: 1},
		{Lo: 0x1f232, Hi: 0x1f23a, Stride: 1},
		{Lo: 0x1f23c, Hi: 0x1f23f, Stride: 1},
		{Lo: 0x1f249, Hi: 0x1f3fa, Stride: 1},
		{Lo: 0x1f400, Hi: 0x1f53d, Stride: 1},
		{Lo: 0x1f546, Hi: 0x1f64f, Stride: 1},
		{Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1},
		{Lo: 0x1f774, Hi: 0x1f77f, Stride: 1},
		{Lo: 0x1f7d5, Hi: 0x1f7ff, Stride: 1},
		{Lo: 0x1f80c, Hi: 0x1f80f, Stride: 1},
		{Lo: 0x1f848, Hi: 0x1f84f, Stride: 1},
		{Lo: 0x1f85a, Hi: 0x1f85f, Stride: 1},
		{Lo: 0x1f888, Hi: 0x1f88f, Stride: 1},
		{Lo: 0x1f8ae, Hi: 0x1f8ff, Stride: 1},
		{Lo: 0x1f90c, Hi: 0x1f93a, Stride: 1},
		{Lo: 0x1f93c, Hi: 0x1f945, Stride: 1},
		{Lo: 0x1f947, Hi: 0x1faff, Stride: 1},
		{Lo: 0x1fc00, Hi: 0x1fffd, Stride: 1},
	},
}
