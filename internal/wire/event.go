// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// EventKind is what an [Event] tells.
type EventKind uint8

// The kinds of events, with the fields that they fill.
const (
	// EventBegin names the answer (ID) and the model (Name), either of which may be empty.
	EventBegin EventKind = iota
	// EventText adds Text to what the model says, EventRefusal what it says in a member
	// of its own where it will not answer.
	EventText
	EventRefusal
	// EventThinking adds Text to the model's reasoning; without a text the reasoning begins.
	// Name is the member that it stands in, where servers differ in that.
	EventThinking
	// EventSignature signs the reasoning before it, or what Signs says: Data, and for an
	// item of reasoning its ID.
	EventSignature
	// EventImage is an image that the model has made: Name is its media type and Data its bytes
	// in base64, or without a Name its address.
	EventImage
	// EventBlockEnd ends a text, or reasoning.
	EventBlockEnd
	// EventCall begins call number Call, with its ID and Name as far as they are known, and
	// Data, its signature. Text are its arguments if no EventArguments follows.
	EventCall
	// EventCallName tells the ID and the Name of a call that came late, or in pieces.
	EventCallName
	// EventArguments adds Text to the arguments of a call.
	EventArguments
	// EventCallEnd ends a call. Text are its arguments if there was no EventArguments.
	EventCallEnd
	// EventUsage tells all that is known of the answer's cost by now: Counts.
	EventUsage
	// EventProgress tells, in Counts, the prompt that a server is reading.
	EventProgress
	// EventCleared tells what the provider left out of the prompt: Cleared.
	EventCleared
	// EventCompacted tells that the provider has replaced the conversation by a summary.
	EventCompacted
	// EventStop tells the provider's word for why the answer ended, Name, and the stop
	// sequence that was met, Text.
	EventStop
	// EventBlocked is EventStop of a prompt or an answer that a filter has blocked.
	EventBlocked
	// EventComplete tells that the answer is complete, in a format whose streams have no
	// terminal event: more of its cost may follow.
	EventComplete
	// EventEnd ends the answer.
	EventEnd
	// EventPing is a sign of life. ID is the answer's, where it has that.
	EventPing
	// EventError is an error: Data is JSON that is or holds it. Name is its type where the
	// format has that in a place of its own.
	EventError
	// EventNoAnswer tells that Data, which is JSON, is neither an answer nor an error.
	EventNoAnswer
	// EventOpen begins an entry of the answer's list, a block, an item, a step or a part: Data
	// is the entry as it begins. What is told under its Index is the entry's.
	EventOpen
	// EventClose ends an entry. Data is all of it, where the API repeats it whole.
	EventClose
	// EventPiece adds to an entry what no other event tells: Data, and Text to what stands in
	// the place of arguments. In a format without entries Data is the fragment of call number
	// Call, -1 for none, that was just read, and Text its members that no other event tells.
	EventPiece
	// EventOpaque tells that the answer holds what no event tells.
	EventOpaque
)

// Event is one thing that an answer says. Its strings are views of the bytes that were read,
// good as long as those are.
type Event struct {
	Kind EventKind
	Call int
	// Index is the provider's number of the entry that the event is of, -1 for none.
	Index int64
	// Own tells that a call is of a tool that the API defines and the client runs.
	Own bool
	// Free tells that the arguments of a call are free text.
	Free bool
	// Apart tells that a call stands outside of the list of calls.
	Apart bool
	// Loose tells that no EventCallEnd will follow.
	Loose bool
	// Signs is what a signature signs.
	Signs Signs
	ID    string
	Name  string
	Data  string
	// Text is the inside of a JSON string, escapes and all: pieces may be put together.
	Text    string
	Counts  *Counts
	Cleared *Cleared
}

// Signs is what a signature signs.
type Signs uint8

// What signatures sign.
const (
	SignsBlock    Signs = iota // the reasoning before it
	SignsRedacted              // nothing: it is reasoning that only the provider can read
	SignsCall                  // the call behind it
	SignsText                  // the text before it
)

// Counts is what an answer says of its cost. See [Turn] for the fields that both have.
type Counts struct {
	Usage      Usage
	Final      Usage
	Iterations []Usage
	// Reasoning are the tokens of the output that were reasoning.
	Reasoning int64
	Service   Service
}

// Sink takes the events of an answer. An event is gone when Take returns.
type Sink interface{ Take(e *Event) }

// AnswerReader reads one answer of a format and tells a [Sink] what it says.
type AnswerReader interface {
	// Event reads an event of a stream. The name is that of the server-sent event.
	Event(root gjson.Result, name string)
	// Whole reads an answer in one piece.
	Whole(root gjson.Result)
	// Arguments takes arguments of a call, the inside of a JSON string, from an event that
	// was not read as a whole.
	Arguments(call int, inside string)
	// Done takes `data: [DONE]`.
	Done()
	// EOF takes the clean end of a stream, after a whole event.
	EOF()
}

// Teller tells a [Sink] what a reader finds. It counts the calls of the answer: providers
// number them, or what they stand in, each in their own way.
type Teller struct {
	Sink   Sink
	Counts Counts
	// Index is the number of the entry that is read, -1 for none.
	Index int64
	event Event
	calls []toldCall
}

// toldCall is a call that was told.
type toldCall struct {
	index    int64 // the provider's
	id, name string
	end      rawjson.ObjectEnd // of its arguments
	filled   bool              // arguments came
	ended    bool
}

// Tell tells of an event.
func (t *Teller) Tell(e Event) {
	t.event = e
	t.event.Index = t.Index
	t.Sink.Take(&t.event)
}

// Begin tells of the answer's id and model, as far as they are known.
func (t *Teller) Begin(id, model string) { t.Tell(Event{Kind: EventBegin, ID: id, Name: model}) }

// Open tells that an entry begins, under a number of the provider's.
func (t *Teller) Open(index int64, entry gjson.Result) {
	t.Index = index
	t.Tell(Event{Kind: EventOpen, Data: entry.Raw})
}

// Close tells that the entry ends that is read. It is "" where the API does not repeat it.
func (t *Teller) Close(entry string) {
	t.Tell(Event{Kind: EventClose, Data: entry})
	t.Index = -1
}

// Piece tells what is added to the entry that is read, and no other event tells.
func (t *Teller) Piece(data, inside string) {
	t.Tell(Event{Kind: EventPiece, Data: data, Text: inside})
}

// Opaque tells that the answer holds what no event tells.
func (t *Teller) Opaque() { t.Tell(Event{Kind: EventOpaque}) }

// Text tells of more text.
func (t *Teller) Text(inside string) {
	if inside != "" {
		t.Tell(Event{Kind: EventText, Text: inside})
	}
}

// Thinking tells of more reasoning.
func (t *Teller) Thinking(inside string) {
	if inside != "" {
		t.Tell(Event{Kind: EventThinking, Text: inside})
	}
}

// Sign tells of a signature, if there is one.
func (t *Teller) Sign(signs Signs, id, signature string) {
	if signature != "" {
		t.Tell(Event{Kind: EventSignature, Signs: signs, ID: id, Data: signature})
	}
}

// Image tells of an image by its media type and its bytes in base64.
func (t *Teller) Image(media, data string) {
	if data != "" {
		t.Tell(Event{Kind: EventImage, Name: media, Data: data})
	}
}

// ImageURL is [Teller.Image] for an image at an address, which may hold the image itself.
func (t *Teller) ImageURL(url string) {
	if media, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,"); ok && media != url {
		t.Image(media, data)
		return
	}
	t.Image("", url)
}

// Call tells of a new call under a number of the provider's, and returns its own. Beyond
// [MaxCalls], of which the sink hears the first, it returns -1.
func (t *Teller) Call(index int64, e Event) int {
	if len(t.calls) > MaxCalls {
		return -1
	}
	e.Kind, e.Call = EventCall, len(t.calls)
	t.calls = append(t.calls, toldCall{index: index, id: strings.Clone(e.ID), name: strings.Clone(e.Name)})
	t.Tell(e)
	return e.Call
}

// Find returns the latest call under a number of the provider's, -1 if there is none.
func (t *Teller) Find(index int64) int {
	for i := len(t.calls) - 1; i >= 0; i-- {
		if t.calls[i].index == index {
			return i
		}
	}
	return -1
}

// Last returns the latest call, -1 if there is none.
func (t *Teller) Last() int { return len(t.calls) - 1 }

// CallID returns the id of a call as the provider gave it, "" as long as it did not.
func (t *Teller) CallID(call int) string { return t.calls[call].id }

// IsOpen reports whether there is such a call, and it has not ended.
func (t *Teller) IsOpen(call int) bool { return call >= 0 && !t.calls[call].ended }

// Complete reports whether the arguments of a call are a whole object by now.
func (t *Teller) Complete(call int) bool { return t.calls[call].end.Complete() }

// Identify tells of the id and of the name of a call as they come, the name in pieces: some
// servers repeat it in each.
func (t *Teller) Identify(call int, id, name string) {
	c := &t.calls[call]
	if c.id != "" {
		id = ""
	}
	if name == c.name || c.filled && c.name != "" {
		name = ""
	}
	if id == "" && name == "" {
		return
	}
	c.id, c.name = c.id+id, c.name+name
	t.Tell(Event{Kind: EventCallName, Call: call, ID: c.id, Name: c.name})
}

// Arguments tells of more arguments of a call.
func (t *Teller) Arguments(call int, inside string) {
	if inside == "" || !t.IsOpen(call) {
		return
	}
	t.calls[call].filled = true
	if !t.calls[call].end.Complete() {
		t.calls[call].end.Read(inside)
	}
	t.Tell(Event{Kind: EventArguments, Call: call, Text: inside})
}

// EndCall tells that a call has ended, and all of its arguments, which count if none came before.
func (t *Teller) EndCall(call int, arguments string) {
	if !t.IsOpen(call) {
		return
	}
	t.calls[call].ended = true
	t.Tell(Event{Kind: EventCallEnd, Call: call, Text: arguments})
}

// EndBlock tells that a text, or reasoning, has ended.
func (t *Teller) EndBlock() { t.Tell(Event{Kind: EventBlockEnd}) }

// Count tells of the Counts.
func (t *Teller) Count() { t.Tell(Event{Kind: EventUsage, Counts: &t.Counts}) }

// Served tells how the answer is served, if that is said.
func (t *Teller) Served(s Service) {
	if s != 0 {
		t.Counts.Service = s.Or(t.Counts.Service)
		t.Count()
	}
}

// Stop tells why the answer ended, if that is said.
func (t *Teller) Stop(word, sequence string) {
	if word != "" {
		t.Tell(Event{Kind: EventStop, Name: word, Text: sequence})
	}
}

// End tells that the answer is complete.
func (t *Teller) End() { t.Tell(Event{Kind: EventEnd}) }

// Ping tells of a sign of life, under the answer's id where it has that.
func (t *Teller) Ping(id string) { t.Tell(Event{Kind: EventPing, ID: id}) }

// Fail tells of the error that an object is or holds.
func (t *Teller) Fail(root gjson.Result) { t.Tell(Event{Kind: EventError, Data: root.Raw}) }

// FailIf is [Teller.Fail] for an event that may be no error, and reports whether it is.
func (t *Teller) FailIf(root gjson.Result, name string) bool {
	if !IsError(root, name) {
		return false
	}
	t.Fail(root)
	return true
}

// NoAnswer tells that an object in the place of an answer is none.
func (t *Teller) NoAnswer(root gjson.Result) {
	if !t.FailIf(root, "") {
		t.Tell(Event{Kind: EventNoAnswer, Data: root.Raw})
	}
}

// IsError reports whether an object, under the name of a server-sent event, says that
// something went wrong. Servers do so by {"error":{…}}, by an error that is a plain string
// (mlx_lm.server), by {"object":"error","message"} (vLLM and its kin), by {"detail"}
// (FastAPI), and by an event of that name. Members that are null say nothing.
func IsError(root gjson.Result, name string) bool {
	e := root.Get("error")
	switch {
	case e.IsObject(), e.Type == gjson.String && e.Str != "":
		return true
	case name == "error", root.Get("object").Str == "error", root.Get("type").Str == "error":
		return true
	}
	return root.Get("detail").Exists() && !root.Get("type").Exists()
}
