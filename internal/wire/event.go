// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// EventKind is the type of an [Event].
type EventKind uint8

// The kinds of events, with the fields that they fill.
const (
	// EventBegin has the ids of the answer (ID) and the model (Name). Either may be empty.
	EventBegin EventKind = iota
	// EventText adds Text to the answer's text, EventRefusal to the text of a refusal, where the
	// format has a separate member for it.
	EventText
	EventRefusal
	// EventThinking adds Text to the reasoning; an empty Text begins it. Name is the JSON member of
	// the reasoning; servers use different names.
	EventThinking
	// EventSignature has a signature in Data; Signs says for which part. A reasoning item also has
	// its ID.
	EventSignature
	// EventImage is an image from the model: Name is its media type and Data its base64 bytes.
	// Without Name, Data is a URL.
	EventImage
	// EventBlockEnd ends a text or reasoning.
	EventBlockEnd
	// EventCall begins call number Call, with its ID and Name as far as known, and its signature in
	// Data. Text has the arguments if no EventArguments follows.
	EventCall
	// EventCallName updates the ID and Name of a call that arrived late or in pieces.
	EventCallName
	// EventArguments adds Text to the arguments of a call.
	EventArguments
	// EventCallEnd ends a call. Text has the arguments if there was no EventArguments.
	EventCallEnd
	// EventUsage has the answer's usage so far in Counts.
	EventUsage
	// EventProgress has the progress of prompt processing in Counts.
	EventProgress
	// EventCleared has the provider's own prompt edits in Cleared.
	EventCleared
	// EventCompacted reports that the provider replaced the conversation by a summary.
	EventCompacted
	// EventStop has the provider's stop reason in Name and the matched stop sequence in Text.
	EventStop
	// EventBlocked is EventStop for a prompt or answer blocked by a filter.
	EventBlocked
	// EventComplete reports a complete answer in a format without a terminal event. Usage may still
	// follow.
	EventComplete
	// EventEnd ends the answer.
	EventEnd
	// EventPing is a sign of life. ID is the answer's id, where the event has it.
	EventPing
	// EventError is an error: Data is the error's JSON, or an object that contains it. Name is the
	// error's type if the format has a separate place for it.
	EventError
	// EventNoAnswer reports JSON, in Data, that is neither an answer nor an error.
	EventNoAnswer
	// EventOpen begins an entry of the answer (a block, an item, a step or a part). Data is its
	// first JSON. Later events of the entry have the same Index.
	EventOpen
	// EventClose ends an entry. Data is the complete entry, if the API repeats it.
	EventClose
	// EventPiece has the rest of an entry's update, without an event of its own: Data, and Text for
	// an input in the place of arguments. In a format without entries, Data is the last fragment of
	// call number Call (-1 for none) and Text its remaining members.
	EventPiece
	// EventOpaque reports answer content that has no event.
	EventOpaque
)

// Event is one step of an answer. Its strings are views of the input and valid as long as the
// input.
type Event struct {
	Kind EventKind
	Call int
	// Index is the provider's number of the event's entry, -1 for none.
	Index int64
	// Own: the call is for a tool that the API defines and the client runs.
	Own bool
	// Free: the arguments of the call are free text.
	Free bool
	// Apart: the call is outside the list of calls.
	Apart bool
	// Loose: no EventCallEnd will follow.
	Loose bool
	// Signs is the part that a signature covers.
	Signs Signs
	ID    string
	Name  string
	Data  string
	// Text is the inside of a JSON string with its escapes. Texts can be concatenated.
	Text    string
	Counts  *Counts
	Cleared *Cleared
}

// Signs is the part of an answer that a signature covers.
type Signs uint8

// The parts that signatures cover.
const (
	SignsBlock    Signs = iota // the preceding reasoning
	SignsRedacted              // nothing: reasoning that only the provider can read
	SignsCall                  // the following call
	SignsText                  // the preceding text
)

// Counts is the usage that an answer reports. The fields shared with [Turn] have the same meaning.
type Counts struct {
	Usage      Usage
	Final      Usage
	Iterations []Usage
	// Reasoning is the number of output tokens for reasoning.
	Reasoning int64
	Service   Service
}

// Sink receives the events of an answer. The event is only valid during Take.
type Sink interface{ Take(e *Event) }

// AnswerReader reads one answer of a format and sends its events to a [Sink].
type AnswerReader interface {
	// Event reads an event of a stream. The name is the name of the server-sent event.
	Event(root gjson.Result, name string)
	// Whole reads a complete answer from one JSON value.
	Whole(root gjson.Result)
	// Arguments takes a fragment of a call's arguments, the inside of a JSON string, from an event
	// that was not parsed as a whole.
	Arguments(call int, inside string)
	// Done handles `data: [DONE]`.
	Done()
	// EOF handles the clean end of a stream, after a complete event.
	EOF()
}

// Teller sends a reader's events to a [Sink]. It numbers the calls of the answer itself, because
// each provider numbers calls or their entries differently.
type Teller struct {
	Sink   Sink
	Counts Counts
	// Index is the number of the current entry, -1 for none.
	Index int64
	event Event
	calls []toldCall
}

// toldCall is the state of a call already sent to the sink.
type toldCall struct {
	index    int64 // the provider's index
	id, name string
	end      rawjson.ObjectEnd // state of the arguments
	filled   bool              // arguments were received
	ended    bool
}

// Tell sends an event to the sink, with the current Index.
func (t *Teller) Tell(e Event) {
	t.event = e
	t.event.Index = t.Index
	t.Sink.Take(&t.event)
}

// Begin sends the answer's id and model, either of them may be empty.
func (t *Teller) Begin(id, model string) { t.Tell(Event{Kind: EventBegin, ID: id, Name: model}) }

// Open begins an entry under the provider's index.
func (t *Teller) Open(index int64, entry gjson.Result) {
	t.Index = index
	t.Tell(Event{Kind: EventOpen, Data: entry.Raw})
}

// Close ends the current entry. The entry is "" if the API does not repeat it.
func (t *Teller) Close(entry string) {
	t.Tell(Event{Kind: EventClose, Data: entry})
	t.Index = -1
}

// Piece sends the part of an entry's update that has no event of its own.
func (t *Teller) Piece(data, inside string) {
	t.Tell(Event{Kind: EventPiece, Data: data, Text: inside})
}

// Opaque reports answer content that has no event.
func (t *Teller) Opaque() { t.Tell(Event{Kind: EventOpaque}) }

// Text sends a fragment of text.
func (t *Teller) Text(inside string) {
	if inside != "" {
		t.Tell(Event{Kind: EventText, Text: inside})
	}
}

// Thinking sends a fragment of reasoning.
func (t *Teller) Thinking(inside string) {
	if inside != "" {
		t.Tell(Event{Kind: EventThinking, Text: inside})
	}
}

// Sign sends a signature, if not empty.
func (t *Teller) Sign(signs Signs, id, signature string) {
	if signature != "" {
		t.Tell(Event{Kind: EventSignature, Signs: signs, ID: id, Data: signature})
	}
}

// Image sends an image as media type and base64 bytes.
func (t *Teller) Image(media, data string) {
	if data != "" {
		t.Tell(Event{Kind: EventImage, Name: media, Data: data})
	}
}

// ImageURL sends an image by its URL. A data URL is sent as [Teller.Image].
func (t *Teller) ImageURL(url string) {
	// A data URL contains the image itself.
	if media, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,"); ok && media != url {
		t.Image(media, data)
		return
	}
	t.Image("", url)
}

// Call begins a call under the provider's index and returns the call's own number. It returns -1
// once the sink has received more than [MaxCalls] calls.
func (t *Teller) Call(index int64, e Event) int {
	// One call above the limit still goes to the sink, so that the sink notices the overflow.
	if len(t.calls) > MaxCalls {
		return -1
	}
	e.Kind, e.Call = EventCall, len(t.calls)
	t.calls = append(t.calls, toldCall{index: index, id: strings.Clone(e.ID), name: strings.Clone(e.Name)})
	t.Tell(e)
	return e.Call
}

// Find returns the latest call with the provider's index, -1 for none.
func (t *Teller) Find(index int64) int {
	for i := len(t.calls) - 1; i >= 0; i-- {
		if t.calls[i].index == index {
			return i
		}
	}
	return -1
}

// Last returns the number of the latest call, -1 for none.
func (t *Teller) Last() int { return len(t.calls) - 1 }

// CallID returns the provider's id of a call, "" if not known yet.
func (t *Teller) CallID(call int) string { return t.calls[call].id }

// IsOpen reports whether the call exists and has not ended.
func (t *Teller) IsOpen(call int) bool { return call >= 0 && !t.calls[call].ended }

// Complete reports whether the arguments of a call form a complete object.
func (t *Teller) Complete(call int) bool { return t.calls[call].end.Complete() }

// Identify adds the id of a call and a fragment of its name.
func (t *Teller) Identify(call int, id, name string) {
	c := &t.calls[call]
	if c.id != "" {
		id = ""
	}
	// Some servers repeat the whole name in each chunk.
	if name == c.name || c.filled && c.name != "" {
		name = ""
	}
	if id == "" && name == "" {
		return
	}
	c.id, c.name = c.id+id, c.name+name
	t.Tell(Event{Kind: EventCallName, Call: call, ID: c.id, Name: c.name})
}

// Arguments sends a fragment of a call's arguments.
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

// EndCall ends a call. The arguments are complete and only used if no fragment came before.
func (t *Teller) EndCall(call int, arguments string) {
	if !t.IsOpen(call) {
		return
	}
	t.calls[call].ended = true
	t.Tell(Event{Kind: EventCallEnd, Call: call, Text: arguments})
}

// EndBlock ends a text or reasoning.
func (t *Teller) EndBlock() { t.Tell(Event{Kind: EventBlockEnd}) }

// Count sends the Counts.
func (t *Teller) Count() { t.Tell(Event{Kind: EventUsage, Counts: &t.Counts}) }

// Served records the service of the answer, if the answer reports one.
func (t *Teller) Served(s Service) {
	if s != 0 {
		t.Counts.Service = s.Or(t.Counts.Service)
		t.Count()
	}
}

// Stop sends the stop reason, if not empty.
func (t *Teller) Stop(word, sequence string) {
	if word != "" {
		t.Tell(Event{Kind: EventStop, Name: word, Text: sequence})
	}
}

// End sends the end of the answer.
func (t *Teller) End() { t.Tell(Event{Kind: EventEnd}) }

// Ping sends a sign of life. The id may be empty.
func (t *Teller) Ping(id string) { t.Tell(Event{Kind: EventPing, ID: id}) }

// Fail sends an error object, or an object that contains one.
func (t *Teller) Fail(root gjson.Result) { t.Tell(Event{Kind: EventError, Data: root.Raw}) }

// FailIf sends an error if the event is one, and reports whether it is.
func (t *Teller) FailIf(root gjson.Result, name string) bool {
	if !IsError(root, name) {
		return false
	}
	t.Fail(root)
	return true
}

// NoAnswer handles an object that is not an answer: an error, or unknown JSON.
func (t *Teller) NoAnswer(root gjson.Result) {
	if !t.FailIf(root, "") {
		t.Tell(Event{Kind: EventNoAnswer, Data: root.Raw})
	}
}

// IsError reports whether an object, from a server-sent event with the given name, is an error.
// Null members are ignored.
func IsError(root gjson.Result, name string) bool {
	e := root.Get("error")
	switch {
	case e.IsObject(), e.Type == gjson.String && e.Str != "":
		// {"error":{…}}, or an error that is a plain string (mlx_lm.server).
		return true
	case name == "error", root.Get("object").Str == "error", root.Get("type").Str == "error":
		// An event named error, or {"object":"error","message"} (vLLM and forks).
		return true
	}
	// {"detail"} (FastAPI).
	return root.Get("detail").Exists() && !root.Get("type").Exists()
}
