// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

// Learn stores facts about the blocks of a conversation: turns, tasks, calls and the traits by
// which a later response is seen to refer to them.

import (
	"math"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// learn stores facts about the new blocks, and about all blocks of a conversation restored from an
// ended process.
func (r *request) learn() {
	h := &r.History
	var turn, task uint16
	if h.Learned > 0 {
		turn, task = h.States[h.Learned-1].Turn, h.States[h.Learned-1].Task
	}
	k := content.NewReferenceMaker()
	defer k.Release()
	text := seeker{h: h}
	var calls map[string]int // by id, if there are too many for a search
	var arguments []string   // of these calls
	if len(h.Blocks)-h.Learned > content.FewBlocks {
		text.index = new(content.ReferenceIndex)
		for j := range h.States[:h.Learned] {
			text.add(j)
		}
		calls, arguments = make(map[string]int), make([]string, len(h.Blocks)-h.Learned)
		h.Callees = make([]int32, len(h.Blocks)-h.Learned)
	}
	for i := h.Learned; i < len(h.Blocks); i++ {
		b, s := &h.Blocks[i], &h.States[i]
		// A turn begins with an assistant message, a task with a human prompt.
		if i == 0 || b.Message != h.Blocks[i-1].Message {
			switch m := &h.View.Messages[b.Message]; {
			case m.Role == wire.RoleAssistant:
				turn++
			case m.Role == wire.RoleUser && !content.AnswersTool(h.View, m):
				task++
			}
		}
		s.Turn, s.Task = turn, task
		s.Quotes = b.Role != wire.RoleAssistant && content.QuotesMarks(h.View.Bytes(b.Span))
		switch b.Kind {
		case wire.KindToolUse:
			input := content.CallInput(h.View.Bytes(b.Body))
			c := content.UnderstandCall(h.View.Text(b.Name), input)
			s.Class, s.Whole, s.Shell = c.Class, c.Whole, c.Shell
			if c.Path != "" {
				s.Path, s.File, s.Test = content.Hash(c.Path), content.Hash(content.FileTail(c.Path)), content.IsTest(c.Path)
			}
			if b.Body.Len() >= content.MinTrait && s.Trait == "" && content.Foldable(input) {
				s.Trait = k.Input(c.Argument, input)
				text.again(k, i)
			}
			if c.Class == sessioncache.ClassEdit && b.Body.Len() >= content.MinFold {
				s.Replaced = uint16(min(content.ReplacedBytes(input), math.MaxUint16))
			}
			if calls != nil {
				arguments[i-h.Learned] = c.Argument
				if !b.ID.Empty() {
					calls[h.View.Text(b.ID)] = i
				}
			}
		case wire.KindToolResult:
			j := newCall(h, i, calls)
			if h.Callees != nil {
				h.Callees[i-h.Learned] = int32(j) + 2
			}
			if j >= 0 {
				c := &h.States[j]
				s.Class, s.Path, s.File, s.Whole, s.Shell, s.Test = c.Class, c.Path, c.File, c.Whole, c.Shell, c.Test
			} else {
				s.Class, s.Path, s.File, s.Whole, s.Shell, s.Test = sessioncache.ClassNone, 0, 0, false, false, false
			}
			if b.Body.Len() >= content.MinTrait && s.Trait == "" && !h.Unread(i) {
				s.Trait = k.Result(h.View.Text(b.ID), argument(h, i, arguments), h.Text(i))
				s.Source = k.Source()
				text.again(k, i)
			}
		}
	}
}

// newCall returns the call that a new result answers, -1 if there is none. It searches the new
// blocks first.
func newCall(h *content.History, i int, calls map[string]int) int {
	id := h.View.Bytes(h.Blocks[i].ID)
	if len(id) == 0 {
		return content.CallOf(h.View, i)
	}
	if j, ok := calls[string(id)]; ok {
		return j
	}
	for j := i - 1; calls == nil && j >= h.Learned; j-- {
		if b := &h.Blocks[j]; b.Kind == wire.KindToolUse && string(h.View.Bytes(b.ID)) == string(id) {
			return j
		}
	}
	return content.CallOf(h.View, i)
}

// argument returns the argument of the call that a result answers. noted holds the arguments of the
// new calls, if there are many.
func argument(h *content.History, i int, noted []string) string {
	switch j := h.Call(i); {
	case j < 0:
		return ""
	case noted != nil && j >= h.Learned:
		return noted[j-h.Learned]
	default:
		return content.CallArgument(content.CallInput(h.View.Bytes(h.Blocks[j].Body)))
	}
}

// seeker finds the lines of new blocks in earlier blocks.
type seeker struct {
	h     *content.History
	index *content.ReferenceIndex // of the earlier blocks, nil for few new blocks
}

// add adds a block to the earlier ones.
func (s *seeker) add(j int) {
	if b := &s.h.States[j]; s.index != nil && b.Sampled > 0 && b.Trait != "" {
		s.index.Add(b.Trait, j)
	}
}

// again samples the lines of a new block. It counts them in the earlier blocks with the same lines,
// which are then less needed there.
func (s *seeker) again(k *content.ReferenceMaker, i int) {
	h, lines := s.h, k.Sampled()
	h.States[i].Sampled = uint8(len(lines))
	defer s.add(i)
	if s.index == nil {
		for j := i - 1; j >= 0 && len(lines) > 0 && h.Probed < maxProbed; j-- {
			if b := &h.States[j]; b.Sampled > 0 && b.Trait != "" {
				h.Probed += len(lines)
				note(b, content.CountMatches(b.Trait, lines))
			}
		}
		return
	}
	for _, line := range lines {
		if h.Probed >= maxProbed {
			return
		}
		h.Probed += s.index.Shelves()
		s.index.Containing(line, func(j int) { note(&h.States[j], 1) })
	}
}

// note counts lines of a block that a later block repeats.
func note(b *sessioncache.BlockState, n int) { b.Again += uint8(min(n, math.MaxUint8-int(b.Again))) }

// maxProbed limits the searches for lines in earlier blocks, per request. They take some
// milliseconds.
const maxProbed = 1 << 20
