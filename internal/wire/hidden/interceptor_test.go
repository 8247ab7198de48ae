// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package hidden_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/answers"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/bedrock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/vertex"
)

var interceptOptions = hidden.Options{
	Hide:  func(name string) bool { return name == "Now" || name == "now" },
	Watch: func(name string) bool { return name == "Bash" || name == "bash" },
	Marks: func() *hidden.Marks { return hidden.NewMarks([]string{"[[stub"}) },
}

// intercepted feeds answers in pieces, one after the other while the interceptor asks, and returns
// the client's output.
func intercepted(f wire.Format, piece int, answers ...[]byte) (string, *hidden.Interceptor) {
	r := hidden.NewInterceptor(f, interceptOptions)
	var out bytes.Buffer
	buffer := make([]byte, piece) // reused for each piece, like in a proxy
	for i, a := range answers {
		if i > 0 {
			if !r.Asks() {
				break
			}
			r.Next()
		}
		for len(a) > 0 {
			n := copy(buffer, a)
			out.Write(r.Feed(buffer[:n]))
			a = a[n:]
			for i := range buffer {
				buffer[i] = '~'
			}
		}
		out.Write(r.End())
	}
	if r.Asks() {
		out.Write(r.Close())
	}
	return out.String(), r
}

// interceptedApart is intercepted without event patterns.
func interceptedApart(f wire.Format, answers ...[]byte) (string, *hidden.Interceptor) {
	r := hidden.NewInterceptor(f, interceptOptions)
	var out bytes.Buffer
	for i, a := range answers {
		if i > 0 {
			if !r.Asks() {
				break
			}
			r.Next()
		}
		for _, b := range a {
			r.Forget()
			out.Write(r.Feed([]byte{b}))
		}
		r.Forget()
		out.Write(r.End())
	}
	if r.Asks() {
		out.Write(r.Close())
	}
	return out.String(), r
}

// Text events similar to the previous one are not parsed, if nothing was rewritten or buffered.
func TestRelayAlike(t *testing.T) {
	anthropic := func(at int, kind, key, s string) string {
		return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":%q,%q:%q}}`, at, kind, key, s)
	}
	open := func(at int, block string) string {
		return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, at, block)
	}
	chat := func(delta, more string) string {
		return `{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta +
			`,"finish_reason":null}]` + more + `}`
	}
	gemini := func(parts string) string { return `{"candidates":[{"content":{"parts":[` + parts + `]}}]}` }
	for _, c := range []struct {
		name   string
		format wire.Format
		events []string
		want   string // the events read by pattern
	}{
		{"text", wire.Anthropic, []string{
			open(0, `{"type":"text","text":""}`), anthropic(0, "text_delta", "text", "a"),
			anthropic(0, "text_delta", "text", "b\n\u00e9"), anthropic(0, "text_delta", "text", ""),
		}, "..!!"},
		{"thinking, then text", wire.Anthropic, []string{
			open(0, `{"type":"thinking","thinking":""}`),
			anthropic(0, "thinking_delta", "thinking", "a"), anthropic(0, "thinking_delta", "thinking", "b"),
			open(1, `{"type":"text","text":""}`), anthropic(1, "text_delta", "text", "c"),
			anthropic(0, "thinking_delta", "thinking", "b"),
		}, "..!..."},
		{
			"arguments", wire.Anthropic,
			[]string{
				open(0, `{"type":"tool_use","name":"Read","input":{}}`),
				anthropic(0, "input_json_delta", "partial_json", "{"), anthropic(0, "input_json_delta", "partial_json", "}"),
			},
			"..!",
		},
		{"hidden", wire.Anthropic, []string{
			open(0, `{"type":"tool_use","name":"Now","input":{}}`),
			open(1, `{"type":"text","text":""}`), anthropic(1, "text_delta", "text", "a"),
			anthropic(1, "text_delta", "text", "b"),
		}, "...."},
		{"chat", wire.OpenAIChat, []string{
			chat(`{"role":"assistant","content":"a"}`, ""), chat(`{"content":"a"}`, ""),
			chat(`{"content":"b"}`, ""), chat(`{"content":"b"}`, `,"usage":{"prompt_tokens":1}`),
		}, "..!."},
		{"chat, padded", wire.OpenAIChat, []string{
			chat(`{"content":"a"}`, `,"obfuscation":"xyz"`),
			chat(`{"content":"b"}`, `,"obfuscation":"v"`),
		}, ".!"},
		{"chat, reasoning as well", wire.OpenAIChat, []string{
			chat(`{"content":"a","reasoning":"b"}`, ""),
			chat(`{"content":"a","reasoning":"b"}`, ""),
		}, ".."},
		{"chat, the end", wire.OpenAIChat, []string{
			strings.Replace(chat(`{"content":"a"}`, ""), "null", `"stop"`, 1),
			strings.Replace(chat(`{"content":"b"}`, ""), "null", `"stop"`, 1),
		}, ".."},
		{"gemini", wire.Gemini, []string{
			gemini(`{"text":"a"}`), gemini(`{"text":"b"}`),
			gemini(`{"text":"b","thought":true}`), gemini(`{"text":"a"},{"text":"b"}`),
		}, ".!.."},
		{"steps", wire.Interactions, []string{
			`{"event_type":"step.start","index":0,"step":{"type":"model_output"}}`,
			`{"event_type":"step.delta","index":0,"delta":{"type":"text","text":"a"}}`,
			`{"event_type":"step.delta","index":0,"delta":{"type":"text","text":"b"}}`,
		}, "..!"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := hidden.NewInterceptor(c.format, interceptOptions)
			got := ""
			for _, e := range c.events {
				if r.Alike([]byte(e)) {
					got += "!"
				} else {
					got += "."
				}
				r.Feed([]byte("data: " + e + "\n\n"))
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			stream := []byte("data: " + strings.Join(c.events, "\n\ndata: ") + "\n\n")
			said, one := intercepted(c.format, len(stream), stream)
			told, other := interceptedApart(c.format, stream)
			if said != told || one.Size() != other.Size() || !reflect.DeepEqual(one.Iterations(), other.Iterations()) {
				t.Errorf("%s\n%+v\nwant\n%s\n%+v", said, one.Iterations(), told, other.Iterations())
			}
		})
	}
}

func decoded(f wire.Format, stream string) *wire.Turn {
	d := wire.NewDecoder(f, true)
	d.Feed([]byte(stream))
	return d.Turn()
}

// A decoder that follows an interceptor reads the same turn as a decoder of the client's bytes.
func TestFollow(t *testing.T) {
	all := func(string) bool { return true }
	for _, a := range answers.Streams(t) {
		if _, ok := a.Format.Codec().(hidden.Codec); !ok {
			continue
		}
		for name, o := range map[string]hidden.Options{
			"nothing hidden": {Hide: func(string) bool { return false }},
			"all hidden":     {Hide: all},
			"last usage":     {Hide: all, LastUsage: true},
			"some hidden":    interceptOptions,
			"watched":        {Hide: func(string) bool { return false }, Watch: all, Marks: interceptOptions.Marks},
			"watched as whole": {
				Hide: func(string) bool { return false }, Watch: all, Marks: interceptOptions.Marks,
				Whole: true,
			},
		} {
			r := hidden.NewInterceptor(a.Format, o)
			follows, reads := wire.NewDecoder(a.Format, true), wire.NewDecoder(a.Format, true)
			r.Follow(follows.Follow())
			feed := func(p []byte) {
				follows.Feed(nil)
				reads.Feed(p)
			}
			for n := range 2 {
				if n > 0 {
					if !r.Asks() {
						break
					}
					r.Next()
				}
				for line := range bytes.Lines(a.Data) {
					feed(r.Feed(line))
				}
				feed(r.End())
			}
			if r.Asks() {
				feed(r.Close())
			}
			follows.End()
			reads.End()
			got, want := follows.Turn(), reads.Turn()
			want.Final, want.Iterations = got.Final, got.Iterations // only the client has the list of iterations
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s:\n got %+v\nwant %+v", a.Name, name, got, want)
			}
		}
	}
}

// Unaffected events are forwarded in their original bytes.
func TestRelayPasses(t *testing.T) {
	for _, a := range answers.Streams(t) {
		f, b := a.Format, a.Data
		if _, ok := f.Codec().(hidden.Codec); !ok {
			continue
		}
		got, _ := intercepted(f, 7, b)
		want := string(b)
		if strings.Contains(want, `"Now"`) || strings.Contains(want, `"now"`) ||
			strings.Contains(strings.ToLower(want), `"bash"`) {
			if strings.Contains(got, `"Now"`) || strings.Contains(got, `"now"`) {
				t.Errorf("%s: the hidden call is shown", a.Name)
			}
			continue
		}
		// Calls without numbers get numbers.
		if got != want && (f != wire.OpenAIChat || !strings.Contains(want, "tool_calls") ||
			!reflect.DeepEqual(decoded(f, got), decoded(f, want))) {
			t.Errorf("%s changed:\n%s\nwant\n%s", a.Name, got, want)
		}
	}
}

// The turn at the end does not depend on the pieces, or on the reuse of their memory.
func TestRelayKeepsItsOwn(t *testing.T) {
	complete := map[wire.Format]int{}
	for _, a := range answers.Streams(t) {
		f, b := a.Format, a.Data
		whole := hidden.NewInterceptor(f, interceptOptions)
		whole.Feed(b)
		want := whole.Iterations()
		ways := map[wire.Format][]byte{f: b}
		if f == wire.Anthropic {
			ways[vertex.Format], ways[bedrock.Format] = b, chunked(b)
		}
		for f, b := range ways {
			if want[0].Complete() {
				complete[f]++
			}
			for _, piece := range []int{1, 7, 64, 500, len(b)} {
				if _, r := intercepted(f, piece, b); !reflect.DeepEqual(r.Iterations(), want) {
					t.Errorf("%s in %s in pieces of %d:\n got %+v\nwant %+v", a.Name, f, piece, r.Iterations(), want)
				}
			}
		}
	}
	for _, f := range wire.Formats() {
		if complete[f] == 0 {
			t.Errorf("no complete answer in %s", f)
		}
	}
}

// chunked wraps the events of a stream in Bedrock chunks.
func chunked(stream []byte) (out []byte) {
	var f framing.SSEFramer
	f.Feed(stream, func(e framing.Event) {
		if e.Data != nil {
			out = bedrock.Chunks{}.Append(out, "", e.Data)
		}
	})
	return out
}

// A Bedrock client gets the same message as a Messages client, in chunks, and the failure of a
// stream as an exception.
func TestRelayBedrock(t *testing.T) {
	call := []byte(strings.Join([]string{
		`data: {"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":10,"output_tokens":1}}}`,
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hm."}}`,
		`data: {"type":"content_block_stop","index":0}`,
		`data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"Now",` +
			`"input":{}}}`,
		`data: {"type":"content_block_stop","index":1}`,
		`data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}`,
		`data: {"type":"message_stop"}`, "",
	}, "\n\n"))
	rest := []byte(strings.ReplaceAll(strings.ReplaceAll(string(call), `"name":"Now"`, `"name":"Read"`), "Hm.", "Good."))
	want, _ := intercepted(wire.Anthropic, 7, call, rest)
	for _, piece := range []int{1, 7, 5000} {
		got, r := intercepted(bedrock.Format, piece, chunked(call), chunked(rest))
		if !r.Ended() || got != string(chunked([]byte(want))) || strings.Contains(want, "Now") {
			t.Errorf("in pieces of %d: %q, want the chunks of %q", piece, got, want)
		}
	}
	_, r := intercepted(bedrock.Format, 7, chunked(call)[:200])
	d := wire.NewDecoder(bedrock.Format, true)
	d.Feed(r.Failure("overloaded_error", "No room."))
	if turn := d.Turn(); turn.ErrorType != "serviceUnavailableException" || turn.ErrorMessage != "No room." || turn.Done {
		t.Errorf("failure reads as %+v", turn)
	}
}

const chatCall = `data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hm. "},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_e","type":"function","function":{"name":"now","arguments":""}}]},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"ids\":[\"a\"]}"}}]},"finish_reason":null}]}

`

const chatEnd = `data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"c1","object":"chat.completion.chunk","model":"m","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13}}

data: [DONE]

`

const chatRead = `data: {"id":"c2","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Good."},"finish_reason":null}]}

data: {"id":"c2","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":INDEX,"id":"call_r","type":"function","function":{"name":"read","arguments":"{}"}}]},"finish_reason":null}]}

`

// TestPossible: calls cannot be hidden in an answer that the client fetches from the provider
// later, or in one that continues a stored conversation.
func TestPossible(t *testing.T) {
	const input = `"input":[{"role":"user","content":"Hi"}]`
	for body, want := range map[string]bool{
		`{"model":"m",` + input + `}`: true, `{"model":"m","store":false,` + input + `}`: true,
		`{"model":"m","background":false,` + input + `}`: true,
		`{"model":"m","background":null,` + input + `}`:  true, `{"model":"m","background":true,` + input + `}`: false,
		`{"model":"m","background":true,"stream":true,` + input + `}`: false,
		`{"model":"m","previous_response_id":"resp_1",` + input + `}`: false,
	} {
		v, err := wire.Parse(wire.OpenAIResponses, []byte(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := hidden.Possible(v); got != want {
			t.Errorf("%s: %t", body, got)
		}
	}
}

// Without a terminal event from the upstream, the message ends at the end of a stream with a stop
// reason, and only then.
func TestRelayUnmarkedEnd(t *testing.T) {
	const done = "data: [DONE]\n\n"
	read, end := strings.ReplaceAll(chatRead, "INDEX", "0"), strings.TrimSuffix(chatEnd, done)
	for name, c := range map[string]struct {
		answers []string
		ended   bool
	}{
		"hidden, then visible": {[]string{chatCall + end, read + end}, true},
		"mixed":                {[]string{chatCall + strings.ReplaceAll(chatRead, "INDEX", "1") + end}, true},
		"visible":              {[]string{read + end}, true},
		"no reason":            {[]string{read}, false},
		"hidden, no reason":    {[]string{chatCall + end, read}, false},
	} {
		var answers [][]byte
		for _, a := range c.answers {
			answers = append(answers, []byte(a))
		}
		got, r := intercepted(wire.OpenAIChat, 1<<20, answers...)
		if r.Ended() != c.ended || len(r.Iterations()) != len(answers) || c.ended && strings.Contains(got, done) {
			t.Errorf("%s: ended %t after %d answers:\n%s", name, r.Ended(), len(r.Iterations()), got)
		}
	}
}

// A chat client sees one message under one id, and its message is split again in the next request.
func TestRelayChat(t *testing.T) {
	read := func(index string) string { return strings.ReplaceAll(chatRead, "INDEX", index) }
	for _, c := range []struct {
		name    string
		answers []string
		content string
		calls   int
		prompt  int64
		want    string // upstream, in place of the client's message
	}{
		{
			"two answers",
			[]string{chatCall + chatEnd, read("0") + chatEnd},
			"Hm. Good.", 1, 20,
			`{"role":"assistant","content":"Hm. ","tool_calls":[{"id":"call_e","type":"function","function":{"name":"now",` +
				`"arguments":"{\"ids\":[\"a\"]}"}}]},{"role":"tool","tool_call_id":"call_e","content":"text"},` +
				`{"role":"assistant","content":"Good.","tool_calls":[{"id":"call_r","type":"function","function":{"name":"read",` +
				`"arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_r","content":"r"}`,
		},
		{
			"mixed",
			[]string{chatCall + read("1") + chatEnd},
			"Hm. Good.", 1, 10,
			`{"role":"assistant","content":"Hm. Good.","tool_calls":[{"id":"call_e","type":"function",` +
				`"function":{"name":"now","arguments":"{\"ids\":[\"a\"]}"}},{"id":"call_r","type":"function",` +
				`"function":{"name":"read","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_e","content":"text"},` +
				`{"role":"tool","tool_call_id":"call_r","content":"r"}`,
		},
	} {
		var answers [][]byte
		for _, a := range c.answers {
			answers = append(answers, []byte(a))
		}
		got, r := intercepted(wire.OpenAIChat, 1<<20, answers...)
		turn := decoded(wire.OpenAIChat, got)
		if turn.Text != c.content || len(turn.Calls) != c.calls || !turn.Done || turn.Usage.Prompt() != c.prompt ||
			turn.ID != "c1" {
			t.Fatalf("%s: %+v from\n%s", c.name, turn, got)
		}
		if strings.Contains(got, `"c2"`) && strings.Contains(got, `"c1"`) && c.name == "two answers" ||
			strings.Count(got, `"role"`) > 1 && c.name == "two answers" {
			t.Errorf("%s: several messages:\n%s", c.name, got)
		}
		its := r.Iterations()
		for i := range its {
			for _, p := range its[i].Hidden() {
				p.Result = "text"
			}
		}
		body := `{"model":"m","messages":[{"role":"user","content":"go"},{"role":"assistant","content":"Hm. Good.",` +
			`"tool_calls":[{"id":"call_r","type":"function","function":{"name":"read","arguments":"{}"}}]},{"role":"tool",` +
			`"tool_call_id":"call_r","content":"r"}]}`
		v, err := wire.Parse(wire.OpenAIChat, []byte(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		edits, ok := hidden.Reinsert(v, 1, its)
		if !ok {
			t.Fatalf("%s: not put back", c.name)
		}
		out, err := v.Splice(edits)
		if want := `{"model":"m","messages":[{"role":"user","content":"go"},` + c.want + `]}`; err != nil ||
			string(out) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, out, want)
		}
		// A message modified by the client is left alone.
		other, _ := wire.Parse(wire.OpenAIChat, []byte(strings.Replace(body, "Good.", "Other.", 1)), nil)
		if _, ok := hidden.Reinsert(other, 1, its); ok {
			t.Errorf("%s: hidden turns were put into another message", c.name)
		}
	}
}

var interceptFormats = []wire.Format{
	wire.Anthropic, wire.OpenAIChat, wire.OpenAIResponses, wire.Gemini,
	wire.Interactions,
}

// FuzzRelaySplit cuts streams anywhere: the client gets the same bytes, and every data it gets is
// JSON if the upstream's was.
func FuzzRelaySplit(f *testing.F) {
	for i, a := range answers.Streams(f) {
		b := a.Data
		for n, format := range interceptFormats {
			if a.Format == format {
				f.Add(b, uint8(n), 1+i)
				f.Add(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")), uint8(n), 1+i)
				f.Add(bytes.TrimRight(bytes.ReplaceAll(b, []byte("\n"), []byte("\r")), "\r"), uint8(n), 1+i)
			}
		}
	}
	f.Add([]byte(chatCall+chatEnd), uint8(1), 3)
	f.Fuzz(func(t *testing.T, answer []byte, n uint8, piece int) {
		format := interceptFormats[int(n)%len(interceptFormats)]
		want, r := intercepted(format, max(len(answer), 1), answer, answer)
		for _, piece := range []int{1, max(piece, 1)} {
			if got, _ := intercepted(format, piece, answer, answer); got != want {
				t.Fatalf("in pieces of %d:\n got %q\nwant %q", piece, got, want)
			}
		}
		if got, apart := interceptedApart(format, answer, answer); got != want || apart.Size() != r.Size() ||
			!reflect.DeepEqual(apart.Iterations(), r.Iterations()) {
			t.Errorf("event by event:\n got %q %+v\nwant %q %+v", got, apart.Iterations(), want, r.Iterations())
		}
		for _, it := range r.Iterations() {
			if it.Complete() && len(it.Hidden()) > 0 &&
				!gjson.ValidBytes(append(append([]byte{'['}, hidden.Continuation(format, &it)...), ']')) {
				t.Errorf("the continuation is no JSON: %s", hidden.Continuation(format, &it))
			}
		}
	})
}
