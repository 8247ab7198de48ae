// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// answer reads answers of the Messages API.
type answer struct{ *wire.Answer }

// event reads one event of a Messages stream and reports whether it is
// the last. Its type stands in the data as well as in the event's name. Pings
// and events of other types are skipped: the documentation asks clients to
// tolerate new ones.
func (a answer) event(root gjson.Result, name string) bool {
	var kind, index, delta, block, message, usage, management gjson.Result
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "type":
			first(&kind, value)
		case "index":
			first(&index, value)
		case "delta":
			first(&delta, value)
		case "content_block":
			first(&block, value)
		case "message":
			first(&message, value)
		case "usage":
			first(&usage, value)
		case "context_management":
			first(&management, value)
		}
		return true
	})
	switch kind.Str {
	case "content_block_delta":
		a.delta(delta, index)
	case "content_block_start":
		a.block(block, index.Int())
	case "message_start":
		a.Identify(message.Get("id").Str, message.Get("model").Str)
		a.usage(message.Get("usage"))
	case "message_delta":
		if s := delta.Get("stop_reason").Str; s != "" {
			a.Turn.StopReason = a.Keep(s)
		}
		a.usage(usage)
		a.management(management)
	case "message_stop":
		return true
	case "content_block_stop", "ping":
	default:
		a.Fail(root, name)
	}
	return false
}

// delta reads what was added to a block. Signatures, citations and the
// arguments of tools that the server runs are not part of the turn.
func (a answer) delta(delta, index gjson.Result) {
	var kind, text, thinking, input gjson.Result
	delta.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "type":
			first(&kind, value)
		case "text":
			first(&text, value)
		case "thinking":
			first(&thinking, value)
		case "partial_json":
			first(&input, value)
		}
		return true
	})
	switch kind.Str {
	case "text_delta":
		a.Write(&a.Text, text.Str)
	case "thinking_delta":
		a.Write(&a.Thinking, thinking.Str)
	case "input_json_delta":
		if c := a.Call(index.Int()); c != nil {
			a.Write(&c.Arguments, input.Str)
		}
	}
}

// first keeps the first of several members of a name.
func first(to *gjson.Result, value gjson.Result) {
	if !to.Exists() {
		*to = value
	}
}

// block reads a block of content: whole in a JSON answer, as it opens
// in a stream, where its text and input are still to come as deltas.
func (a answer) block(block gjson.Result, index int64) {
	switch block.Get("type").Str {
	case "text":
		a.Write(&a.Text, block.Get("text").Str)
	case "thinking":
		a.Write(&a.Thinking, block.Get("thinking").Str)
	case "redacted_thinking":
		a.Begun = true
	case "compaction":
		a.Turn.Compacted = true
	case "tool_use":
		if c := a.Open(index, block.Get("id").Str, block.Get("name").Str); c != nil {
			c.Initial = a.Keep(block.Get("input").Raw)
		}
	}
}

// message reads a JSON answer.
func (a answer) message(root gjson.Result) {
	message := false
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "id":
			a.Identify(value.Str, "")
		case "model":
			a.Identify("", value.Str)
		case "stop_reason":
			a.Turn.StopReason = a.Keep(value.Str)
		case "usage":
			a.usage(value)
		case "context_management":
			a.management(value)
		case "content":
			message = true
			a.content(value)
		}
		return !a.Broken
	})
	if !message {
		a.Fail(root, "")
	}
}

func (a answer) content(content gjson.Result) {
	index := int64(0)
	content.ForEach(func(_, block gjson.Result) bool {
		a.block(block, index)
		index++
		return !a.Broken
	})
}

// management reads what the provider has left out of the prompt.
func (a answer) management(v gjson.Result) {
	if !v.IsObject() {
		return
	}
	var c wire.Cleared
	v.Get("applied_edits").ForEach(func(_, e gjson.Result) bool {
		thinking, tokens := wire.Count(e.Get("cleared_thinking_turns")), wire.Count(e.Get("cleared_input_tokens"))
		c.ToolUses = min(c.ToolUses+wire.Count(e.Get("cleared_tool_uses")), wire.MaxCount)
		c.Thinking = min(c.Thinking+thinking, wire.MaxCount)
		if c.Tokens = min(c.Tokens+tokens, wire.MaxCount); thinking > 0 {
			c.ThinkingTokens = min(c.ThinkingTokens+tokens, wire.MaxCount)
		}
		return true
	})
	a.Turn.Cleared = c
}

// usage takes in a usage object, and which part of it was for the last call.
func (a answer) usage(u gjson.Result) {
	a.Turn.Usage = readUsage(a.Turn.Usage, u)
	a.Turn.Service = readService(u).Or(a.Turn.Service)
	if list := u.Get("iterations"); list.IsArray() {
		a.Turn.Final = finalUsage(list, a.Turn.Usage)
		a.Turn.Iterations = iterations(list, a.Turn.Usage)
	}
}

// finalUsage returns the usage of the last call that was for the conversation itself:
// none if the answer ended with a compaction. It is not reported if there was but one
// call, or if the list is not part of the total.
func finalUsage(list gjson.Result, total wire.Usage) wire.Usage {
	var final, sum wire.Usage
	apart, n := false, 0
	list.ForEach(func(_, u gjson.Result) bool {
		one := buckets(u, wire.Usage{})
		sum = sum.Add(one)
		switch kind := u.Get("type").Str; {
		case kind == "compaction":
			final, apart = wire.Usage{}, true
		case strings.HasPrefix(kind, "advisor"):
			apart = true
		default:
			final, apart = one, apart || n > 0
			n++
		}
		return sum.Prompt() <= wire.MaxCount
	})
	if !apart || sum.Prompt() != total.Prompt() {
		return wire.Usage{}
	}
	final.Reported = true
	return final
}

// readService reads how a usage object says that the answer was served.
func readService(u gjson.Result) (s wire.Service) {
	u.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "service_tier":
			s |= wire.ServiceTier(value.Str)
		case "speed":
			s |= wire.ServiceSpeed(value.Str)
		case "inference_geo":
			s |= wire.ServiceGeo(value.Str)
		}
		return true
	})
	return s
}

// iterations returns the usage of each call behind an answer, nil where the list does
// not add up to the total.
func iterations(list gjson.Result, total wire.Usage) (each []wire.Usage) {
	var sum wire.Usage
	list.ForEach(func(_, u gjson.Result) bool {
		one := buckets(u, wire.Usage{})
		sum, each = sum.Add(one), append(each, one)
		return len(each) < wire.MaxCalls
	})
	if sum.Reported = total.Reported; sum != total {
		return nil
	}
	return each
}

// readUsage takes in a usage object. Those of a stream are cumulative, so
// that a later one replaces an earlier one, with two exceptions: what it leaves
// out stays, and a prompt of zero tokens, which some servers report at the end,
// does not undo the one reported at the start.
func readUsage(known wire.Usage, u gjson.Result) wire.Usage {
	if !u.IsObject() {
		return known
	}
	counts := readMembers(u)
	total := counts.over(known)
	sum := iterationsUsage(counts.iterations, total)
	switch {
	case sum.Prompt() > 0 && sum.Prompt() >= total.Prompt() && sum.Output >= total.Output:
		total = sum
	case counts.over(wire.Usage{}).Prompt() == 0:
		output := total.Output
		total = known
		total.Output = output
	}
	total.Reported = total.Prompt()+total.Output > 0
	return total
}

// iterationsUsage sums the usage of the single model calls behind one
// answer. The totals of an answer leave out the calls made for compaction, for
// an advisor or before a fallback; the list holds all of them. Where it does
// not say how long its writes live, the totals do.
func iterationsUsage(list gjson.Result, total wire.Usage) wire.Usage {
	var sum wire.Usage
	if !list.IsArray() {
		return sum
	}
	list.ForEach(func(_, u gjson.Result) bool {
		sum = sum.Add(buckets(u, wire.Usage{}))
		sum.Output = min(sum.Output, wire.MaxCount)
		return sum.Prompt() <= wire.MaxCount
	})
	if sum.Write1h == 0 {
		sum.Write1h = min(total.Write1h, sum.Write5m)
		sum.Write5m -= sum.Write1h
	}
	return sum
}

// usageMembers are the members of a usage object.
type usageMembers struct {
	input, read, output, write, split, iterations gjson.Result
}

func readMembers(u gjson.Result) (c usageMembers) {
	if !u.IsObject() {
		return c
	}
	u.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "input_tokens":
			first(&c.input, value)
		case "cache_read_input_tokens":
			first(&c.read, value)
		case "output_tokens":
			first(&c.output, value)
		case "cache_creation_input_tokens":
			first(&c.write, value)
		case "cache_creation":
			first(&c.split, value)
		case "iterations":
			first(&c.iterations, value)
		}
		return true
	})
	return c
}

// buckets reads the counts of one usage object over those known before.
func buckets(u gjson.Result, known wire.Usage) wire.Usage {
	m := readMembers(u)
	return m.over(known)
}

// over returns the counts over those known before. The buckets of this format
// are exclusive as they come.
func (c *usageMembers) over(known wire.Usage) wire.Usage {
	if c.input.Type == gjson.Number {
		known.Uncached = wire.Count(c.input)
	}
	if c.read.Type == gjson.Number {
		known.Read = wire.Count(c.read)
	}
	if v := wire.Count(c.output); v > 0 {
		known.Output = v
	}
	write := known.Write5m + known.Write1h
	if c.write.Type == gjson.Number {
		write = wire.Count(c.write)
	}
	if c.split.IsObject() {
		known.Write1h = wire.Count(c.split.Get("ephemeral_1h_input_tokens"))
		write = max(write, known.Write1h+wire.Count(c.split.Get("ephemeral_5m_input_tokens")))
	}
	known.Write1h = min(known.Write1h, write)
	known.Write5m = write - known.Write1h
	return known
}
