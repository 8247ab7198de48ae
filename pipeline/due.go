// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"iter"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/admission"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// The probabilities that a later edit quotes a folded text: after a result that named its file, and
// after a call that quoted the text. Both include the factor by which needs of folded texts exceed the
// model's. See docs/concepts/planner.md.
const (
	named  = 0.1
	quoted = 0.5
)

// due returns the folded blocks that the new blocks show to be needed, in order.
func (s *restoreSearch) due() (blocks []int) {
	take := func(i int, chance float64) {
		if !slices.Contains(blocks, i) && s.Worth(s.Blocks[i].Body.Len(), chance) && !s.shown(i) {
			blocks = append(blocks, i)
		}
	}
	for i := s.Known; i < len(s.Blocks); i++ {
		if s.Blocks[i].Kind == wire.KindToolUse {
			for j := range s.quotes(i) {
				take(j, quoted)
			}
		}
	}
	m := content.Named(s.results)
	defer m.Release()
	for i := range s.Known {
		if x := &s.States[i]; folded(x) && x.File != 0 && (x.Class == sessioncache.ClassRead || s.Blocks[i].Kind == wire.KindToolUse) && m.Names(x.Trait) {
			take(i, named)
		}
	}
	slices.Sort(blocks)
	return blocks
}

// results yields the texts of the new results.
func (s *restoreSearch) results(yield func(string) bool) {
	for i := s.Known; i < len(s.Blocks); i++ {
		if s.Blocks[i].Kind == wire.KindToolResult && !s.Unread(i) && !yield(s.Text(i)) {
			return
		}
	}
}

// shown reports whether the text of a folded block is visible elsewhere: it was restored, or its
// whole file was read or written since.
func (s *restoreSearch) shown(i int) bool {
	file := s.States[i].File
	for j := i + 1; j < len(s.Blocks) && file != 0; j++ {
		x, b := &s.States[j], &s.Blocks[j]
		if x.File != file || folded(x) || b.Has(wire.FlagError) {
			continue
		}
		if x.Whole && x.Class == sessioncache.ClassRead && b.Kind == wire.KindToolResult || x.Class == sessioncache.ClassWrite && b.Kind == wire.KindToolUse {
			return true
		}
	}
	return slices.Contains(s.given, s.Name(i))
}

// quotes yields the folded blocks with a line that an edit quotes and no other block shows.
func (s *restoreSearch) quotes(call int) iter.Seq[int] {
	return func(yield func(int) bool) {
		if c := s.States[call].Class; c != sessioncache.ClassEdit && c != sessioncache.ClassCommand {
			return
		}
		for _, line := range content.Quoted(lined(content.CallInput(s.View.Bytes(s.Blocks[call].Body)))) {
			if j := s.holder(call, line); j >= 0 && !yield(j) {
				return
			}
		}
	}
}

// holder returns the last folded block before another with a line, or -1 if there is none or
// another block shows the line.
func (s *restoreSearch) holder(before int, line uint64) int {
	for i := before - 1; i >= 0; i-- {
		if !folded(&s.States[i]) || !s.holds(i, line) {
			continue
		}
		for j := range before {
			if !folded(&s.States[j]) && !s.Removed(j) && !admission.Points(s.States[j].Edit) && s.holds(j, line) {
				return -1
			}
		}
		return i
	}
	return -1
}

// holds reports whether a block contains a line.
func (s *restoreSearch) holds(i int, line uint64) bool {
	if t := s.States[i].Trait; t == "" || !content.HoldsLine(t, line) {
		return false
	}
	// The trait is wrong for one block in fifty, and there are many blocks: check the text itself.
	lines, known := s.lines[i]
	if !known {
		if s.lines == nil {
			s.lines = map[int][]uint64{}
		}
		lines = content.LineHashes(written(s.View, &s.Blocks[i]))
		slices.Sort(lines)
		s.lines[i] = lines
	}
	_, found := slices.BinarySearch(lines, line)
	return found
}

// lined returns the input of a call. It decodes the line ends of a patch within a program.
func lined(input gjson.Result) gjson.Result {
	if strings.Contains(input.Raw, `\\n`) {
		return gjson.Result{Type: gjson.String, Str: strings.NewReplacer(`\\n`, "\n", `\n`, "\n", `\\t`, "\t", `\t`, "\t", `\\\"`, `"`, `\"`, `"`).Replace(input.Raw)}
	}
	return input
}
