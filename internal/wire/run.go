// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"

// runLength is the number of messages that are recognised at once. The last messages of a
// request, in which clients move markers, are looked at one by one.
const runLength = 32

// run is what is remembered of a run.
type run struct {
	raw    uint64 // seeded hash of its bytes
	values int    // see [rawjson.Values]; -1 if that was not counted
}

// recallRun recognises a run of messages that begins with message i at b[at], and what
// stands between them, and returns the index behind it, or 0.
func (p *Parser) recallRun(i, at int) int {
	k := p.recognition.known
	n := i / runLength
	if k == nil || i%runLength != 0 || n >= len(k.runs) || n != len(p.recognition.runs) {
		return 0
	}
	old := k.messages[i : i+runLength]
	end := at + int(old[runLength-1].Span.End-old[0].Span.Start)
	if end > len(p.Body) || rawHash(p.Body[at:end]) != k.runs[n].raw {
		return 0
	}
	p.take(old, at)
	p.recognition.raw = append(p.recognition.raw, k.raw[i:i+runLength]...)
	p.recognition.runs = append(p.recognition.runs, k.runs[n])
	return end
}

// noteRun notes the bytes of a run that the last message has completed.
func (p *Parser) noteRun() {
	all := p.View.Messages
	if len(all) != (len(p.recognition.runs)+1)*runLength {
		return
	}
	bytes := spanOf(all[len(all)-runLength:]).Of(p.Body)
	p.recognition.runs = append(p.recognition.runs, run{rawHash(bytes), -1})
}

// spanOf is where messages in a row stand.
func spanOf(m []Message) rawjson.Span {
	return rawjson.Span{Start: m[0].Span.Start, End: m[len(m)-1].Span.End}
}

// weigh fails a body that holds more values than are read, before any message is that does not
// stand in a known run. Of long conversations only what is behind such runs is counted.
func (p *Parser) weigh() bool {
	if p.weighed || len(p.Body) <= rawjson.MaxValues {
		return true
	}
	p.weighed = true
	rest, left := p.Body, rawjson.MaxValues
	if runs := p.recognition.runs; len(runs) > 0 {
		known := p.View.Messages[:len(runs)*runLength]
		for i := range runs {
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
