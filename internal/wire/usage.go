// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Counted is what a member of a usage object counts.
type Counted uint8

// What members count, in APIs whose prompt includes what was read from a cache and written
// to one.
const (
	CountNothing   Counted = iota
	CountPrompt            // the prompt
	CountTools             // what the provider's own tools have put into the prompt, on top of it
	CountRead              // what was read from the cache
	CountWrite             // what was written to it
	CountLongWrite         // the part of that which lives for the long lifetime
	CountOutput            // the output
	CountReasoning         // the part of the output that was reasoning
	CountAnswer            // the output without the reasoning
	CountThoughts          // the reasoning beside CountAnswer
	CountTotal             // prompt and output, for vendors that leave reasoning out of the latter
	CountSum               // prompt and output, written and not read
	counted
)

// UsageMember is a member of a usage object.
type UsageMember struct {
	Name  string
	Count Counted
	// Alias: other vendors' name, read and not written.
	Alias bool
	// Sparse: written if it is not zero.
	Sparse bool
	// In are the members of a member that is an object.
	In []UsageMember
}

// UsageTable are the members of a usage object, in the order in which they are written.
type UsageTable []UsageMember

// Read takes in a usage object, which replaces one that came before, and reports whether it
// counts anything.
func (t UsageTable) Read(c *Counts, u gjson.Result) bool {
	var n [counted]int64
	t.read(&n, u)
	prompt, output := n[CountPrompt], max(n[CountOutput], n[CountAnswer]+n[CountThoughts])
	if prompt+output == 0 {
		return false
	}
	read := min(n[CountRead], prompt)
	write := min(n[CountWrite], prompt-read)
	long := min(n[CountLongWrite], write)
	c.Usage = Usage{
		Uncached: prompt - read - write + n[CountTools],
		Write5m:  write - long, Write1h: long, Read: read,
		Output:   max(output, n[CountTotal]-prompt),
		Reported: true,
	}
	if reasoning := n[CountReasoning] + n[CountThoughts]; reasoning > 0 && reasoning <= c.Usage.Output {
		c.Reasoning = reasoning
	}
	return true
}

func (t UsageTable) read(n *[counted]int64, u gjson.Result) {
	if !u.IsObject() {
		return
	}
	u.ForEach(func(key, value gjson.Result) bool {
		if i := slices.IndexFunc(t, func(m UsageMember) bool { return m.Name == key.Str }); i >= 0 {
			m := &t[i]
			n[m.Count] = max(n[m.Count], Count(value))
			UsageTable(m.In).read(n, value)
		}
		return true
	})
}

// Append writes the members of a usage object, with commas between.
func (t UsageTable) Append(b []byte, u Usage, reasoning int64) []byte {
	reasoning = min(reasoning, u.Output)
	n := [counted]int64{
		CountPrompt: u.Prompt(), CountRead: u.Read, CountWrite: u.Write5m + u.Write1h, CountLongWrite: u.Write1h,
		CountOutput: u.Output, CountReasoning: reasoning, CountAnswer: u.Output - reasoning, CountThoughts: reasoning,
		CountTotal: u.Prompt() + u.Output, CountSum: u.Prompt() + u.Output,
	}
	b, _ = t.append(b, &n)
	return b
}

func (t UsageTable) append(b []byte, n *[counted]int64) (_ []byte, some bool) {
	for i := range t {
		m, from := &t[i], len(b)
		switch {
		case m.Alias, m.In == nil && m.Sparse && n[m.Count] == 0:
			continue
		case m.In == nil:
			b = rawjson.AppendCount(b, m.Name, n[m.Count])
		default:
			b = append(append(append(b, '"'), m.Name...), `":{`...)
			var any bool
			if b, any = UsageTable(m.In).append(b, n); !any {
				b = b[:from]
				continue
			}
			b = append(b, "},"...)
		}
		some = true
	}
	if some {
		b = b[:len(b)-1]
	}
	return b, some
}
