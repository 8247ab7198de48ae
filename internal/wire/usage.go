// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/tidwall/gjson"

// ReadUsage adds what an answer says about its own cost to what is known of it.
// The object is the JSON of the member that holds the counts: usage, or
// usageMetadata in the Gemini format. Its counts are bounded and put into
// exclusive buckets, as those of a stream are.
func ReadUsage(f Format, known Usage, object string) Usage {
	if c := f.Codec(); c != nil {
		return c.Usage(known, gjson.Parse(object))
	}
	return known
}

// ReadTimings reads the timings of a llama.cpp server, which stand in the place
// of a usage that the client did not ask for.
func ReadTimings(object string) Usage {
	if t := gjson.Parse(object); t.IsObject() {
		return Timings(t)
	}
	return Usage{}
}

// Timings reads the timings of a llama.cpp server as a usage.
func Timings(t gjson.Result) Usage {
	return Usage{
		Uncached: Count(t.Get("prompt_n")),
		Read:     Count(t.Get("cache_n")),
		Output:   Count(t.Get("predicted_n")),
		Reported: true,
	}
}
