// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// LineEnd returns the end of the line that begins at an offset in a JSON string: the index after its escaped line
// break, or the length of s.
func LineEnd(s []byte, from int) int {
	for i := from; ; i++ {
		n := indexBreak(s[i:])
		if n < 0 {
			return len(s)
		}
		i += n
		escapes := i // the backslashes before the escape
		for escapes > from && s[escapes-1] == '\\' {
			escapes--
		}
		if (i-escapes)%2 == 0 {
			return i + len(lineBreak)
		}
	}
}

var lineBreak = []byte(`\n`)

// indexBreak returns the index of the first backslash with an n after it, -1 for none.
func indexBreak(s []byte) int {
	// Eight bytes at a time, both bytes of the escape in one search: most lines of files have other
	// escapes, too.
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; len(s)-i > 8; i += 8 {
		x := (binary.LittleEndian.Uint64(s[i:]) ^ ones*'\\') | (binary.LittleEndian.Uint64(s[i+1:]) ^ ones*'n')
		if found := (x - ones) &^ x & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	n := bytes.Index(s[i:], lineBreak)
	if n < 0 {
		return -1
	}
	return i + n
}
