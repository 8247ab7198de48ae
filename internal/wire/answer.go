// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"strings"
	"time"

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
	// EventLimits has the state of the plan's rate limits in Data, as the provider's JSON.
	EventLimits
)

// Event is one step of an answer. Its strings are views of the input and valid as long as the
// input.
type Event struct {
	Kind EventKind
	Call int
	// Index is the provider's number of the event's entry, -1 for none.
	Index int64
	// APIDefined: the call is for a tool that the API defines and the client runs.
	APIDefined bool
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
	calls []sentCall
}

// sentCall is the state of a call already sent to the sink.
type sentCall struct {
	index    int64 // the provider's index
	id, name string
	end      rawjson.ObjectEnd // state of the arguments
	filled   bool              // arguments were received
	repeated bool              // the name was repeated after the complete arguments
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

// Piece sends the part of the current entry's update that has no event of its own. Without a current
// entry it does nothing: the update belongs to no entry that a provider has begun.
func (t *Teller) Piece(data, inside string) {
	if t.Index >= 0 {
		t.Tell(Event{Kind: EventPiece, Call: -1, Data: data, Text: inside})
	}
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
	t.calls = append(t.calls, sentCall{index: index, id: strings.Clone(e.ID), name: strings.Clone(e.Name)})
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

// CallName returns the name of a call, "" if not known yet.
func (t *Teller) CallName(call int) string { return t.calls[call].name }

// Repeated reports whether the name of a call came again after its complete arguments.
func (t *Teller) Repeated(call int) bool { return t.calls[call].repeated }

// IsOpen reports whether the call exists and has not ended.
func (t *Teller) IsOpen(call int) bool { return call >= 0 && !t.calls[call].ended }

// Complete reports whether the arguments of a call form a complete object.
func (t *Teller) Complete(call int) bool { return t.calls[call].end.Complete() }

// Identify adds the id of a call and a fragment of its name.
func (t *Teller) Identify(call int, id, name string) {
	c := &t.calls[call]
	c.repeated = c.repeated || name != "" && c.end.Complete()
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

const (
	// MaxAnswer is the limit on the bytes gathered of one answer: its texts, the names and
	// arguments of its calls, or a JSON body.
	MaxAnswer = 32 << 20
	// maxLimits bounds [Turn.Limits], in bytes.
	maxLimits = 4 << 10
	// MaxCalls is the limit on the tool calls of one answer. It keeps the lookup of a call by index
	// cheap.
	MaxCalls = 4096
	// MaxCount is the upper limit of a token count. Sums of counts cannot overflow below it.
	MaxCount = 1 << 40
)

// Answer collects the events of one answer. Texts stay in builders until [Decoder.Turn] reads
// them.
type Answer struct {
	Turn           Turn // without texts and calls, see Decoder.Turn
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

// grow counts n more bytes. It returns false once the total exceeds [MaxAnswer].
func (a *Answer) grow(n int) bool {
	a.size += n
	a.Broken = a.Broken || a.size > MaxAnswer
	return !a.Broken
}

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
		// Some servers leave both empty in the first chunk. The first id and model count.
		if a.Turn.ID == "" {
			a.Turn.ID = a.keep(e.ID)
		}
		if a.Turn.Model == "" {
			a.Turn.Model = a.keep(e.Name)
		}
	case EventUsage:
		a.Turn.Usage, a.Turn.Final, a.Turn.Iterations = e.Counts.Usage, e.Counts.Final, e.Counts.Iterations
		a.Turn.Service = e.Counts.Service
	case EventCleared:
		a.Turn.Cleared = *e.Cleared
	case EventCompacted:
		a.Turn.Compacted = true
	case EventLimits:
		if len(e.Data) <= maxLimits {
			a.Turn.Limits = a.keep(e.Data)
		}
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

// open adds a call, up to [MaxCalls].
func (a *Answer) open(e *Event) {
	if len(a.Calls) == MaxCalls {
		a.Broken = true
		return
	}
	a.Begun = true
	a.Calls = append(a.Calls, &AnswerCall{
		ID: a.keep(e.ID), Name: a.keep(e.Name), Initial: a.keep(rawjson.Plain(e.Text)),
		Free: e.Free,
	})
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

// Usage is the reported cost of an answer in tokens. Each token of the prompt counts in exactly one
// field.
type Usage struct {
	// Uncached is the number of prompt tokens neither read from nor written to a cache.
	Uncached int64 `json:"uncached"`
	// Write5m and Write1h are the tokens written to the cache, by lifetime. Writes of unknown
	// lifetime count as Write5m.
	Write5m int64 `json:"write_5m"`
	// Write1h: see Write5m.
	Write1h int64 `json:"write_1h"`
	// Read is the number of tokens read from the cache.
	Read int64 `json:"read"`
	// Output is the number of output tokens, thinking included.
	Output int64 `json:"output"`
	// Reported reports whether the answer had any count above zero.
	Reported bool `json:"reported"`
}

// Prompt returns the length of the whole prompt, in tokens.
func (u Usage) Prompt() int64 { return u.Uncached + u.Write5m + u.Write1h + u.Read }

// Reading returns the usage with n more tokens of the prompt read from the cache, as far as there are
// others.
func (u Usage) Reading(n int64) Usage {
	for _, from := range [...]*int64{&u.Write5m, &u.Write1h, &u.Uncached} {
		moved := min(max(n, 0), *from)
		*from, u.Read, n = *from-moved, u.Read+moved, n-moved
	}
	return u
}

// Add returns the sum of two usages.
func (u Usage) Add(o Usage) Usage {
	return Usage{
		u.Uncached + o.Uncached, u.Write5m + o.Write5m, u.Write1h + o.Write1h, u.Read + o.Read,
		u.Output + o.Output, u.Reported || o.Reported,
	}
}

// Cleared counts the provider's own removals from a prompt, requested by the client
// (context_management of the Messages API). Clients keep sending their whole history, so each
// answer reports the counts again.
type Cleared struct {
	// ToolUses is the number of oldest calls with cleared results.
	ToolUses int64
	// Thinking is the number of turns with cleared thinking.
	Thinking int64
	// Tokens is the number of tokens removed from the prompt, ThinkingTokens its share of thinking.
	Tokens, ThinkingTokens int64
}

// Call is a tool call in an answer.
type Call struct {
	// ID is the id of the call.
	ID string
	// Name is the tool's name.
	Name string
	// Arguments is the complete JSON text of the arguments, as the model wrote it, or the free text
	// for a custom tool of the Responses API.
	Arguments string
	// Free: Arguments is free text.
	Free bool
}

// Timing is the timing of an answer, by the clock of the request handler. Moments that never came
// are zero.
type Timing struct {
	// Queue is the time between the complete request and the hand-over to the upstream.
	Queue time.Duration `json:"queue"`
	// FirstByte, FirstToken and LastToken are counted from the hand-over: to the first byte of the
	// response body, to the first text, thinking or call, and to the end of the answer (its
	// terminal event, or the last byte of JSON).
	FirstByte time.Duration `json:"first_byte"`
	// FirstToken: see FirstByte.
	FirstToken time.Duration `json:"first_token"`
	// LastToken: see FirstByte.
	LastToken time.Duration `json:"last_token"`
}

// Turn is a decoded answer, independent of its format and framing.
type Turn struct {
	// ID and Model are copied from the answer.
	ID, Model string
	// Text and Thinking are the concatenated texts of the answer.
	Text, Thinking string
	// Calls are the tool calls for the client, in order. Calls of the provider's own tools are left
	// out.
	Calls []Call
	// Usage is the final usage.
	Usage Usage
	// Final is the usage of the last model call for the conversation itself. It is set if the
	// provider made several calls (for a compaction, an advisor, a fallback) and reports them
	// separately. Without Reported there was one call.
	Final Usage
	// Iterations are the usages of the model calls summed in Usage, if the provider reports them
	// separately. Price tiers depend on the prompt of a single call.
	Iterations []Usage
	// Cleared counts the provider's own removals from the prompt.
	Cleared Cleared
	// Limits is the provider's JSON about the rate limits of the plan, empty if the stream has none.
	Limits string
	// StopReason is the stop reason in the format's own words.
	StopReason string
	// ErrorType and ErrorMessage are set when the answer is, or ends in, an error.
	ErrorType, ErrorMessage string
	// Done reports that the answer is complete: the terminal event of a stream (in Gemini, which
	// has none, a stop reason), a clean end after the stop reason, or a whole JSON value. Aborted
	// streams and streams that end in an error are never done. An error in a JSON body is done, see
	// Failed.
	Done bool
	// Compacted reports that the provider summarized the conversation within the answer. Later
	// prompts do not include the blocks before the summary.
	Compacted bool
	// Service is the service level that the answer reports.
	Service Service
	// Timing is set by the request handler, not by decoders.
	Timing Timing
}

// LastUsage returns the usage of the prompt that the next request continues.
func (t *Turn) LastUsage() Usage {
	// Calls for a compaction, an advisor or a fallback are not part of the conversation.
	if t.Final.Reported {
		return t.Final
	}
	return t.Usage
}

// Failed reports whether the answer is an error.
func (t *Turn) Failed() bool { return t.ErrorType != "" || t.ErrorMessage != "" }
