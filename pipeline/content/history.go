// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

// History is the conversation in one request, block by block, with what is
// remembered of each block.

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// History is the conversation in one request, block by block, with what is
// remembered of each block. Blocks are named by their index among the message
// blocks.
type History struct {
	// View is the request.
	View *wire.View
	// Blocks are its message blocks.
	Blocks []wire.Block
	// States is what is remembered of each of them.
	States []sessioncache.BlockState
	// Known is the number of blocks that stood in the last request too.
	Known int
	// Learned is the number of blocks of which all is remembered that can be. It is
	// Known, or 0 where the last request was one of a process that has ended.
	Learned int

	// Callees are the calls that results answer which are not learned, where there are
	// many, plus two; zero for what was not looked for.
	Callees []int32
	// Compared are the bytes of the blocks that others were compared with.
	Compared int
	// Probed counts the lines that were looked for in other blocks.
	Probed int

	Texts   []string // of the new blocks, as far as they were decoded
	looked  int      // message blocks that are looked into, plus one; 0 if that was not counted
	arena   *Arena   // where the texts lie
	earlier earlier  // finds blocks in front of another
}

// FewBlocks is the number of new blocks up to which a search for each is less work
// than to remember where they stand.
const FewBlocks = 64

// Call finds the call that a tool result answers: its index, or -1.
func (h *History) Call(i int) int {
	if h.Callees != nil && i >= h.Learned && h.Callees[i-h.Learned] > 0 {
		return int(h.Callees[i-h.Learned]) - 2
	}
	return CallOf(h.View, i)
}

// mostText bounds the results of tools that are looked into, in bytes of the request from
// its first on. All of the longest recorded conversation have 414 KB; a context of a
// million tokens has no room for as many. What stands behind goes out as it is.
const mostText = 8 << 20

// Unread reports whether a message block stands behind more results of tools than are
// looked into. It is the same in every later request.
func (h *History) Unread(i int) bool {
	if len(h.View.Raw) <= mostText {
		return false
	}
	if h.looked == 0 {
		text := 0
		for h.looked = 1; h.looked <= len(h.Blocks); h.looked++ {
			if b := &h.Blocks[h.looked-1]; b.Kind == wire.KindToolResult {
				if text += b.Body.Len(); text > mostText {
					break
				}
			}
		}
	}
	return i >= h.looked-1
}

// Text returns the decoded text of a message block. Several stages look at new
// blocks, so it is decoded once. The text is good until the arena is closed.
func (h *History) Text(i int) string {
	if i < h.Known || h.Unread(i) {
		return Of(h.View, &h.Blocks[i])
	}
	if h.Texts == nil {
		h.Texts = make([]string, len(h.Blocks)-h.Known)
	}
	s := &h.Texts[i-h.Known]
	if *s == "" {
		*s = Decode(h.arena, h.View, &h.Blocks[i], Unwrap)
	}
	return *s
}

// Decode has texts lie in an arena until the history is released.
func (h *History) Decode() { h.arena = Open() }

// Release ends the use of the texts that were decoded.
func (h *History) Release() {
	h.arena.Close()
	h.arena, h.Texts = nil, nil
}

// Sent is the number of bytes that a whole block goes out in.
func (h *History) Sent(i int) int {
	if h.Removed(i) {
		return 0
	}
	return h.Blocks[i].Span.Len() - h.Blocks[i].Body.Len() + h.Size(i)
}

// Zeroed returns n zero values, in the memory of s if they fit.
func Zeroed[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4+16)
	}
	s = s[:n]
	clear(s)
	return s
}

// Removed reports whether a block does not go out at all.
func (h *History) Removed(i int) bool {
	e := h.States[i].Edit
	return e != nil && e.Op == wire.OpRemove
}

// Message returns the range of a block's message in blocks.
func (h *History) Message(i int) (first, end int) {
	m := &h.View.Messages[h.Blocks[i].Message]
	return int(m.First) - h.View.System, int(m.End) - h.View.System
}

// Alone reports whether no other block of the message would stay if the block
// were removed.
func (h *History) Alone(i int) bool {
	first, end := h.Message(i)
	for j := first; j < end; j++ {
		if j != i && !h.Removed(j) {
			return false
		}
	}
	return true
}

// Size is the number of bytes a block's body goes out in.
func (h *History) Size(i int) int {
	switch e := h.States[i].Edit; {
	case e == nil:
		return h.Blocks[i].Body.Len()
	case e.Op == wire.OpRemove:
		return 0
	default:
		return len(e.Value)
	}
}

// LastSaid returns the last block of the model's, 0 if there is none.
func (h *History) LastSaid() int {
	for i := len(h.Blocks) - 1; i >= 0; i-- {
		if h.Blocks[i].Role == wire.RoleAssistant {
			return i
		}
	}
	return 0
}

// LastAnswer returns the first block of the last assistant message.
func (h *History) LastAnswer() int {
	for i := len(h.View.Messages) - 1; i >= 0; i-- {
		if m := &h.View.Messages[i]; m.Role == wire.RoleAssistant {
			return int(m.First) - h.View.System
		}
	}
	return 0
}

// IsThinking reports whether a block is thinking, readable or redacted.
func IsThinking(b *wire.Block) bool {
	return b.Kind == wire.KindThinking || b.Kind == wire.KindRedactedThinking
}
