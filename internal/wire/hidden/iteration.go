// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package hidden

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Iteration is one answer of an upstream. Several of them may make one message
// for the client: what the upstream said to the request, and to each
// continuation of it.
type Iteration struct {
	// Parts are the blocks of the answer, in order.
	Parts []Part
	// StopReason is the format's own word for why the answer ended.
	StopReason string
	// Usage is what the answer says it cost.
	Usage wire.Usage
	// Stateless tells that the upstream does not keep the answer: the ids in it
	// refer to nothing (Responses API, store: false).
	Stateless bool
	// Opaque tells that the answer holds something that cannot be repeated in
	// a request word for word.
	Opaque bool

	Reasoning int64 // of Usage.Output, where the format tells it
}

// Part is one block of an answer.
type Part struct {
	// Kind is what the block is.
	Kind wire.Kind
	// Raw is the block as JSON, as it stands in a request.
	Raw []byte
	// ID, Name and Arguments are those of a tool call; the arguments are JSON.
	ID, Name, Arguments string
	// Hidden tells that the client does not see the part: a call that is
	// answered on the way.
	Hidden bool
	// Result is the text that answers a hidden call.
	Result string
	// Failed tells that the result is an error.
	Failed bool
}

// Hidden returns the hidden calls of the iteration.
func (it *Iteration) Hidden() []*Part {
	var out []*Part
	for i := range it.Parts {
		if it.Parts[i].Hidden {
			out = append(out, &it.Parts[i])
		}
	}
	return out
}

// Raw returns the blocks of the answer, with commas between.
func (it *Iteration) Raw() (elements []byte) {
	for i := range it.Parts {
		elements = rawjson.AppendElement(elements, it.Parts[i].Raw)
	}
	return elements
}

// Complete tells that the answer was not cut short by a bound or a filter, so
// that its calls are whole.
func (it *Iteration) Complete() bool {
	switch wire.StopReasonOf(it.StopReason) {
	case wire.StopEnd, wire.StopCalls:
		return !it.Opaque
	default:
		return false
	}
}

// Asks reports whether the answer holds calls, and all of them are hidden.
func (it *Iteration) Asks() bool {
	hidden := 0
	for i := range it.Parts {
		p := &it.Parts[i]
		if p.Hidden {
			hidden++
		} else if p.Kind.IsCall() {
			return false
		}
	}
	return hidden > 0 && !it.Opaque
}

// Size is the memory that the iteration holds, in bytes.
func (it *Iteration) Size() int {
	n := 64
	for i := range it.Parts {
		p := &it.Parts[i]
		n += 120 + len(p.Raw) + len(p.ID) + len(p.Name) + len(p.Arguments) + len(p.Result)
	}
	return n
}
