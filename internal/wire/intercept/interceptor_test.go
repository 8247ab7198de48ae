// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package intercept_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/answers"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/golden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/bedrock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/vertex"
)

var interceptOptions = intercept.Options{
	Intercepts: func(name string) bool { return name == "Now" || name == "now" },
	Watch:      func(name string) bool { return name == "Bash" || name == "bash" },
	Marks:      func() *intercept.Marks { return intercept.NewMarks([]string{"[[stub"}) },
}

// intercepted feeds answers in pieces, one after the other while the interceptor asks, and returns
// the client's output.
func intercepted(o intercept.Options, f wire.Format, piece int, answers ...[]byte) (string, *intercept.Interceptor) {
	r := intercept.NewInterceptor(f, o)
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
func interceptedApart(o intercept.Options, f wire.Format, answers ...[]byte) (string, *intercept.Interceptor) {
	r := intercept.NewInterceptor(f, o)
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

func decoded(f wire.Format, stream string) *wire.Turn {
	d := wire.NewDecoder(f, true)
	d.Feed([]byte(stream))
	return d.Turn()
}

// A decoder that follows an interceptor reads the same turn as a decoder of the client's bytes.
func TestFollow(t *testing.T) {
	all := func(string) bool { return true }
	for _, a := range answers.Streams(t) {
		if _, ok := a.Format.Codec().(intercept.Codec); !ok {
			continue
		}
		for name, o := range map[string]intercept.Options{
			"nothing hidden": {Intercepts: func(string) bool { return false }},
			"all hidden":     {Intercepts: all},
			"last usage":     {Intercepts: all, LastUsage: true},
			"some hidden":    interceptOptions,
			"watched":        {Intercepts: func(string) bool { return false }, Watch: all, Marks: interceptOptions.Marks},
			"watched as whole": {
				Intercepts: func(string) bool { return false }, Watch: all, Marks: interceptOptions.Marks,
				Whole: true,
			},
		} {
			r := intercept.NewInterceptor(a.Format, o)
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
		if _, ok := f.Codec().(intercept.Codec); !ok {
			continue
		}
		got, _ := intercepted(interceptOptions, f, 7, b)
		want := string(b)
		if strings.Contains(want, `"Now"`) || strings.Contains(want, `"now"`) ||
			strings.Contains(strings.ToLower(want), `"bash"`) {
			if strings.Contains(got, `"Now"`) || strings.Contains(got, `"now"`) {
				t.Errorf("%s: the intercepted call is shown", a.Name)
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
		whole := intercept.NewInterceptor(f, interceptOptions)
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
				if _, r := intercepted(interceptOptions, f, piece, b); !reflect.DeepEqual(r.Iterations(), want) {
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
	want, _ := intercepted(interceptOptions, wire.Anthropic, 7, call, rest)
	for _, piece := range []int{1, 7, 5000} {
		got, r := intercepted(interceptOptions, bedrock.Format, piece, chunked(call), chunked(rest))
		if !r.Ended() || got != string(chunked([]byte(want))) || strings.Contains(want, "Now") {
			t.Errorf("in pieces of %d: %q, want the chunks of %q", piece, got, want)
		}
	}
	_, r := intercepted(interceptOptions, bedrock.Format, 7, chunked(call)[:200])
	d := wire.NewDecoder(bedrock.Format, true)
	d.Feed(r.Failure("overloaded_error", "No room."))
	if turn := d.Turn(); turn.ErrorType != "serviceUnavailableException" || turn.ErrorMessage != "No room." || turn.Done {
		t.Errorf("failure reads as %+v", turn)
	}
}

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
		if got := intercept.Possible(v); got != want {
			t.Errorf("%s: %t", body, got)
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
	f.Add([]byte(golden.Read(f, "testdata/chat/two_answers.txtar")[0].Text), uint8(1), 3)
	f.Fuzz(func(t *testing.T, answer []byte, n uint8, piece int) {
		format := interceptFormats[int(n)%len(interceptFormats)]
		want, r := intercepted(interceptOptions, format, max(len(answer), 1), answer, answer)
		for _, piece := range []int{1, max(piece, 1)} {
			if got, _ := intercepted(interceptOptions, format, piece, answer, answer); got != want {
				t.Fatalf("in pieces of %d:\n got %q\nwant %q", piece, got, want)
			}
		}
		if got, apart := interceptedApart(interceptOptions, format, answer, answer); got != want || apart.Size() != r.Size() ||
			!reflect.DeepEqual(apart.Iterations(), r.Iterations()) {
			t.Errorf("event by event:\n got %q %+v\nwant %q %+v", got, apart.Iterations(), want, r.Iterations())
		}
		for _, it := range r.Iterations() {
			if it.Complete() && len(it.Intercepted()) > 0 &&
				!gjson.ValidBytes(append(append([]byte{'['}, intercept.Continuation(format, &it)...), ']')) {
				t.Errorf("the continuation is no JSON: %s", intercept.Continuation(format, &it))
			}
		}
	})
}

// TestPieceOfNoStep: a part of a step that has not begun passes as it came.
func TestPieceOfNoStep(t *testing.T) {
	for _, index := range []string{"", `,"index":-1`, `,"index":7`} {
		stream := "event: step.delta\ndata: {\"event_type\":\"step.delta\"" + index + ",\"delta\":{\"type\":\"x\",\"y\":1}}\n\n"
		if got, _ := intercepted(interceptOptions, wire.Interactions, len(stream), []byte(stream)); !strings.HasPrefix(got, stream) {
			t.Errorf("%s: got %q, want %q", index, got, stream)
		}
	}
}
