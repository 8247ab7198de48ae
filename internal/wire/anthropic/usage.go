// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// finalUsage returns the usage of the last model call for the conversation itself. It returns no
// usage if the answer ended with a compaction, if there was only one call, or if the list does not
// add up to the total.
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

// readService reads the service tier, speed and region from a usage object.
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

// iterations returns the usage of each model call of an answer, nil if the list does not add up to
// the total.
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

// readUsage merges a usage object into the known usage. The objects of a stream are cumulative, so a
// later count replaces an earlier one. Missing counts stay.
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
		// Some servers report a prompt of zero tokens at the end. The prompt's usage from the start
		// of the stream stays.
		output := total.Output
		total = known
		total.Output = output
	}
	total.Reported = total.Prompt()+total.Output > 0
	return total
}

// iterationsUsage sums the usage of the model calls of one answer. The answer's totals omit the calls
// for compaction, for an advisor and before a fallback; the list holds all calls.
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
	// A list without lifetimes of its cache writes takes them from the totals.
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

// buckets merges the counts of one usage object into the known usage.
func buckets(u gjson.Result, known wire.Usage) wire.Usage {
	m := readMembers(u)
	return m.over(known)
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
		known.Write1h = wire.Count(c.split.Get("ephemeral_1h_input_tokens"))
		write = max(write, known.Write1h+wire.Count(c.split.Get("ephemeral_5m_input_tokens")))
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
