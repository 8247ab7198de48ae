// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package conversation

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
)

// author writes texts that need as much escaping as real ones. It is deterministic for a seed.
type author struct{ *rand.Rand }

var words = strings.Fields("the file a test build error server request handler returns value session cache of in and " +
	"block token parser reads writes where config path type length index first last new old function module package line")

func (a *author) word() string { return words[a.IntN(len(words))] }

// prose returns about n bytes of sentences.
func (a *author) prose(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(a.word())
		switch a.IntN(12) {
		case 0:
			b.WriteString(". ")
		case 1:
			b.WriteString(", ")
		default:
			b.WriteByte(' ')
		}
	}
	return strings.TrimSpace(b.String())
}

// code returns about n bytes of numbered source lines, with tabs, quotes and some letters outside
// ASCII.
func (a *author) code(n int) string {
	var b strings.Builder
	for i := 1; b.Len() < n; i++ {
		indent := strings.Repeat("\t", a.IntN(4))
		switch a.IntN(5) {
		case 0:
			fmt.Fprintf(&b, "%6d\t%sif err := %s.%s(%q); err != nil {\n", i, indent, a.word(), a.word(), a.word())
		case 1:
			fmt.Fprintf(&b, "%6d\t%s// %s → %s <%s>\n", i, indent, a.word(), a.word(), a.word())
		default:
			fmt.Fprintf(&b, "%6d\t%s%s := %s(%s, %d)\n", i, indent, a.word(), a.word(), a.word(), a.IntN(10000))
		}
	}
	return b.String()
}

// signature returns n bytes of noise in base64.
func (a *author) signature(n int) string {
	b := make([]byte, n*3/4)
	for i := range b {
		b[i] = byte(a.Uint32())
	}
	return base64.StdEncoding.EncodeToString(b)
}
