// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package wire

import "github.com/tidwall/gjson"

// anthropicEvent reads one event of a Messages stream and tells whether it is
// the last. Its type stands in the data as well as in the event's name. Pings
// and events of other types are skipped: the documentation asks clients to
// tolerate new ones.
func (a *answer) anthropicEvent(root gjson.Result, name string) bool {
	switch root.Get("type").Str {
	case "content_block_delta":
		a.anthropicDelta(root)
	case "content_block_start":
		a.anthropicBlock(root.Get("content_block"), root.Get("index").Int())
	case "message_start":
		m := root.Get("message")
		a.identify(m.Get("id").Str, m.Get("model").Str)
		a.anthropicUsage(m.Get("usage"))
	case "message_delta":
		if s := root.Get("delta.stop_reason").Str; s != "" {
			a.turn.StopReason = a.keep(s)
		}
		a.anthropicUsage(root.Get("usage"))
	case "message_stop":
		return true
	case "content_block_stop", "ping":
	default:
		a.fail(root, name)
	}
	return false
}

// anthropicDelta reads what was added to a block. Signatures, citations and the
// arguments of tools that the server runs are not part of the turn.
func (a *answer) anthropicDelta(root gjson.Result) {
	delta := root.Get("delta")
	switch delta.Get("type").Str {
	case "text_delta":
		a.write(&a.text, delta.Get("text").Str)
	case "thinking_delta":
		a.write(&a.thinking, delta.Get("thinking").Str)
	case "input_json_delta":
		if c := a.call(root.Get("index").Int()); c != nil {
			a.write(&c.arguments, delta.Get("partial_json").Str)
		}
	}
}

// anthropicBlock reads a block of content: whole in a JSON answer, as it opens
// in a stream, where its text and input are still to come as deltas.
func (a *answer) anthropicBlock(block gjson.Result, index int64) {
	switch block.Get("type").Str {
	case "text":
		a.write(&a.text, block.Get("text").Str)
	case "thinking":
		a.write(&a.thinking, block.Get("thinking").Str)
	case "redacted_thinking":
		a.begun = true
	case "tool_use":
		if c := a.open(index, block.Get("id").Str, block.Get("name").Str); c != nil {
			c.initial = a.keep(block.Get("input").Raw)
		}
	}
}

// anthropicMessage reads a JSON answer.
func (a *answer) anthropicMessage(root gjson.Result) {
	message := false
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "id":
			a.identify(value.Str, "")
		case "model":
			a.identify("", value.Str)
		case "stop_reason":
			a.turn.StopReason = a.keep(value.Str)
		case "usage":
			a.anthropicUsage(value)
		case "content":
			message = true
			a.anthropicContent(value)
		}
		return !a.broken
	})
	if !message {
		a.fail(root, "")
	}
}

func (a *answer) anthropicContent(content gjson.Result) {
	index := int64(0)
	content.ForEach(func(_, block gjson.Result) bool {
		a.anthropicBlock(block, index)
		index++
		return !a.broken
	})
}

// anthropicUsage takes in a usage object. Those of a stream are cumulative, so
// that a later one replaces an earlier one, with two exceptions: what it leaves
// out stays, and a prompt of zero tokens, which some servers report at the end,
// does not undo the one reported at the start.
func (a *answer) anthropicUsage(u gjson.Result) {
	if !u.IsObject() {
		return
	}
	total := anthropicBuckets(u, a.turn.Usage)
	sum := anthropicIterations(u.Get("iterations"), total)
	switch {
	case sum.Prompt() > 0 && sum.Prompt() >= total.Prompt() && sum.Output >= total.Output:
		total = sum
	case anthropicBuckets(u, Usage{}).Prompt() == 0:
		output := total.Output
		total = a.turn.Usage
		total.Output = output
	}
	total.Reported = total.Prompt()+total.Output > 0
	a.turn.Usage = total
}

// anthropicIterations sums the usage of the single model calls behind one
// answer. The totals of an answer leave out the calls made for compaction, for
// an advisor or before a fallback; the list holds all of them. Where it does
// not say how long its writes live, the totals do.
func anthropicIterations(list gjson.Result, total Usage) Usage {
	var sum Usage
	if !list.IsArray() {
		return sum
	}
	list.ForEach(func(_, u gjson.Result) bool {
		sum = sum.Add(anthropicBuckets(u, Usage{}))
		sum.Output = min(sum.Output, maxAnswerCount)
		return sum.Prompt() <= maxAnswerCount
	})
	if sum.Write1h == 0 {
		sum.Write1h = min(total.Write1h, sum.Write5m)
		sum.Write5m -= sum.Write1h
	}
	return sum
}

// anthropicBuckets reads the counts of one usage object over those known
// before. The buckets of this format are exclusive as they come.
func anthropicBuckets(u gjson.Result, known Usage) Usage {
	if v := u.Get("input_tokens"); v.Type == gjson.Number {
		known.Uncached = answerCount(v)
	}
	if v := u.Get("cache_read_input_tokens"); v.Type == gjson.Number {
		known.Read = answerCount(v)
	}
	if v := answerCount(u.Get("output_tokens")); v > 0 {
		known.Output = v
	}
	write := known.Write5m + known.Write1h
	if v := u.Get("cache_creation_input_tokens"); v.Type == gjson.Number {
		write = answerCount(v)
	}
	if split := u.Get("cache_creation"); split.IsObject() {
		known.Write1h = answerCount(split.Get("ephemeral_1h_input_tokens"))
		write = max(write, known.Write1h+answerCount(split.Get("ephemeral_5m_input_tokens")))
	}
	known.Write1h = min(known.Write1h, write)
	known.Write5m = write - known.Write1h
	return known
}
