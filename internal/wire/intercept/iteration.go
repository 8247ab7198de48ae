// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Iteration is one answer of an upstream, to the request or to a continuation of it. Several
// iterations may form one message for the client.
type Iteration struct {
	// Parts are the blocks of the answer, in order.
	Parts []Part
	// StopReason is the stop reason in the format's own words.
	StopReason string
	// Usage is the reported usage of the answer.
	Usage wire.Usage
	// Stateless: the upstream does not store the answer, so its ids refer to nothing (Responses
	// API, store: false).
	Stateless bool
	// Opaque: the answer has content that a request cannot repeat exactly.
	Opaque bool

	Reasoning int64 // part of Usage.Output, if reported
}

// Part is one block of an answer.
type Part struct {
	// Kind is the type of the block.
	Kind wire.Kind
	// Raw is the block's JSON in its form for a request.
	Raw []byte
	// ID, Name and Arguments describe a tool call. The arguments are JSON.
	ID, Name, Arguments string
	// Intercepted: the part is a call answered on the way, which the client does not get.
	Intercepted bool
	// Result is the result text of a intercepted call.
	Result string
	// Failed: the result is an error.
	Failed bool
}

// Intercepted returns the intercepted calls of the iteration.
func (it *Iteration) Intercepted() []*Part {
	var out []*Part
	for i := range it.Parts {
		if it.Parts[i].Intercepted {
			out = append(out, &it.Parts[i])
		}
	}
	return out
}

// Raw returns the blocks of the answer, separated by commas.
func (it *Iteration) Raw() (elements []byte) {
	for i := range it.Parts {
		elements = rawjson.AppendElement(elements, it.Parts[i].Raw)
	}
	return elements
}

// Complete reports whether the answer was not cut short by a limit or filter, so that its calls are
// complete.
func (it *Iteration) Complete() bool {
	switch wire.StopReasonOf(it.StopReason) {
	case wire.StopEnd, wire.StopCalls:
		return !it.Opaque
	default:
		return false
	}
}

// Asks reports whether the answer has calls and all of them are intercepted.
func (it *Iteration) Asks() bool {
	intercepted := 0
	for i := range it.Parts {
		p := &it.Parts[i]
		if p.Intercepted {
			intercepted++
		} else if p.Kind.IsCall() {
			return false
		}
	}
	return intercepted > 0 && !it.Opaque
}

// Size returns the size of the iteration in memory, in bytes.
func (it *Iteration) Size() int {
	n := 64
	for i := range it.Parts {
		p := &it.Parts[i]
		n += 120 + len(p.Raw) + len(p.ID) + len(p.Name) + len(p.Arguments) + len(p.Result)
	}
	return n
}
