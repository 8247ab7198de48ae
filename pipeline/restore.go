// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/admission"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// giveBack appends folded texts that the agent is about to need to the newest result. Under observe
// it is computed, too, because it reduces the saving.
func (r *request) giveBack() {
	if r.o.Planner.Restore != nil && !*r.o.Planner.Restore || !r.View.OffersTools() {
		return
	}
	l := r.match.Conversation
	further, prices := furtherRequests(r.session, r.View, l), plannerPrices(&r.rules, l)
	e := newEstimator(&r.session.Calibration, l)
	s := restoreSearch{
		History: &r.History, entries: r.entries, Name: r.stubName, Limit: maxRestoredBytes,
		Worth: func(bytes int, chance float64) bool {
			return planner.Returns(e.Tokens(wire.KindToolResult, bytes), chance, further, prices, *r.o.Planner.Harm)
		},
	}
	// Without reported usage the cost of the conversation is unknown.
	past := plannerPast(l)
	if price := e.Tokens(wire.KindToolResult, 1) * (prices.Write - prices.Read); price > 0 && past.Spent > 0 {
		s.Limit = min(s.Limit, int(past.Affordable()/price))
	}
	if i, value := s.Edit(max(r.Known, r.cached.forwarded)); i >= 0 {
		r.restored = e.Tokens(wire.KindToolResult, len(value)-r.Size(i))
		r.set(i, stage.Restore, wire.OpReplace, value)
	}
}

// ReturnedFrame is the beginning of a restored text, followed by the name in its stub.
const ReturnedFrame = "[[llm_cache:returned "

// maxRestoredBytes limits the restored text of one request, in bytes, and maxRestoredTexts the number of texts. The
// titles between the texts are the pipeline's own, and the stored edit has little room for such
// text.
const (
	maxRestoredBytes = 96 << 10
	maxRestoredTexts = 12
)

// restoreSearch finds folded texts to restore.
type restoreSearch struct {
	*content.History
	entries []int32 // the known blocks with an entry in the ledger
	// Name returns the name of a block in its stub.
	Name func(i int) string
	// Worth reports whether a text of so many bytes is worth restoring, given the probability of
	// its need.
	Worth func(bytes int, chance float64) bool
	// Limit is the maximum size of all restored texts, in bytes.
	Limit int

	lines map[int][]uint64 // hashes of the lines of blocks
}

// Edit returns the result that carries the restored texts, from a block on, and its new value; -1
// without any text.
func (s *restoreSearch) Edit(from int) (target int, value []byte) {
	if !s.folded() {
		return -1, nil
	}
	for target = len(s.Blocks) - 1; target >= from && !s.carries(target); target-- {
	}
	if target < from {
		return -1, nil
	}
	var text []byte
	n := 0
	for _, i := range s.due() {
		original := verbatim(s.View, &s.Blocks[i])
		if len(original) > 0 && len(text)+len(original) <= s.Limit && n < maxRestoredTexts {
			n++
			title := content.Quote(fmt.Sprintf("\n\n%s%s: %s, folded above. Edits since are not in it.]]\n", ReturnedFrame,
				s.Name(i), s.what(i)))
			text = append(append(text, inner(title)...), original...)
		}
	}
	if text == nil {
		return -1, nil
	}
	value = s.View.Bytes(s.Blocks[target].Body)
	if e := s.States[target].Edit; e != nil {
		value = e.Value
	}
	return target, textBehind(value, text)
}

// folded reports whether any block of the last request is folded whole.
func (s *restoreSearch) folded() bool {
	return slices.ContainsFunc(s.entries, func(i int32) bool { return folded(&s.States[i]) })
}

// folded reports whether a block is folded whole.
func folded(s *sessioncache.BlockState) bool {
	return s.Trait != "" && s.Edit != nil && (s.Edit.Stage == stage.Prune || s.Edit.Stage == stage.Inputs)
}

// carries reports whether a text can be appended to a result.
func (s *restoreSearch) carries(i int) bool {
	b, e := &s.Blocks[i], s.States[i].Edit
	if b.Kind != wire.KindToolResult || b.Has(wire.FlagMedia) || b.Body.Empty() || e != nil &&
		(e.Stage != stage.Admission || admission.Points(e)) {
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

// textBehind appends the inside of a JSON string to the content of a result.
func textBehind(value, text []byte) []byte {
	if value[0] == '"' {
		return append(append(slices.Clone(value[:len(value)-1]), text...), '"')
	}
	parts := gjson.ParseBytes(value).Array()
	out := append(slices.Clone(value[:len(value)-1]), `,{"type":`...)
	out = append(append(out, parts[len(parts)-1].Get("type").Raw...), `,"text":"`...)
	return append(append(out, text...), `"}]`...)
}

// names yields the names of the texts restored in a result.
func names(x *sessioncache.BlockState) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if x.Edit != nil && x.Edit.Stage == stage.Restore {
			namesAfter(x.Edit.Value, ReturnedFrame)(yield)
		}
	}
}

// namesAfter yields the names after each beginning of a frame.
func namesAfter(value []byte, frame string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			_, rest, ok := bytes.Cut(value, []byte(frame))
			if !ok || !yield(rest[:min(content.IDLen, len(rest))]) {
				return
			}
			value = rest
		}
	}
}

// returnedBlocks returns the restored blocks for each result that carries any.
func returnedBlocks(h *content.History, name func(i int) string) (blocks map[int][]int) {
	var known map[string]int // restored blocks by name, -1 if the request has none
	for i := range h.States {
		for n := range names(&h.States[i]) {
			if known == nil {
				known = make(map[string]int)
			}
			known[string(n)] = -1
		}
	}
	if known == nil {
		return nil
	}
	for j := range h.States {
		if !folded(&h.States[j]) {
			continue
		}
		// A name is a keyed hash: comparing it with the stubs first saves most of the hashes.
		for n := range namesAfter(h.States[j].Edit.Value, content.StubFrame) {
			if _, ok := known[string(n)]; ok && name(j) == string(n) {
				known[string(n)] = j
			}
		}
	}
	blocks = make(map[int][]int)
	for i := range h.States {
		for n := range names(&h.States[i]) {
			if j := known[string(n)]; j >= 0 {
				blocks[i] = append(blocks[i], j)
			}
		}
	}
	return blocks
}

func (s *restoreSearch) what(i int) string {
	j := i
	if s.Blocks[i].Kind == wire.KindToolResult {
		j = s.Call(i)
	}
	if j < 0 {
		return "tool result"
	}
	// A description must not end the frame of the title.
	return strings.ReplaceAll(content.DescribeCall(s.View, &s.Blocks[j]), "]]", "] ]")
}

// written returns the text of a block. For a call this is the text that it wrote.
func (s *restoreSearch) written(i int) string {
	b := &s.Blocks[i]
	if b.Kind == wire.KindToolResult {
		return s.Text(i)
	}
	var out []string
	content.LongStrings(content.DecodedInput(content.CallInput(s.View.Bytes(b.Body))), 0, func(key string, x gjson.Result) {
		if !content.IsReplaced(key) && utf8.ValidString(x.Str) {
			out = append(out, x.Str)
		}
	})
	return strings.Join(out, "\n")
}

// verbatim returns the text of written in the client's own JSON bytes. It returns nothing for a
// call with JSON within a string.
func verbatim(v *wire.View, b *wire.Block) (out []byte) {
	// A stored edit refers to the client's bytes, so it must contain them unchanged.
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

// inner returns a JSON string without its quotes.
func inner(quoted []byte) []byte { return quoted[1 : len(quoted)-1] }

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
	for _, i := range s.entries {
		if x := &s.States[i]; folded(x) && x.File != 0 &&
			(x.Class == sessioncache.ClassRead || s.Blocks[i].Kind == wire.KindToolUse) && m.Names(x.Trait) {
			take(int(i), named)
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
		if x.Whole && x.Class == sessioncache.ClassRead && b.Kind == wire.KindToolResult ||
			x.Class == sessioncache.ClassWrite && b.Kind == wire.KindToolUse {
			return true
		}
	}
	return s.given(s.Name(i))
}

// given reports whether a text was restored before.
func (s *restoreSearch) given(name string) bool {
	for i := range s.States {
		for n := range names(&s.States[i]) {
			if string(n) == name {
				return true
			}
		}
	}
	return false
}

// quotes yields the folded blocks with a line that an edit quotes and no other block shows.
func (s *restoreSearch) quotes(call int) iter.Seq[int] {
	return func(yield func(int) bool) {
		if c := s.States[call].Class; c != sessioncache.ClassEdit && c != sessioncache.ClassCommand {
			return
		}
		for _, line := range content.Quoted(lined(content.CallInput(s.View.Bytes(s.Blocks[call].Body)))) {
			if j := s.lastWith(call, line); j >= 0 && !yield(j) {
				return
			}
		}
	}
}

// lastWith returns the last folded block before another with a line, or -1 if there is none or
// another block shows the line.
func (s *restoreSearch) lastWith(before int, line uint64) int {
	for i := before - 1; i >= 0; i-- {
		if !folded(&s.States[i]) || !s.contains(i, line) {
			continue
		}
		for j := range before {
			if !folded(&s.States[j]) && !s.Removed(j) && !admission.Points(s.States[j].Edit) && s.contains(j, line) {
				return -1
			}
		}
		return i
	}
	return -1
}

// contains reports whether a block contains a line.
func (s *restoreSearch) contains(i int, line uint64) bool {
	if t := s.States[i].Trait; t == "" || !content.ContainsLine(t, line) {
		return false
	}
	// The trait is wrong for one block in fifty, and there are many blocks: check the text itself.
	lines, known := s.lines[i]
	if !known {
		if s.lines == nil {
			s.lines = map[int][]uint64{}
		}
		lines = content.LineHashes(s.written(i))
		s.lines[i] = lines
	}
	return slices.Contains(lines, line)
}

// lined returns the input of a call. It decodes the line ends of a patch within a program.
func lined(input gjson.Result) gjson.Result {
	if strings.Contains(input.Raw, `\\n`) {
		return gjson.Result{Type: gjson.String, Str: strings.NewReplacer(`\\n`, "\n", `\n`, "\n", `\\t`, "\t", `\t`, "\t",
			`\\\"`, `"`, `\"`, `"`).Replace(input.Raw)}
	}
	return input
}
