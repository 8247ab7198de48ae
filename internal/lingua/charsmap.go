// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unicode/utf8"
)

// charsmap is the compiled character map in SentencePiece models: a double-array trie of the
// replaced strings, and the replacements, each ended by a zero byte.
type charsmap struct {
	units        []uint32
	replacements []byte
}

func newCharsmap(b []byte) (charsmap, error) {
	if len(b) < 4 {
		return charsmap{}, errors.New("character map is cut")
	}
	n := int64(binary.LittleEndian.Uint32(b))
	b = b[4:]
	if n > int64(len(b)) || n%4 != 0 {
		return charsmap{}, errors.New("character map is cut")
	}
	units := make([]uint32, n/4)
	for i := range units {
		units[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return charsmap{units, b[n:]}, nil
}

// replacement returns the replacement of the shortest prefix of s that has one. Like the reference,
// it also drops the rest of a cluster.
func (c charsmap) replacement(s string) (string, bool) {
	if len(c.units) == 0 {
		return "", false
	}
	at := offset(c.units[0])
	for i := range len(s) {
		b := uint32(s[i])
		if b == 0 {
			break
		}
		at ^= b
		if at >= uint32(len(c.units)) {
			return "", false
		}
		u := c.units[at]
		// The trie has no such child.
		if u&(1<<31|0xff) != b {
			return "", false
		}
		at ^= offset(u)
		if at >= uint32(len(c.units)) {
			return "", false
		}
		// No string of the map ends here.
		if u>>8&1 == 0 {
			continue
		}
		from := c.units[at] & (1<<31 - 1)
		if from > uint32(len(c.replacements)) {
			return "", false
		}
		text := c.replacements[from:]
		if end := bytes.IndexByte(text, 0); end >= 0 {
			text = text[:end]
		}
		return string(text), true
	}
	return "", false
}

func offset(u uint32) uint32 { return u >> 10 << (u >> 9 & 1 << 3) }

// normalize replaces short clusters that are characters of the map, and otherwise single runes.
func (c charsmap) normalize(dst []byte, s string) []byte {
	for len(s) > 0 {
		n := 1
		if s[0] >= utf8.RuneSelf || len(s) > 1 && (s[1] >= utf8.RuneSelf || s[0] == '\r') {
			n = cluster(s)
		}
		part := s[:n]
		s = s[n:]
		if n < 6 {
			if r, ok := c.replacement(part); ok {
				dst = append(dst, r...)
				continue
			}
		}
		each(part, func(_ rune, text string) {
			if r, ok := c.replacement(text); ok {
				dst = append(dst, r...)
			} else {
				dst = append(dst, text...)
			}
		})
	}
	return dst
}
