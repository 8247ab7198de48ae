// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

const (
	// MaxAnswer is the limit on the bytes gathered of one answer: its texts, the names and
	// arguments of its calls, or a JSON body.
	MaxAnswer = 32 << 20
	// MaxCalls is the limit on the tool calls of one answer. It keeps the lookup of a call by index
	// cheap.
	MaxCalls = 4096
	// MaxCount is the upper limit of a token count. Sums of counts cannot overflow below it.
	MaxCount = 1 << 40
)

// Answer collects the events of one answer. Texts stay in builders until [Answer.Snapshot] reads
// them.
type Answer struct {
	Turn           Turn // without texts and calls, see Snapshot
	Text, Thinking strings.Builder
	Calls          []*AnswerCall
	size           int  // bytes collected
	Begun          bool // the model has produced output
	Ended          bool // the terminal event was read
	Broken         bool // a limit was exceeded
}

// AnswerCall is a tool call with its arguments so far.
type AnswerCall struct {
	ID, Name  string
	Initial   string // arguments sent with the call itself
	Arguments strings.Builder
	Free      bool // the arguments are free text, not JSON
}

// Snapshot returns the turn as far as it is known.
func (a *Answer) Snapshot() *Turn {
	t := a.Turn
	t.Text, t.Thinking = a.Text.String(), a.Thinking.String()
	if len(a.Calls) > 0 {
		t.Calls = make([]Call, len(a.Calls))
	}
	for i, c := range a.Calls {
		t.Calls[i] = Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments.String(), Free: c.Free}
		// No fragments were sent: the call had its arguments from the start.
		if c.Arguments.Len() == 0 {
			t.Calls[i].Arguments = c.Initial
		}
	}
	return &t
}

// grow counts n more bytes. It returns false once the total exceeds [MaxAnswer].
func (a *Answer) grow(n int) bool {
	a.size += n
	a.Broken = a.Broken || a.size > MaxAnswer
	return !a.Broken
}

// write appends model output to a builder.
func (a *Answer) write(to *strings.Builder, s string) {
	if s == "" || !a.grow(len(s)) {
		return
	}
	a.Begun = true
	to.WriteString(s)
}

// keep copies s, because event strings are views of the decoder's buffer.
func (a *Answer) keep(s string) string {
	if !a.grow(len(s)) {
		return ""
	}
	return strings.Clone(s)
}

// Take implements [Sink].
func (a *Answer) Take(e *Event) {
	switch e.Kind {
	case EventText, EventRefusal:
		a.write(&a.Text, rawjson.Plain(e.Text))
	case EventThinking:
		a.Begun = true
		a.write(&a.Thinking, rawjson.Plain(e.Text))
	case EventSignature, EventImage:
		a.Begun = true
	case EventArguments:
		if e.Call < len(a.Calls) {
			a.write(&a.Calls[e.Call].Arguments, rawjson.Plain(e.Text))
		}
	case EventCall:
		a.open(e)
	case EventCallName:
		if e.Call < len(a.Calls) {
			c := a.Calls[e.Call]
			c.ID, c.Name = a.keep(e.ID), a.keep(e.Name)
		}
	case EventCallEnd:
		if c := a.Calls; e.Call < len(c) && c[e.Call].Initial == "" {
			c[e.Call].Initial = a.keep(rawjson.Plain(e.Text))
		}
	case EventBegin:
		a.identify(e.ID, e.Name)
	case EventUsage:
		a.Turn.Usage, a.Turn.Final, a.Turn.Iterations = e.Counts.Usage, e.Counts.Final, e.Counts.Iterations
		a.Turn.Service = e.Counts.Service
	case EventCleared:
		a.Turn.Cleared = *e.Cleared
	case EventCompacted:
		a.Turn.Compacted = true
	case EventStop, EventBlocked:
		a.Turn.StopReason = a.keep(e.Name)
	case EventComplete:
		a.Turn.Done = true
	case EventEnd:
		a.Ended = true
	case EventError:
		a.fail(e)
	}
}

// identify sets the answer's id and model. The first non-empty value wins.
func (a *Answer) identify(id, model string) {
	// Some servers leave both empty in the first chunk.
	if a.Turn.ID == "" {
		a.Turn.ID = a.keep(id)
	}
	if a.Turn.Model == "" {
		a.Turn.Model = a.keep(model)
	}
}

// open adds a call, up to [MaxCalls].
func (a *Answer) open(e *Event) {
	if len(a.Calls) == MaxCalls {
		a.Broken = true
		return
	}
	a.Begun = true
	a.Calls = append(a.Calls, &AnswerCall{ID: a.keep(e.ID), Name: a.keep(e.Name), Initial: a.keep(rawjson.Plain(e.Text)), Free: e.Free})
}

// fail records an error. It reads the error shapes listed at [IsError].
func (a *Answer) fail(event *Event) {
	root := gjson.Parse(event.Data)
	e := root.Get("error")
	switch {
	case e.IsObject():
	case e.Type == gjson.String && e.Str != "":
		a.Turn.ErrorMessage = a.keep(e.Str)
		return
	default:
		e = root
	}
	kind := e.Get("type")
	if kind.Type != gjson.String || kind.Str == "" || kind.Str == "error" {
		kind = e.Get("code")
	}
	a.Turn.ErrorType = a.keep(cmp.Or(event.Name, kind.String(), "error"))
	message := e.Get("message")
	if !message.Exists() {
		message = e.Get("detail")
	}
	a.Turn.ErrorMessage = a.keep(message.String())
}

// Count returns a token count; absent, null and negative count as 0.
func Count(r gjson.Result) int64 {
	return min(max(r.Int(), 0), MaxCount)
}

// ArgumentsText returns the JSON text of call arguments.
func ArgumentsText(v gjson.Result) string {
	// The APIs define a string; some servers send the object itself.
	if v.IsObject() {
		return v.Raw
	}
	return v.Str
}
