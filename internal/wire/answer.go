// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"

	"github.com/tidwall/gjson"
)

const (
	// MaxAnswer bounds what is gathered of one answer: its texts, the
	// arguments of its calls and their names, or the bytes of a JSON body.
	MaxAnswer = 32 << 20
	// MaxCalls bounds the tool calls of one answer, so that looking
	// them up by index stays cheap whatever the upstream sends.
	MaxCalls = 4096
	// MaxCount bounds a count of tokens, so that no sum overflows.
	MaxCount = 1 << 40
)

// Answer gathers a turn. Texts go into builders and become strings only when
// the turn is asked for.
type Answer struct {
	Turn           Turn // without its texts and calls
	Text, Thinking strings.Builder
	Calls          []*AnswerCall
	size           int                // bytes gathered
	Begun          bool               // the model has written something
	Told           map[int64]struct{} // items of Responses whose text has come
	Counted        bool               // an OpenAI usage came
	Ended          bool               // a Gemini answer told why it ended
	Broken         bool               // a bound was exceeded

	// Added is what came since it was last set to zero.
	Added Added
}

// Added is what an event adds to an answer.
type Added struct {
	Texts, Calls int              // how many
	To           *strings.Builder // where the last text went
	Text         string           // that text, good as long as the bytes of the event are
}

// AnswerCall is a tool call whose arguments are still coming.
type AnswerCall struct {
	index     int64
	ID, Name  string
	Initial   string // arguments that came with the call itself
	Arguments strings.Builder
	Free      bool // they are free text
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
		if c.Arguments.Len() == 0 {
			t.Calls[i].Arguments = c.Initial
		}
	}
	return &t
}

// grow makes room for n more bytes, if the bound allows.
func (a *Answer) grow(n int) bool {
	a.size += n
	a.Broken = a.Broken || a.size > MaxAnswer
	return !a.Broken
}

// Write appends what the model wrote to one of the builders.
func (a *Answer) Write(to *strings.Builder, s string) {
	if s == "" || !a.grow(len(s)) {
		return
	}
	a.Begun = true
	a.Added.Texts++
	a.Added.To, a.Added.Text = to, s
	to.WriteString(s)
}

// Keep copies s out of the bytes fed.
func (a *Answer) Keep(s string) string {
	if !a.grow(len(s)) {
		return ""
	}
	return strings.Clone(s)
}

// Identify sets the id and the model of the answer unless they are known. The
// first chunk of some servers leaves them empty.
func (a *Answer) Identify(id, model string) {
	if a.Turn.ID == "" {
		a.Turn.ID = a.Keep(id)
	}
	if a.Turn.Model == "" {
		a.Turn.Model = a.Keep(model)
	}
}

// Open adds a call. It returns nil if there are too many.
func (a *Answer) Open(index int64, id, name string) *AnswerCall {
	if len(a.Calls) == MaxCalls {
		a.Broken = true
		return nil
	}
	a.Added.Calls++
	c := &AnswerCall{index: index, ID: a.Keep(id), Name: a.Keep(name)}
	a.Calls = append(a.Calls, c)
	a.Begun = true
	return c
}

// Call returns the latest call of an index, nil if there is none.
func (a *Answer) Call(index int64) *AnswerCall {
	for i := len(a.Calls) - 1; i >= 0; i-- {
		if a.Calls[i].index == index {
			return a.Calls[i]
		}
	}
	return nil
}

// Fail records the error that root is or holds, if there is one. The shapes are
// {"error":{"type","message","code"}} of both formats, an error that is a plain
// string (mlx_lm.server), {"object":"error","message"} (vLLM and its kin) and
// {"detail"} (FastAPI); an event named error is one in any shape.
func (a *Answer) Fail(root gjson.Result, event string) {
	e := root.Get("error")
	switch {
	case e.IsObject():
	case e.Type == gjson.String && e.Str != "":
		a.Turn.ErrorMessage = a.Keep(e.Str)
		return
	case event == "error", root.Get("object").Str == "error", root.Get("type").Str == "error":
		e = root
	case root.Get("detail").Exists() && !root.Get("type").Exists():
		e = root
	default:
		return
	}
	kind := e.Get("type")
	if kind.Type != gjson.String || kind.Str == "" {
		kind = e.Get("code")
	}
	a.Turn.ErrorType = a.Keep(kind.String())
	if a.Turn.ErrorType == "" {
		a.Turn.ErrorType = "error"
	}
	message := e.Get("message")
	if !message.Exists() {
		message = e.Get("detail")
	}
	a.Turn.ErrorMessage = a.Keep(message.String())
}

// Count reads a count of tokens; absent, null and negative count as 0.
func Count(r gjson.Result) int64 {
	return min(max(r.Int(), 0), MaxCount)
}

// ArgumentsText returns the JSON text of arguments, which is a string; some
// servers send the object itself.
func ArgumentsText(v gjson.Result) string {
	if v.IsObject() {
		return v.Raw
	}
	return v.Str
}
