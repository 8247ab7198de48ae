// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

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

// first keeps the first of several members of a name.
func first(to *gjson.Result, value gjson.Result) {
	if !to.Exists() {
		*to = value
	}
}
