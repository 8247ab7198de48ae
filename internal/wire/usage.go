// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Counted is the meaning of a member of a usage object.
type Counted uint8

// The meanings of members, in APIs that include cache reads and writes in the prompt count.
const (
	CountNothing   Counted = iota
	CountPrompt            // the prompt
	CountTools             // prompt tokens of the provider's own tools, in addition to CountPrompt
	CountRead              // tokens read from the cache
	CountWrite             // tokens written to the cache
	CountLongWrite         // the part of CountWrite with the long lifetime
	CountOutput            // the output
	CountReasoning         // the part of the output for reasoning
	CountAnswer            // the output without reasoning
	CountThoughts          // the reasoning in addition to CountAnswer
	CountTotal             // prompt and output, for vendors that exclude reasoning from the output
	CountSum               // prompt and output; written, never read
	counted
)

// UsageMember is a member of a usage object.
type UsageMember struct {
	Name  string
	Count Counted
	// Alias: another vendor's name, only read.
	Alias bool
	// Sparse: only written if not zero.
	Sparse bool
	// In are the members of an object member.
	In []UsageMember
}

// UsageTable lists the members of a usage object in the order of writing.
type UsageTable []UsageMember

// Read reads a usage object into c, replacing earlier counts. It reports whether the object has any
// count.
func (t UsageTable) Read(c *Counts, u gjson.Result) bool {
	var n [counted]int64
	t.read(&n, u)
	// Some vendors only report the parts of the output.
	prompt, output := n[CountPrompt], max(n[CountOutput], n[CountAnswer]+n[CountThoughts])
	if prompt+output == 0 {
		return false
	}
	// Uncached must not become negative.
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

// Append writes the members of a usage object, separated by commas.
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
				// An object without members is omitted.
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
