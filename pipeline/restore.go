// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

// Giveback finds folded texts that the agent is about to need again, and puts
// them behind the newest tool result: nothing that was sent is written anew.

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/admission"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// ReturnedFrame is what a text that is given back begins with, followed by the name that its
// stub has.
const ReturnedFrame = "[[llm_cache:returned "

// most bounds what one request gives back, in bytes, and mostTexts how many texts: what
// stands between them is ours, and a recipe holds little of that.
const (
	most      = 96 << 10
	mostTexts = 12
)

// restoreSearch looks for folded texts to give back.
type restoreSearch struct {
	*content.History
	// Name is the name of a block in its stub.
	Name func(i int) string
	// Worth reports whether a text of so many bytes is worth being given back where it
	// is needed with some chance.
	Worth func(bytes int, chance float64) bool

	given []string         // names of what was given back before
	lines map[int][]uint64 // hashes of the lines of blocks, sorted
}

// Edit finds the result behind which texts are given back, of those from a block on, and
// what it goes out with then; -1 if nothing is given back.
func (s *restoreSearch) Edit(from int) (carrier int, value []byte) {
	if !s.folded() {
		return -1, nil
	}
	for carrier = len(s.Blocks) - 1; carrier >= from && !s.carries(carrier); carrier-- {
	}
	if carrier < from {
		return -1, nil
	}
	for i := range s.States {
		s.given = append(s.given, names(&s.States[i])...)
	}
	var text []byte
	n := 0
	for _, i := range s.due() {
		original := verbatim(s.View, &s.Blocks[i])
		if len(original) > 0 && len(text)+len(original) <= most && n < mostTexts {
			n++
			title := content.Quote(fmt.Sprintf("\n\n%s%s: %s, folded above. Edits since are not in it.]]\n", ReturnedFrame, s.Name(i), s.what(i)))
			text = append(append(text, inner(title)...), original...)
		}
	}
	if text == nil {
		return -1, nil
	}
	value = s.View.Bytes(s.Blocks[carrier].Body)
	if e := s.States[carrier].Edit; e != nil {
		value = e.Value
	}
	return carrier, textBehind(value, text)
}

// folded reports whether any block of the last request is folded whole.
func (s *restoreSearch) folded() bool {
	for i := range s.States[:s.Known] {
		if folded(&s.States[i]) {
			return true
		}
	}
	return false
}

// folded reports whether a block is folded whole.
func folded(s *sessioncache.BlockState) bool {
	return s.Trait != "" && s.Edit != nil && (s.Edit.Stage == stage.Prune || s.Edit.Stage == stage.Inputs)
}

// carries reports whether something can be put behind a result.
func (s *restoreSearch) carries(i int) bool {
	b, e := &s.Blocks[i], s.States[i].Edit
	if b.Kind != wire.KindToolResult || b.Has(wire.FlagMedia) || b.Body.Empty() || e != nil && (e.Stage != stage.Admission || admission.Points(e)) {
		return false
	}
	switch body := s.View.Bytes(b.Body); body[0] {
	case '"':
		return true
	case '[':
		last := gjson.ParseBytes(body).Array()
		return len(last) > 0 && content.IsText(last[len(last)-1])
	}
	return false
}

// textBehind puts the inside of a JSON string behind the content of a result.
func textBehind(value, text []byte) []byte {
	if value[0] == '"' {
		return append(append(slices.Clone(value[:len(value)-1]), text...), '"')
	}
	parts := gjson.ParseBytes(value).Array()
	out := append(slices.Clone(value[:len(value)-1]), `,{"type":`...)
	out = append(append(out, parts[len(parts)-1].Get("type").Raw...), `,"text":"`...)
	return append(append(out, text...), `"}]`...)
}

// names are those of the texts that were given back behind a result.
func names(x *sessioncache.BlockState) (names []string) {
	if x.Edit == nil || x.Edit.Stage != stage.GiveBack {
		return nil
	}
	for rest := string(x.Edit.Value); ; {
		var ok bool
		if _, rest, ok = strings.Cut(rest, ReturnedFrame); !ok {
			return names
		}
		names = append(names, rest[:min(content.IDLen, len(rest))])
	}
}

// returnedBlocks tells which folded blocks were given back behind which results.
func returnedBlocks(h *content.History, name func(i int) string) (blocks map[int][]int) {
	var known map[string]int
	for i := range h.States {
		for _, n := range names(&h.States[i]) {
			if known == nil {
				blocks, known = map[int][]int{}, map[string]int{}
				for j := range h.States {
					if folded(&h.States[j]) {
						known[name(j)] = j
					}
				}
			}
			if j, ok := known[n]; ok {
				blocks[i] = append(blocks[i], j)
			}
		}
	}
	return blocks
}

// what says what a text is.
func (s *restoreSearch) what(i int) string {
	j := i
	if s.Blocks[i].Kind == wire.KindToolResult {
		j = s.Call(i)
	}
	if j < 0 {
		return "tool result"
	}
	return strings.ReplaceAll(content.DescribeCall(s.View, &s.Blocks[j]), "]]", "] ]")
}

// written is the text of a block: of a call what it wrote.
func written(v *wire.View, b *wire.Block) string {
	if b.Kind == wire.KindToolResult {
		return content.Of(v, b)
	}
	var out []string
	content.LongStrings(content.DecodedInput(content.CallInput(v.Bytes(b.Body))), 0, func(key string, x gjson.Result) {
		if !content.IsReplaced(key) && utf8.ValidString(x.Str) {
			out = append(out, x.Str)
		}
	})
	return strings.Join(out, "\n")
}

// verbatim is what written is, as the client has it in JSON, so that a recipe can say where
// it stands; none of a call whose input is JSON within a string.
func verbatim(v *wire.View, b *wire.Block) (out []byte) {
	add := func(x gjson.Result) {
		if x.Type != gjson.String || !utf8.ValidString(x.Raw) {
			return
		}
		if len(out) > 0 {
			out = append(out, `\n`...)
		}
		out = append(out, inner([]byte(x.Raw))...)
	}
	body := gjson.ParseBytes(v.Bytes(b.Body))
	switch {
	case b.Kind == wire.KindToolUse:
		content.LongStrings(content.CallInput(v.Bytes(b.Body)), 0, func(key string, x gjson.Result) {
			if !content.IsReplaced(key) {
				add(x)
			}
		})
	case body.IsArray():
		body.ForEach(func(_, part gjson.Result) bool {
			if content.IsText(part) {
				add(part.Get("text"))
			}
			return true
		})
	default:
		add(body)
	}
	return out
}

// inner is a JSON string without its quotes.
func inner(quoted []byte) []byte { return quoted[1 : len(quoted)-1] }
