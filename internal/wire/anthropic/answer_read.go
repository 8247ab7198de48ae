// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"cmp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// answerReader reads answers of the Messages API. It omits the blocks of tools that the provider
// runs itself.
type answerReader struct {
	wire.Teller
	stopped bool // a stop reason was read
}

// Event implements [wire.AnswerReader].
func (r *answerReader) Event(root gjson.Result, name string) {
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
	r.Index = -1
	if index.Exists() {
		r.Index = index.Int()
	}
	// Both the data and the event's name have the type.
	switch cmp.Or(kind.Str, name) {
	case "content_block_delta":
		r.delta(delta)
	case "content_block_start":
		r.Open(index.Int(), block)
		r.block(block, false)
	case "content_block_stop":
		if call := r.Find(index.Int()); r.IsOpen(call) {
			r.EndCall(call, "")
		} else {
			r.EndBlock()
		}
		r.Close("")
	case "message_start":
		r.count(message.Get("usage"))
		r.Begin(message.Get("id").Str, message.Get("model").Str)
	case "message_delta":
		r.count(usage)
		if management.IsObject() {
			r.management(management)
		}
		r.stop(delta)
	case "message_stop":
		r.End()
	case "ping":
		r.Ping("")
	default:
		// The documentation asks clients to tolerate unknown types of events.
		r.FailIf(root, name)
	}
}

// Whole implements [wire.AnswerReader].
func (r *answerReader) Whole(root gjson.Result) {
	r.count(root.Get("usage"))
	content := root.Get("content")
	if !content.Exists() {
		r.NoAnswer(root)
		return
	}
	if management := root.Get("context_management"); management.IsObject() {
		r.management(management)
	}
	r.Begin(root.Get("id").Str, root.Get("model").Str)
	index := int64(0)
	content.ForEach(func(_, block gjson.Result) bool {
		r.Open(index, block)
		r.block(block, true)
		r.Close(block.Raw)
		index++
		return true
	})
	r.stop(root)
	r.End()
}

// Done implements [wire.AnswerReader]. It does nothing: some servers send [DONE] after message_stop.
func (r *answerReader) Done() {}

// EOF implements [wire.AnswerReader].
func (r *answerReader) EOF() {
	// A stream with a stop reason is complete even if the server sent no message_stop.
	if r.stopped {
		r.End()
	}
}

// block reads a block of content.
func (r *answerReader) block(block gjson.Result, whole bool) {
	switch block.Get("type").Str {
	case "text":
		r.Text(rawjson.Inner(block.Get("text")))
	case "thinking":
		r.Thinking(rawjson.Inner(block.Get("thinking")))
		r.Sign(wire.SignsBlock, "", block.Get("signature").Str)
	case "redacted_thinking":
		r.Sign(wire.SignsRedacted, "", block.Get("data").Str)
	case "compaction":
		r.Tell(wire.Event{Kind: wire.EventCompacted})
	case "tool_use":
		call := r.Call(r.Index, wire.Event{
			ID: block.Get("id").Str, Name: block.Get("name").Str, Text: rawjson.View(rawjson.Escaped(block.Get("input").Raw)),
		})
		if whole {
			r.EndCall(call, "")
		}
		return
	}
	// In a stream, text and input follow as deltas.
	if whole {
		r.EndBlock()
	}
}

// delta reads the delta of a block.
func (r *answerReader) delta(delta gjson.Result) {
	var kind, text, thinking, signature, input gjson.Result
	delta.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "type":
			first(&kind, value)
		case "text":
			first(&text, value)
		case "thinking":
			first(&thinking, value)
		case "signature":
			first(&signature, value)
		case "partial_json":
			first(&input, value)
		}
		return true
	})
	switch kind.Str {
	case "text_delta":
		r.Text(rawjson.Inner(text))
	case "thinking_delta":
		r.Thinking(rawjson.Inner(thinking))
	case "signature_delta":
		r.Sign(wire.SignsBlock, "", signature.Str)
	case "input_json_delta":
		if call := r.Find(r.Index); call >= 0 {
			r.Arguments(call, rawjson.Inner(input))
		} else { // input of a tool that the provider runs itself
			r.Piece("", rawjson.Inner(input))
		}
	case "citations_delta":
		r.Piece(delta.Raw, "")
	default:
		r.Opaque()
	}
}

func (r *answerReader) stop(delta gjson.Result) {
	reason := delta.Get("stop_reason").Str
	r.stopped = r.stopped || reason != ""
	r.Stop(reason, rawjson.Inner(delta.Get("stop_sequence")))
}

// count reads a usage object.
func (r *answerReader) count(u gjson.Result) {
	if !u.IsObject() {
		return
	}
	// The objects of a stream are cumulative, so a later count replaces an earlier one. Missing counts stay.
	c, m := &r.Counts, readMembers(u)
	total, sum := m.over(c.Usage), wire.Usage{}
	if m.iterations.IsArray() {
		sum = iterationsUsage(m.iterations, total)
	}
	switch {
	case sum.Prompt() > 0 && sum.Prompt() >= total.Prompt() && sum.Output >= total.Output:
		total = sum
	case m.over(wire.Usage{}).Prompt() == 0:
		// Some servers report a prompt of zero tokens at the end. The prompt's usage from the start
		// of the stream stays.
		output := total.Output
		total = c.Usage
		total.Output = output
	}
	total.Reported = total.Prompt()+total.Output > 0
	c.Usage = total
	if n := m.details.Get("reasoning_tokens").Int(); n > 0 && n <= c.Usage.Output {
		c.Reasoning = n
	}
	c.Service = m.service.Or(c.Service)
	if m.iterations.IsArray() {
		c.Final, c.Iterations = finalUsage(m.iterations, total), iterations(m.iterations, total)
	}
	r.Count()
}

// management reads the context edits that the provider applied to the prompt.
func (r *answerReader) management(v gjson.Result) {
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
	r.Tell(wire.Event{Kind: wire.EventCleared, Cleared: &c})
}

// finalUsage returns the usage of the last model call for the conversation itself, if it differs from the answer's.
func finalUsage(list gjson.Result, total wire.Usage) wire.Usage {
	var final, sum wire.Usage
	apart, n := false, 0
	list.ForEach(func(_, u gjson.Result) bool {
		one := buckets(u)
		sum = sum.Add(one)
		switch kind := u.Get("type").Str; {
		case kind == "compaction":
			// After a compaction no call for the conversation has followed yet.
			final, apart = wire.Usage{}, true
		case strings.HasPrefix(kind, "advisor"):
			apart = true
		default:
			final, apart = one, apart || n > 0
			n++
		}
		return sum.Prompt() <= wire.MaxCount
	})
	// A list that does not add up to the total is incomplete.
	if !apart || sum.Prompt() != total.Prompt() {
		return wire.Usage{}
	}
	final.Reported = true
	return final
}

// iterations returns the usage of each model call of an answer.
func iterations(list gjson.Result, total wire.Usage) (each []wire.Usage) {
	var sum wire.Usage
	list.ForEach(func(_, u gjson.Result) bool {
		one := buckets(u)
		sum, each = sum.Add(one), append(each, one)
		return len(each) < wire.MaxCalls
	})
	// The list may be incomplete.
	if sum.Reported = total.Reported; sum != total {
		return nil
	}
	return each
}

// iterationsUsage sums the usage of the model calls of one answer.
func iterationsUsage(list gjson.Result, total wire.Usage) wire.Usage {
	var sum wire.Usage
	list.ForEach(func(_, u gjson.Result) bool {
		// The answer's totals omit the calls for compaction, for an advisor and before a fallback.
		sum = sum.Add(buckets(u))
		sum.Output = min(sum.Output, wire.MaxCount)
		return sum.Prompt() <= wire.MaxCount
	})
	// A list without lifetimes of its cache writes takes them from the totals.
	if sum.Write1h == 0 {
		sum.Write1h = min(total.Write1h, sum.Write5m)
		sum.Write5m -= sum.Write1h
	}
	return sum
}

// usageMembers are the members of a usage object.
type usageMembers struct {
	input, read, output, write, split, details, iterations gjson.Result

	write5m, write1h int64 // of split
	service          wire.Service
}

func readMembers(u gjson.Result) (c usageMembers) {
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
		case "output_tokens_details":
			first(&c.details, value)
		case "iterations":
			first(&c.iterations, value)
		case "service_tier":
			c.service |= wire.ServiceTier(value.Str)
		case "speed":
			c.service |= wire.ServiceSpeed(value.Str)
		case "inference_geo":
			c.service |= wire.ServiceGeo(value.Str)
		}
		return true
	})
	if c.split.IsObject() {
		c.write5m = wire.Count(c.split.Get("ephemeral_5m_input_tokens"))
		c.write1h = wire.Count(c.split.Get("ephemeral_1h_input_tokens"))
	}
	return c
}

// buckets returns the counts of one usage object of the list.
func buckets(u gjson.Result) wire.Usage {
	if !u.IsObject() {
		return wire.Usage{}
	}
	m := readMembers(u)
	return m.over(wire.Usage{})
}

// over merges the counts into the known usage. The counts of this format do not overlap.
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
		known.Write1h = c.write1h
		write = max(write, c.write1h+c.write5m)
	}
	known.Write1h = min(known.Write1h, write)
	known.Write5m = write - known.Write1h
	return known
}

// first keeps the first of several members with one name.
func first(to *gjson.Result, value gjson.Result) {
	if !to.Exists() {
		*to = value
	}
}
