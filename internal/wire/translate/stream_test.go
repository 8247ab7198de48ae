// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/answers"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// seed is the seed of generated ids.
func seed() string { return "s" }

// run translates an answer, cut into pieces at the given places.
func run(from, to wire.Format, asked translate.Answering, data []byte, cuts ...int) ([]byte, *translate.Stream) {
	s := translate.NewStream(from, to, &asked)
	var out []byte
	at := 0
	for _, cut := range append(cuts, len(data)) {
		piece := bytes.Clone(data[at:cut]) // a copy, so that a string kept too long shows
		out = append(out, s.Feed(piece)...)
		for i := range piece {
			piece[i] = '#'
		}
		at = cut
	}
	return append(out, s.Close(false)...), s
}

func decoded(f wire.Format, stream bool, data []byte) *wire.Turn {
	d := wire.NewDecoder(f, stream)
	d.Feed(data)
	d.End()
	return d.Turn()
}

// same compares the results of two decoders for one answer in two formats.
func same(t *testing.T, got, want *wire.Turn) {
	t.Helper()
	if got.Done != want.Done {
		t.Fatalf("done is %v, want %v", got.Done, want.Done)
	}
	if !want.Done {
		if !strings.HasPrefix(want.Text, got.Text) || !strings.HasPrefix(want.Thinking, got.Thinking) {
			t.Errorf("%q, %q are not the beginning of %q, %q", got.Text, got.Thinking, want.Text, want.Thinking)
		}
		return
	}
	if !strings.HasSuffix(got.ID, want.ID) || want.Model != "" && got.Model != want.Model {
		t.Errorf("%s of %s, want %s of %s", got.ID, got.Model, want.ID, want.Model)
	}
	if got.Text != want.Text || got.Thinking != want.Thinking {
		t.Errorf("text %q and thinking %q, want %q and %q", got.Text, got.Thinking, want.Text, want.Thinking)
	}
	if got.Usage != want.Usage {
		t.Errorf("usage %+v, want %+v", got.Usage, want.Usage)
	}
	if len(got.Calls) != len(want.Calls) {
		t.Fatalf("calls %+v, want %+v", got.Calls, want.Calls)
	}
	for i, c := range got.Calls {
		w := want.Calls[i]
		id, _ := seal.OpenID(c.ID)
		if w.ID != "" && id != w.ID || id == "" || c.Name != w.Name || compact(c.Arguments) != compact(w.Arguments) {
			t.Errorf("call %+v, want %+v", c, w)
		}
	}
}

// compact returns arguments in the form common to all formats: an object on one line. Invalid
// arguments become a member of one.
func compact(arguments string) string {
	switch {
	case arguments == "":
		return "{}"
	case !json.Valid([]byte(arguments)):
		wrapped, _ := json.Marshal(map[string]string{"arguments": arguments})
		return string(wrapped)
	}
	var b bytes.Buffer
	_ = json.Compact(&b, []byte(arguments))
	return b.String()
}

// wellFormedOutput checks that a client of the format can read the output: events of JSON objects
// in the format's order, or one JSON object.
func wellFormedOutput(f wire.Format, stream bool, out []byte) error {
	if len(out) == 0 {
		return nil
	}
	if !stream {
		if !json.Valid(out) {
			return fmt.Errorf("not JSON: %q", out)
		}
		return nil
	}
	var err error
	fail := func(format string, args ...any) {
		if err == nil {
			err = fmt.Errorf(format, args...)
		}
	}
	g := grammar{format: f, fail: fail, open: -1}
	p := framing.SSEFramer{Comment: func() {
		if f == wire.Gemini {
			fail("a comment for a client of gemini")
		}
	}}
	p.Feed(out, func(e framing.Event) {
		if e.Data == nil { // a comment
			return
		}
		if string(e.Data) == "[DONE]" && f == wire.OpenAIChat {
			g.finish()
			return
		}
		if string(e.Data) == "[DONE]" && string(e.Name) == "done" && f == wire.Interactions && g.finished {
			return
		}
		var v map[string]any
		if e := json.Unmarshal(e.Data, &v); e != nil {
			fail("event %q: %v", v, e)
			return
		}
		g.event(string(e.Name), v)
	})
	events := out
	for bytes.HasSuffix(events, []byte(": ping\n")) { // a ping does not end an event
		events = bytes.TrimSuffix(events, []byte(": ping\n"))
	}
	if len(events) > 0 && !bytes.HasSuffix(events, []byte("\n\n")) {
		fail("the last event has no end")
	}
	return err
}

// grammar is the allowed order of a format's events.
type grammar struct {
	format   wire.Format
	fail     func(string, ...any)
	started  bool
	finished bool
	stopped  bool
	open     int // index of the open block
	next     int
	sequence int
}

func (g *grammar) finish() {
	if g.finished {
		g.fail("two ends")
	}
	g.finished = true
}

func (g *grammar) event(name string, v map[string]any) {
	if g.finished {
		g.fail("%v after the end", v)
	}
	if _, ok := v["error"]; ok && g.format != wire.OpenAIResponses {
		g.finish()
		return
	}
	switch g.format {
	case wire.Anthropic:
		g.anthropic(name, v)
	case wire.OpenAIChat:
		if v["object"] != "chat.completion.chunk" || v["id"] == "" {
			g.fail("not a chunk: %v", v)
		}
		choices := v["choices"].([]any)
		if g.stopped && len(choices) > 0 {
			g.fail("%v behind the finish_reason", v)
		}
		if len(choices) > 0 {
			g.stopped = choices[0].(map[string]any)["finish_reason"] != nil
		}
	case wire.OpenAIResponses:
		g.responses(name, v)
	case wire.Interactions:
		g.interactions(name, v)
	case wire.Gemini:
		if name != "" {
			g.fail("an event named %s", name)
		}
		c := v["candidates"].([]any)[0].(map[string]any)
		if c["finishReason"] != nil {
			g.finish()
		}
	}
}

func (g *grammar) interactions(name string, v map[string]any) {
	if v["event_type"] != name {
		g.fail("event %s holds %s", name, v["event_type"])
	}
	index := -1
	if n, ok := v["index"].(float64); ok {
		index = int(n)
	}
	switch name {
	case "interaction.created":
		if g.started {
			g.fail("two starts")
		}
		g.started = true
	case "step.start":
		if g.open >= 0 || index != g.next {
			g.fail("step %d begins while %d is open, %d is next", index, g.open, g.next)
		}
		g.open = index
		g.next++
	case "step.delta":
		if index != g.open {
			g.fail("a piece of step %d while %d is open", index, g.open)
		}
	case "step.stop":
		if index != g.open {
			g.fail("step %d ends while %d is open", index, g.open)
		}
		g.open = -1
	case "interaction.completed":
		if g.open >= 0 {
			g.fail("step %d is open at the end", g.open)
		}
		g.finish()
	default:
		g.fail("an event named %s", name)
	}
	if !g.started {
		g.fail("%s before the start", name)
	}
}

func (g *grammar) anthropic(name string, v map[string]any) {
	kind, _ := v["type"].(string)
	if kind != name {
		g.fail("event %s holds %s", name, kind)
	}
	index := -1
	if n, ok := v["index"].(float64); ok {
		index = int(n)
	}
	switch kind {
	case "message_start":
		if g.started {
			g.fail("two starts")
		}
		g.started = true
	case "content_block_start":
		if g.open >= 0 || index != g.next || g.stopped {
			g.fail("block %d opens while %d is open, %d is next", index, g.open, g.next)
		}
		g.open = index
		g.next++
	case "content_block_delta":
		if g.open != index || index < 0 {
			g.fail("delta of %d while %d is open", index, g.open)
		}
	case "content_block_stop":
		if g.open != index || index < 0 {
			g.fail("stop of %d while %d is open", index, g.open)
		}
		g.open = -1
	case "message_delta":
		if g.open >= 0 {
			g.fail("block %d is open at the end", g.open)
		}
		g.stopped = true
	case "message_stop":
		if !g.stopped {
			g.fail("no message_delta")
		}
		g.finish()
	case "ping":
	default:
		g.fail("event %s", kind)
	}
	if !g.started {
		g.fail("%s before the start", kind)
	}
}

func (g *grammar) responses(name string, v map[string]any) {
	if v["type"] != name {
		g.fail("event %s holds %v", name, v["type"])
	}
	if n, _ := v["sequence_number"].(float64); int(n) != g.sequence {
		g.fail("event %d has number %v", g.sequence, n)
	}
	g.sequence++
	if n, ok := v["output_index"].(float64); ok && name != "response.output_item.added" && int(n) != g.open {
		g.fail("%s of %v while %d is open", name, n, g.open)
	}
	switch name {
	case "response.created":
		g.started = true
	case "response.output_item.added":
		if g.open >= 0 || int(v["output_index"].(float64)) != g.next {
			g.fail("item %v opens while %d is open", v["output_index"], g.open)
		}
		g.open = g.next
		g.next++
	case "response.output_item.done":
		g.open = -1
	case "response.completed", "response.incomplete":
		if g.open >= 0 {
			g.fail("item %d is open at the end", g.open)
		}
		g.finish()
	case "response.failed", "error":
		g.finish()
	}
	if !g.started && name != "error" {
		g.fail("%s before the start", name)
	}
}

// portable returns a turn in the form for formats without tools of their own: free text is the one
// member of an object, and undeclarable tools are left out.
func portable(t *wire.Turn) *wire.Turn {
	var calls []wire.Call
	for _, c := range t.Calls {
		if c.Free {
			b, _ := json.Marshal(map[string]string{"input": c.Arguments})
			c.Arguments, c.Free = string(b), false
		}
		if c.Name != "local_shell" {
			calls = append(calls, c)
		}
	}
	t.Calls = calls
	return t
}

// TestAnswers: the client's decoder reads the same turn from the translation as the upstream's
// decoder from the original, for any answer and any cuts.
func TestAnswers(t *testing.T) {
	for _, f := range answers.All(t) {
		want := portable(decoded(f.Format, f.Stream, f.Data))
		for _, to := range translate.Formats() {
			for _, stream := range []bool{true, false} {
				for _, buffer := range []bool{false, true} {
					if buffer && !stream {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/%v/%v", f.Name, to, stream, buffer), func(t *testing.T) {
						asked := translate.Answering{Stream: stream, Usage: true, Seed: seed, BufferCalls: buffer}
						out, s := run(f.Format, to, asked, f.Data)
						if err := wellFormedOutput(to, stream, out); err != nil {
							t.Fatalf("%v in\n%s", err, out)
						}
						if want.Failed() {
							failed(t, s, to, stream, out, want)
							return
						}
						if !stream && !want.Done {
							if len(out) > 0 {
								t.Errorf("a cut answer became %s", out)
							}
							return
						}
						same(t, decoded(to, stream, out), want)
						back, _ := run(to, f.Format, translate.Answering{Stream: stream, Usage: true, Seed: seed}, out)
						if f.Format != to {
							same(t, decoded(f.Format, stream, back), want)
						}
						if t.Failed() {
							t.Logf("output:\n%s\nand back:\n%s", out, back)
						}
					})
				}
			}
		}
	}
}

func failed(t *testing.T, s *translate.Stream, to wire.Format, stream bool, out []byte, want *wire.Turn) {
	t.Helper()
	if !stream {
		f := s.Failure()
		if f == nil || len(out) > 0 {
			t.Fatalf("failure %v, output %q", f, out)
		}
		_, out = f.Write(to)
	}
	got := decoded(to, stream, out)
	// A Gemini stream that is only an error is one complete JSON value.
	if !got.Failed() || got.Done && stream && to != wire.Gemini || got.ErrorMessage != want.ErrorMessage {
		t.Errorf("%+v, want %+v; output %s", got, want, out)
	}
}

// TestSplits: any cut gives the same bytes.
func TestSplits(t *testing.T) {
	for _, f := range answers.All(t) {
		for _, to := range translate.Formats() {
			asked := translate.Answering{Stream: true, Usage: true, Seed: seed}
			whole, _ := run(f.Format, to, asked, f.Data)
			single := make([]int, len(f.Data))
			for i := range single {
				single[i] = i
			}
			if out, _ := run(f.Format, to, asked, f.Data, single...); !bytes.Equal(out, whole) {
				t.Errorf("%s to %s byte by byte:\n%s\nwant\n%s", f.Name, to, out, whole)
			}
			for i := 1; i < len(f.Data); i += 1 + len(f.Data)/200 {
				if out, _ := run(f.Format, to, asked, f.Data, i); !bytes.Equal(out, whole) {
					t.Fatalf("%s to %s cut at %d:\n%s\nwant\n%s", f.Name, to, i, out, whole)
				}
			}
		}
	}
}

// TestSplitCharacters: llama.cpp splits characters, and the client's answer is valid UTF-8.
func TestSplitCharacters(t *testing.T) {
	const content = "\"content\":\"Hi \xe2\x82 ok\"},\"finish_reason\":\"stop\"}]}"
	for stream, data := range map[bool]string{
		false: `{"id":"c1","model":"m","choices":[{"index":0,"message":{"role":"assistant",` + content,
		true:  `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{` + content + "\n\ndata: [DONE]\n\n",
	} {
		out, _ := run(wire.OpenAIChat, wire.Anthropic, translate.Answering{Stream: stream, Seed: seed}, []byte(data))
		if turn := decoded(wire.Anthropic, stream, out); !utf8.Valid(out) || turn.Text != "Hi \uFFFD ok" {
			t.Errorf("stream %t: got %q, want %q", stream, turn.Text, "Hi \uFFFD ok")
		}
	}
}
