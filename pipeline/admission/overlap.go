// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

const (
	// minOverlap is the minimum number of bytes in repeated lines for a note in their place.
	minOverlap = 300
	// maxPassages limits the blocks about a file that a read of it is compared with, the latest
	// first.
	maxPassages = 16
	// maxCompared limits the bytes of such blocks in one request, all reads together: the files of
	// a full context, compared sixteen times.
	maxCompared = 64 << 20
	// maxPlaces limits the places of one line to compare.
	maxPlaces = 8
)

// passage holds the lines of a file in an earlier block.
type passage struct {
	block int
	lines []string
}

// place is a line of a passage.
type place struct {
	passage, line int
	next          int // the next place of an equal line, as an index plus one; 0 for none
}

// placesOf returns the places of all lines worth a note, and by line the first one, as an index plus one.
func placesOf(passages []passage) (all []place, first map[string]int) {
	n := 0
	for p := range passages {
		n += len(passages[p].lines)
	}
	all, first = make([]place, 0, n), make(map[string]int, n)
	for p := range slices.Backward(passages) {
		for l, line := range slices.Backward(passages[p].lines) {
			if len(line) >= 8 {
				all = append(all, place{p, l, first[line]})
				first[line] = len(all)
			}
		}
	}
	return all, first
}

// overlap removes from a file read the lines that earlier blocks show unchanged: reads of the file,
// and calls that wrote it. value is the shortened content of the read, nil if it is as in the
// request. It returns "" if there are none.
func overlap(h *content.History, i int, value []byte) string {
	s := &h.States[i]
	if s.Class != sessioncache.ClassRead || s.Path == 0 {
		return ""
	}
	passages := passages(h, i)
	if len(passages) == 0 {
		return ""
	}
	text := h.Text(i)
	if value != nil {
		text = content.Unquote(value)
	}
	if len(text) < minOverlap {
		return ""
	}
	places, first := placesOf(passages)
	lines := slices.AppendSeq(make([]string, 0, strings.Count(text, "\n")+1), strings.Lines(text))
	bare := make([]string, len(lines))
	for l, line := range lines {
		bare[l] = bareLine(line)
	}
	var out strings.Builder
	write := func(lines []string) {
		for _, line := range lines {
			out.WriteString(line)
		}
	}
	copied := 0 // in lines
	for l := 0; l < len(lines); {
		run, of := 0, 0
		for k, next := 0, first[bare[l]]; next > 0 && k < maxPlaces; k++ {
			at := &places[next-1]
			next = at.next
			n := 1
			for there := passages[at.passage].lines; l+n < len(bare) && at.line+n < len(there) &&
				bare[l+n] == there[at.line+n]; {
				n++
			}
			if n > run {
				run, of = n, at.passage
			}
		}
		if run > 2 && length(lines[l+1:l+run-1]) >= minOverlap {
			// The first and the last line of a run stay, to show its place in the file.
			write(lines[copied : l+1])
			j := passages[of].block
			h.States[j].Unused = 0
			fmt.Fprintf(&out, "%s%d lines as in %s above (%s)]\n", Note, run-2, named(h, j), h.View.Text(h.Blocks[j].ID))
			copied = l + run - 1
		}
		l += max(run, 1)
	}
	if copied == 0 {
		return ""
	}
	write(lines[copied:])
	s.Relies = true
	return out.String()
}

// passages returns the lines of a file in the blocks before a read, as they are sent.
func passages(h *content.History, i int) []passage {
	var out []passage
	looks := 0
	for j := range h.About(i, h.States[i].Path) {
		if looks++; len(out) == maxPassages || looks > content.MaxAlike || h.Compared > maxCompared {
			break
		}
		if h.Blocks[j].Body.Len() < minOverlap {
			continue
		}
		h.Compared += h.Blocks[j].Body.Len()
		switch h.Blocks[j].Kind {
		case wire.KindToolResult:
			if h.States[j].Class == sessioncache.ClassRead && visible(h, j) && pointable(&h.Blocks[j]) {
				out = append(out, passage{j, bareLines(shown(h, j))})
			}
		case wire.KindToolUse:
			for _, text := range written(h, j) {
				out = append(out, passage{j, bareLines(text)})
			}
		}
	}
	return out
}

// shown returns the sent text of a result.
func shown(h *content.History, j int) string {
	if e := h.States[j].Edit; e != nil {
		return gjson.ParseBytes(e.Value).String()
	}
	return content.Of(h.View, &h.Blocks[j])
}

// written returns the long texts that a call writes into a file, as they are sent.
func written(h *content.History, j int) []string {
	body := h.View.Bytes(h.Blocks[j].Body)
	if e := h.States[j].Edit; e != nil {
		body = e.Value
	}
	input := gjson.ParseBytes(body)
	if input.Type == gjson.String {
		input = gjson.Parse(input.Str)
	}
	var out []string
	content.LongStrings(input, 0, func(key string, x gjson.Result) {
		if !content.IsReplaced(key) && len(x.Str) >= minOverlap {
			out = append(out, x.Str)
		}
	})
	return out
}

// named describes a call, or the call of a result, in a few words.
func named(h *content.History, j int) string {
	if h.Blocks[j].Kind == wire.KindToolResult {
		return "the result of " + calledFor(h, j)
	}
	return "the call of " + content.DescribeCall(h.View, &h.Blocks[j])
}

func bareLines(text string) []string {
	lines := strings.Split(text, "\n")
	for l, line := range lines {
		lines[l] = bareLine(line)
	}
	return lines
}

// bareLine returns a line without the line number of a tool.
func bareLine(line string) string {
	pad, n, sep := plain.numberedLine(line)
	if n > 0 {
		line = line[pad+n+sep:]
	}
	return chomp(line)
}

func length(lines []string) (n int) {
	for _, line := range lines {
		n += len(line)
	}
	return n
}
