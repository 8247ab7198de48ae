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

// Iteration is one answer of an upstream. Several of them may make one message
// for the client: what the upstream said to the request, and to each
// continuation of it.
type Iteration struct {
	// Parts are the blocks of the answer, in order.
	Parts []Part
	// StopReason is the format's own word for why the answer ended.
	StopReason string
	// Usage is what the answer says it cost.
	Usage Usage
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
	Kind Kind
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

// Complete tells that the answer was not cut short by a bound or a filter, so
// that its calls are whole.
func (it *Iteration) Complete() bool {
	switch it.StopReason {
	case "tool_use", "end_turn", "tool_calls", "stop", "function_call", "completed", "requires_action", "STOP":
		return !it.Opaque
	}
	return false
}

// Asks reports whether the answer holds calls, and all of them are hidden.
func (it *Iteration) Asks() bool {
	hidden := 0
	for i := range it.Parts {
		p := &it.Parts[i]
		if p.Hidden {
			hidden++
		} else if p.Kind == KindToolUse {
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

// CallHider is a [Codec] of a format in which calls can be kept from the client
// and answered on the way.
type CallHider interface {
	// Hides reports whether calls can be hidden in the answer to a request. They
	// cannot where the next request may only refer to this one.
	Hides(v *View) bool
	// DeclareTool returns an entry of tools: a function with a name, a description,
	// and a JSON schema of its arguments.
	DeclareTool(name, description, schema string) []byte
	// Intercept begins a message for the client.
	Intercept(r *ClientMessage) Interception
	// Continuation returns an answer and the results of its hidden calls as messages
	// of a request, with commas between: what to put behind the last message to have
	// the upstream go on.
	Continuation(it *Iteration) []byte
	// Reinsert returns the edits that turn a message of the client, which is the
	// model's, back into what the upstream said and was told in its course. It
	// reports false for a message that is not the one that the client was given.
	Reinsert(v *View, message int, its []Iteration) ([]Edit, bool)
}

func callHider(f Format) CallHider {
	i, _ := f.Codec().(CallHider)
	return i
}

// HidesCalls reports whether calls can be hidden in the answer to a request, see
// [CallHider.Hides].
func (v *View) HidesCalls() bool {
	i := callHider(v.Format)
	return i != nil && v.Thread.Empty() && i.Hides(v)
}

// DeclareTool is [CallHider.DeclareTool] of a format that has it.
func DeclareTool(f Format, name, description, schema string) []byte {
	return callHider(f).DeclareTool(name, description, schema)
}

// Continuation is [CallHider.Continuation] of a format that has it.
func Continuation(f Format, it *Iteration) []byte { return callHider(f).Continuation(it) }

// Reinsert returns the edits that turn a message of the client back into what the
// upstream said and was told in its course. The message must be the one that
// the client was given; if it does not look like it, Weave reports false.
func Reinsert(v *View, message int, its []Iteration) ([]Edit, bool) {
	i := callHider(v.Format)
	if i == nil || message < 0 || message >= len(v.Messages) || v.Messages[message].Role != RoleAssistant {
		return nil, false
	}
	return i.Reinsert(v, message, its)
}
