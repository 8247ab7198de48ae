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

import (
	"strings"

	"github.com/tidwall/gjson"
)

const (
	// maxAnswer bounds what is gathered of one answer: its texts, the
	// arguments of its calls and their names, or the bytes of a JSON body.
	maxAnswer = 32 << 20
	// maxAnswerCalls bounds the tool calls of one answer, so that looking
	// them up by index stays cheap whatever the upstream sends.
	maxAnswerCalls = 4096
	// maxAnswerCount bounds a count of tokens, so that no sum overflows.
	maxAnswerCount = 1 << 40
)

// answer gathers a turn. Texts go into builders and become strings only when
// the turn is asked for.
type answer struct {
	turn           Turn // without its texts and calls
	text, thinking strings.Builder
	calls          []*answerCall
	size           int                // bytes gathered
	begun          bool               // the model has written something
	told           map[int64]struct{} // items of Responses whose text has come
	counted        bool               // an OpenAI usage came
	ended          bool               // a Gemini answer told why it ended
	broken         bool               // a bound was exceeded

	// What was done since these were last set to zero, and what was written last.
	writes, opens int
	to            *strings.Builder
	written       string
}

// answerCall is a tool call whose arguments are still coming.
type answerCall struct {
	index     int64
	id, name  string
	initial   string // arguments that came with the call itself
	arguments strings.Builder
	free      bool // they are free text
}

// snapshot returns the turn as far as it is known.
func (a *answer) snapshot() *Turn {
	t := a.turn
	t.Text, t.Thinking = a.text.String(), a.thinking.String()
	if len(a.calls) > 0 {
		t.Calls = make([]Call, len(a.calls))
	}
	for i, c := range a.calls {
		t.Calls[i] = Call{ID: c.id, Name: c.name, Arguments: c.arguments.String(), Free: c.free}
		if c.arguments.Len() == 0 {
			t.Calls[i].Arguments = c.initial
		}
	}
	return &t
}

// grow makes room for n more bytes, if the bound allows.
func (a *answer) grow(n int) bool {
	a.size += n
	a.broken = a.broken || a.size > maxAnswer
	return !a.broken
}

// write appends what the model wrote to one of the builders.
func (a *answer) write(to *strings.Builder, s string) {
	if s == "" || !a.grow(len(s)) {
		return
	}
	a.begun = true
	a.writes++
	a.to, a.written = to, s
	to.WriteString(s)
}

// keep copies s out of the bytes fed.
func (a *answer) keep(s string) string {
	if !a.grow(len(s)) {
		return ""
	}
	return strings.Clone(s)
}

// identify sets the id and the model of the answer unless they are known. The
// first chunk of some servers leaves them empty.
func (a *answer) identify(id, model string) {
	if a.turn.ID == "" {
		a.turn.ID = a.keep(id)
	}
	if a.turn.Model == "" {
		a.turn.Model = a.keep(model)
	}
}

// open adds a call. It returns nil if there are too many.
func (a *answer) open(index int64, id, name string) *answerCall {
	if len(a.calls) == maxAnswerCalls {
		a.broken = true
		return nil
	}
	a.opens++
	c := &answerCall{index: index, id: a.keep(id), name: a.keep(name)}
	a.calls = append(a.calls, c)
	a.begun = true
	return c
}

// call returns the latest call of an index, nil if there is none.
func (a *answer) call(index int64) *answerCall {
	for i := len(a.calls) - 1; i >= 0; i-- {
		if a.calls[i].index == index {
			return a.calls[i]
		}
	}
	return nil
}

// fail records the error that root is or holds, if there is one. The shapes are
// {"error":{"type","message","code"}} of both formats, an error that is a plain
// string (mlx_lm.server), {"object":"error","message"} (vLLM and its kin) and
// {"detail"} (FastAPI); an event named error is one in any shape.
func (a *answer) fail(root gjson.Result, event string) {
	e := root.Get("error")
	switch {
	case e.IsObject():
	case e.Type == gjson.String && e.Str != "":
		a.turn.ErrorMessage = a.keep(e.Str)
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
	a.turn.ErrorType = a.keep(kind.String())
	if a.turn.ErrorType == "" {
		a.turn.ErrorType = "error"
	}
	message := e.Get("message")
	if !message.Exists() {
		message = e.Get("detail")
	}
	a.turn.ErrorMessage = a.keep(message.String())
}

// answerCount reads a count of tokens; absent, null and negative count as 0.
func answerCount(r gjson.Result) int64 {
	return min(max(r.Int(), 0), maxAnswerCount)
}

// argumentsText returns the JSON text of arguments, which is a string; some
// servers send the object itself.
func argumentsText(v gjson.Result) string {
	if v.IsObject() {
		return v.Raw
	}
	return v.Str
}
