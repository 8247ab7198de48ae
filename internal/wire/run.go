// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"

// runLength is the number of messages in a run, the unit of recognition. The remaining messages are
// compared one by one, because clients move markers in the last messages of a request.
const runLength = 32

// run is the byte hash of one run.
type run struct {
	raw    uint64 // seeded hash of the bytes
	values int    // see [rawjson.Values]; -1 if not counted
}

// recallRun recognises the run of messages from message i at b[at], with the bytes between them. It
// returns the index after the run, or 0.
func (p *Parser) recallRun(i, at int) int {
	k := p.recognition.known
	n := i / runLength
	if k == nil || i%runLength != 0 || n >= len(k.runs) || n != len(p.recognition.runs) {
		return 0
	}
	old := k.messages[i : i+runLength]
	// The hash covers the bytes between the messages, too.
	end := at + int(old[runLength-1].Span.End-old[0].Span.Start)
	if end > len(p.Body) || rawHash(p.Body[at:end]) != k.runs[n].raw {
		return 0
	}
	p.take(old, at)
	p.recognition.raw = append(p.recognition.raw, k.raw[i:i+runLength]...)
	p.recognition.runs = append(p.recognition.runs, k.runs[n])
	return end
}

// noteRun records the run that the last message completes, if any.
func (p *Parser) noteRun() {
	all := p.View.Messages
	if len(all) != (len(p.recognition.runs)+1)*runLength {
		return
	}
	bytes := spanOf(all[len(all)-runLength:]).Of(p.Body)
	p.recognition.runs = append(p.recognition.runs, run{rawHash(bytes), -1})
}

// spanOf returns the span of consecutive messages.
func spanOf(m []Message) rawjson.Span {
	return rawjson.Span{Start: m[0].Span.Start, End: m[len(m)-1].Span.End}
}

// weigh rejects a body with more than [rawjson.MaxValues] values. It runs before the first message
// outside of a known run is read.
func (p *Parser) weigh() bool {
	if p.weighed || len(p.Body) <= rawjson.MaxValues {
		return true
	}
	p.weighed = true
	rest, left := p.Body, rawjson.MaxValues
	if runs := p.recognition.runs; len(runs) > 0 {
		known := p.View.Messages[:len(runs)*runLength]
		for i := range runs {
			// The counts of known runs are cached, so a long conversation only needs a count of the
			// rest.
			if runs[i].values < 0 {
				runs[i].values = rawjson.Values(spanOf(known[i*runLength:][:runLength]).Of(p.Body))
			}
			left -= runs[i].values
		}
		where := spanOf(known)
		left -= rawjson.Values(p.Body[:where.Start])
		rest = p.Body[where.End:]
	}
	if rawjson.Exceeds(rest, left) {
		p.Fail(ErrCrowded)
		return false
	}
	return true
}
