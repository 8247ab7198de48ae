// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/answers"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

const (
	anthropicText = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0," +
		"\"delta\":{\"type\":\"text_delta\",\"text\":%q}}\n\n"
	anthropicStop = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	chatText      = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1790000000," +
		"\"model\":\"gpt-6-sol\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"logprobs\":null," +
		"\"finish_reason\":null}]}\n\n"
	chatDone      = "data: [DONE]\n\n"
	responsesText = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\"," +
		"\"sequence_number\":4,\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":%q}\n\n"
	responsesEnd = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n"
)

// A malformed answer is never done. The part before the error is known, and the rest is not read.
func TestDecoderStops(t *testing.T) {
	hello := fmt.Sprintf(anthropicText, "hello")
	deep := strings.Repeat("[", rawjson.MaxDepth+1) + strings.Repeat("]", rawjson.MaxDepth+1)
	for _, c := range []struct {
		name   string
		format wire.Format
		stream bool
		answer string
		text   string
	}{
		{
			"cut event", wire.Anthropic, true, hello + "data: {\"type\":\"content_block_delta\",\n\n" + hello + anthropicStop,
			"hello",
		},
		{"foreign data", wire.Anthropic, true, hello + "data: beep\n\n" + anthropicStop, "hello"},
		{
			"control character", wire.Anthropic, true, hello + "data: {\"type\":\"message_st\x01op\"}\n\n" + anthropicStop,
			"hello",
		},
		{"deep event", wire.Anthropic, true, hello + "data: {\"type\":" + deep + "}\n\n" + anthropicStop, "hello"},
		{"unclosed deep event", wire.Anthropic, true, hello + "data: " + strings.Repeat("{\"a\":", 1<<20) + "\n\n" +
			anthropicStop, "hello"},
		{"end of the other format", wire.Anthropic, true, hello + chatDone, "hello"},
		{"other end", wire.OpenAIChat, true, fmt.Sprintf(chatText, "hello") + anthropicStop, "hello"},
		{"after an error", wire.OpenAIChat, true, fmt.Sprintf(chatText, "hello") +
			"data: {\"error\":{\"message\":\"x\"}}\n\n" + fmt.Sprintf(chatText, "more") + chatDone, "hello"},
		{"named error", wire.OpenAIChat, true, "event: error\ndata: {\"message\":\"x\"}\n\n" + chatDone, ""},
		{"no terminal event", wire.OpenAIResponses, true, fmt.Sprintf(responsesText, "hello") + chatDone, "hello"},
		{"a failed response", wire.OpenAIResponses, true, fmt.Sprintf(responsesText, "hello") +
			"data: {\"type\":\"response.failed\",\"response\":{\"error\":null}}\n\n" + responsesEnd, "hello"},
		{"nothing", wire.Anthropic, true, "", ""},
		{"white space", wire.Anthropic, false, " \r\n", ""},
		{"html", wire.Anthropic, false, "<html>{}</html>", ""},
		{"html as a stream", wire.Anthropic, true, "<html>\n\n{}</html>", ""},
		{"array", wire.OpenAIChat, false, "[{\"choices\":[]}]", ""},
		{"cut document", wire.OpenAIChat, false, "{\"choices\":[{\"message\":{\"content\":\"hello\"}}]", ""},
		{"broken document", wire.OpenAIChat, false, "{\"choices\":[{\"message\":{\"content\":\"hello\",}}]}", ""},
		{"mismatched document", wire.OpenAIChat, false, "{\"choices\":[}]", ""},
		{"deep document", wire.OpenAIChat, false, "{\"choices\":" + deep + "}", ""},
		{"unclosed deep document", wire.OpenAIChat, false, "{\"choices\":" + strings.Repeat("[", 1<<22), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, piece := range []int{1 << 20, 11} {
				got := decoded(c.format, c.stream, []byte(c.answer), piece)
				if got.Done {
					t.Errorf("in pieces of %d: done", piece)
				}
				if got.Text != c.text {
					t.Errorf("in pieces of %d: text %q, want %q", piece, got.Text, c.text)
				}
			}
		})
	}
}

// Trailing bytes invalidate a document, brackets in strings do not count as nesting, and data after
// the terminal event is not read.
func TestDecoderTolerates(t *testing.T) {
	brackets := strings.Repeat("[{", rawjson.MaxDepth)
	for _, c := range []struct {
		name   string
		format wire.Format
		stream bool
		answer string
		text   string
		done   bool
	}{
		{
			"white space around a document", wire.OpenAIChat, false,
			"\n\n {\"choices\":[{\"message\":{\"content\":\"hello\"}}]}\r\n ", "hello", true,
		},
		{
			"more after a document", wire.OpenAIChat, false, "{\"choices\":[{\"message\":{\"content\":\"hello\"}}]}\n{}",
			"hello", false,
		},
		{"brackets in a document", wire.OpenAIChat, false, "{\"choices\":[{\"message\":{\"content\":\"" + brackets +
			"\\\"\"}}]}", brackets + "\"", true},
		{
			"events of which nothing is read", wire.Anthropic, true, fmt.Sprintf(anthropicText, "hel") +
				"event: ping\ndata: {\n\nevent: content_block_stop\ndata: {\n\n" + fmt.Sprintf(anthropicText, "lo") + anthropicStop,
			"hello", true,
		},
		{"brackets in an event", wire.Anthropic, true, fmt.Sprintf(anthropicText, brackets) + anthropicStop, brackets, true},
		{"more after the end", wire.OpenAIChat, true, fmt.Sprintf(chatText, "a") + chatDone + fmt.Sprintf(chatText, "b") +
			"data: {\n\n", "a", true},
		{"comments, empty data, scalars", wire.OpenAIChat, true, ":\n\ndata:\n\ndata: null\n\ndata: 1\n\n" +
			fmt.Sprintf(chatText, "a") + chatDone, "a", true},
		{
			"odd types", wire.Anthropic, true,
			"data: {\"type\":1,\"index\":{}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":\"x\"," +
				"\"delta\":[]}\n\ndata: {\"type\":\"message_delta\",\"delta\":7,\"usage\":[1]}\n\n" + anthropicStop, "", true,
		},
		{
			"odd types in chunks", wire.OpenAIChat, true,
			"data: {\"id\":1,\"choices\":{},\"usage\":\"x\",\"error\":null}\n\ndata: {\"choices\":[[]]}\n\ndata: " +
				"{\"choices\":[{\"delta\":{\"content\":{},\"tool_calls\":[1]}}]}\n\n" + chatDone, "", true,
		},
		{"lone surrogate", wire.OpenAIChat, true, "data: {\"choices\":[{\"delta\":{\"content\":\"\\ud83d\"}}]}\n\n" +
			chatDone, "\uFFFD", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, piece := range []int{len(c.answer), 13} {
				got := decoded(c.format, c.stream, []byte(c.answer), piece)
				if got.Text != c.text || got.Done != c.done || got.Calls != nil {
					t.Errorf("in pieces of %d: got %q, done %v, calls %v; want %q, done %v", piece, got.Text, got.Done, got.Calls,
						c.text, c.done)
				}
			}
		})
	}
}

func TestDecoderProgress(t *testing.T) {
	for _, c := range []struct {
		name   string
		format wire.Format
		stream bool
		// silent, first and rest are fed in turn: first has the first token, the last byte of rest
		// ends the answer.
		silent, first, rest string
	}{
		{
			"anthropic", wire.Anthropic, true,
			"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[]}}\n\nevent: " +
				"content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"," +
				"\"text\":\"\"}}\n\ndata: {\"type\":\"ping\"}\n\n", fmt.Sprintf(anthropicText, "a"), anthropicStop,
		},
		{
			"anthropic tool", wire.Anthropic, true, ": x\n\n",
			"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\"," +
				"\"name\":\"b\",\"input\":{}}}\n\n", anthropicStop,
		},
		{
			"anthropic redacted", wire.Anthropic, true, ": x\n\n",
			"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"redacted_thinking\"," +
				"\"data\":\"x\"}}\n\n", anthropicStop,
		},
		{
			"openai", wire.OpenAIChat, true, ": keepalive 1/2\n\n" + fmt.Sprintf(chatText, ""), fmt.Sprintf(chatText, "a"),
			chatDone,
		},
		{
			"openai reasoning", wire.OpenAIChat, true, fmt.Sprintf(chatText, ""),
			"data: {\"choices\":[{\"delta\":{\"reasoning\":\"a\"}}]}\n\n", chatDone,
		},
		{
			"responses", wire.OpenAIResponses, true,
			"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"output\":[]}}\n\ndata: " +
				"{\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"message\",\"content\":[]}}\n\n",
			fmt.Sprintf(responsesText, "a"), responsesEnd,
		},
		{
			"responses reasoning", wire.OpenAIResponses, true, ": x\n\n",
			"data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"reasoning\"," +
				"\"summary\":[]}}\n\n", responsesEnd,
		},
		{
			"responses call", wire.OpenAIResponses, true, ": x\n\n",
			"data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"custom_tool_call\"," +
				"\"call_id\":\"c\",\"name\":\"n\",\"input\":\"\"}}\n\n", responsesEnd,
		},
		{"document", wire.OpenAIChat, false, "{\"choices\":[{\"message\":{\"content\":\"a\"}}]", "}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := wire.NewDecoder(c.format, c.stream)
			d.Feed([]byte(c.silent))
			if d.Begun() || d.Done() {
				t.Fatalf("before the first token: begun %v, done %v", d.Begun(), d.Done())
			}
			d.Feed([]byte(c.first))
			if !d.Begun() {
				t.Fatal("not begun after the first token")
			}
			if c.rest == "" {
				if !d.Done() {
					t.Fatal("not done")
				}
				return
			}
			d.Feed([]byte(c.rest[:len(c.rest)-1]))
			if d.Done() {
				t.Fatal("done before the last byte")
			}
			d.Feed([]byte(c.rest[len(c.rest)-1:]))
			if !d.Done() || !d.Turn().Done {
				t.Fatal("not done after the last byte")
			}
		})
	}
}

// A stream with a stop reason is done at its clean end and not before, because usage may follow. A
// stream that ends inside an event is not done.
func TestDecoderUnmarkedEnd(t *testing.T) {
	const (
		stop = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}," +
			"\"usage\":{\"output_tokens\":3}}\n\n"
		reason  = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
		failure = "data: {\"error\":{\"message\":\"x\"}}\n\n"
	)
	for _, c := range []struct {
		name   string
		format wire.Format
		answer string
		done   bool
	}{
		{"chat", wire.OpenAIChat, fmt.Sprintf(chatText, "a") + reason, true},
		{"chat without a blank line", wire.OpenAIChat, fmt.Sprintf(chatText, "a") + strings.TrimSpace(reason), true},
		{"chat without a reason", wire.OpenAIChat, fmt.Sprintf(chatText, "a"), false},
		{"chat, half an event", wire.OpenAIChat, fmt.Sprintf(chatText, "a") + reason + "data: {\"usa", false},
		{"chat, an error", wire.OpenAIChat, fmt.Sprintf(chatText, "a") + reason + failure, false},
		{"messages", wire.Anthropic, fmt.Sprintf(anthropicText, "a") + stop, true},
		{"messages without a reason", wire.Anthropic, fmt.Sprintf(anthropicText, "a"), false},
		{"responses", wire.OpenAIResponses, fmt.Sprintf(responsesText, "a"), false},
	} {
		d := wire.NewDecoder(c.format, true)
		d.Feed([]byte(c.answer))
		if d.Done() {
			t.Errorf("%s: done before its end", c.name)
		}
		if d.End(); d.Done() != c.done || d.Turn().Text != "a" {
			t.Errorf("%s: %+v", c.name, d.Turn())
		}
	}
}

// A snapshot of the turn does not change later.
func TestDecoderTurnMidway(t *testing.T) {
	d := wire.NewDecoder(wire.Anthropic, true)
	d.Feed([]byte("data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\"," +
		"\"id\":\"a\",\"name\":\"b\",\"input\":{}}}\n\n"))
	d.Feed(fmt.Appendf(nil, anthropicText, "one"))
	midway := d.Turn()
	d.Feed(fmt.Appendf(nil, anthropicText, " two"))
	d.Feed([]byte("data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\"," +
		"\"partial_json\":\"{\\\"x\\\":1}\"}}\n\n" + anthropicStop))
	if want := (&wire.Turn{Text: "one", Calls: []wire.Call{{
		ID: "a", Name: "b",
		Arguments: "{}",
	}}}); !reflect.DeepEqual(midway, want) {
		t.Errorf("midway: got %+v, want %+v", midway, want)
	}
	if got, want := d.Turn(), (&wire.Turn{
		Text: "one two", Calls: []wire.Call{{ID: "a", Name: "b", Arguments: `{"x":1}`}},
		Done: true,
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("at the end: got %+v, want %+v", got, want)
	}
}

func TestDecoderBounds(t *testing.T) {
	const mebibyte = 1 << 20
	large := strings.Repeat("a", mebibyte)
	t.Run("texts", func(t *testing.T) {
		for name, event := range map[string]string{
			"text": fmt.Sprintf(anthropicText, large),
			"thinking": "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\"," +
				"\"thinking\":\"" + large + "\"}}\n\n",
			"arguments": "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\"," +
				"\"partial_json\":\"" + large + "\"}}\n\n",
		} {
			d := wire.NewDecoder(wire.Anthropic, true)
			d.Feed([]byte("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\"," +
				"\"id\":\"\",\"name\":\"\",\"input\":{}}}\n\n"))
			for range 40 {
				d.Feed([]byte(event))
			}
			d.Feed([]byte(anthropicStop))
			turn := d.Turn()
			if n := len(turn.Text) + len(turn.Thinking) + len(turn.Calls[0].Arguments); n > wire.MaxAnswer ||
				n < wire.MaxAnswer-mebibyte {
				t.Errorf("%s: gathered %d bytes", name, n)
			}
			if turn.Done {
				t.Errorf("%s: done", name)
			}
		}
	})
	t.Run("calls", func(t *testing.T) {
		d := wire.NewDecoder(wire.OpenAIChat, true)
		for i := range wire.MaxCalls + 1 {
			if !d.Streams() && i > 0 {
				t.Fatalf("stopped at %d", i)
			}
			d.Feed(fmt.Appendf(nil,
				"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":%d,\"id\":\"c%d\",\"function\":{\"name\":\"f\","+
					"\"arguments\":\"{}\"}}]}}]}\n\n", i, i))
		}
		d.Feed([]byte(chatDone))
		if turn := d.Turn(); turn.Done || len(turn.Calls) != wire.MaxCalls {
			t.Errorf("done %v, %d calls", turn.Done, len(turn.Calls))
		}
	})
	t.Run("event", func(t *testing.T) {
		d := wire.NewDecoder(wire.Anthropic, true)
		d.Feed(fmt.Appendf(nil, anthropicText, "hello"))
		d.Feed([]byte("data: {\"type\":\"x\",\"y\":\""))
		for range 33 {
			d.Feed([]byte(large))
		}
		d.Feed([]byte("\"}\n\n" + anthropicStop))
		if turn := d.Turn(); turn.Done || turn.Text != "hello" {
			t.Errorf("done %v, text %.20q", turn.Done, turn.Text)
		}
	})
	t.Run("document", func(t *testing.T) {
		d := wire.NewDecoder(wire.OpenAIChat, false)
		d.Feed([]byte("{\"choices\":[{\"message\":{\"content\":\""))
		for range 33 {
			d.Feed([]byte(large))
		}
		d.Feed([]byte("\"}}]}"))
		if d.Done() || d.HeldDocument() != 0 {
			t.Errorf("done %v, holds %d bytes", d.Done(), d.HeldDocument())
		}
	})
	t.Run("counts", func(t *testing.T) {
		d := wire.NewDecoder(wire.Anthropic, false)
		huge := "{\"input_tokens\":9e18,\"cache_read_input_tokens\":9e18," +
			"\"cache_creation\":{\"ephemeral_1h_input_tokens\":9e18,\"ephemeral_5m_input_tokens\":-1},\"output_tokens\":9e18}"
		d.Feed([]byte("{\"usage\":{\"iterations\":[" + strings.Repeat(huge+",", 1000) + huge + "]}}"))
		u := d.Turn().Usage
		if !d.Done() || min(u.Uncached, u.Write5m, u.Write1h, u.Read, u.Output) < 0 || u.Prompt() <= 0 {
			t.Errorf("usage %+v", u)
		}
	})
}

func FuzzDecoderSplit(f *testing.F) {
	formats := wire.Formats()
	for i, a := range answers.All(f) {
		f.Add(a.Data, uint8(slices.Index(formats, a.Format)), i%2 == 0, 1+i)
	}
	f.Fuzz(func(t *testing.T, answer []byte, f uint8, stream bool, piece int) {
		format := formats[int(f)%len(formats)]
		want := decoded(format, stream, answer, max(len(answer), 1))
		for _, piece := range []int{1, max(piece, 1)} {
			if got := decoded(format, stream, answer, piece); !reflect.DeepEqual(got, want) {
				t.Errorf("in pieces of %d:\n got %+v\nwant %+v", piece, got, want)
			}
		}
		if got := decodeApart(format, stream, answer); !reflect.DeepEqual(got, want) {
			t.Errorf("event by event:\n got %+v\nwant %+v", got, want)
		}
		if u := want.Usage; min(u.Uncached, u.Write5m, u.Write1h, u.Read, u.Output) < 0 {
			t.Errorf("negative usage %+v", u)
		} else if format == wire.Gemini && u.Write5m+u.Write1h != 0 {
			t.Errorf("usage %+v", u)
		}
	})
}

// decodeApart decodes an answer without event patterns.
func decodeApart(f wire.Format, stream bool, answer []byte) *wire.Turn {
	d := wire.NewDecoder(f, stream)
	for line := range bytes.Lines(answer) {
		d.Forget()
		d.Feed(line)
	}
	return d.Turn()
}

// TestDecoderRefrains reads events that differ from the previous one only in a text, or seem to.
func TestDecoderRefrains(t *testing.T) {
	anthropic := func(s string) string {
		return `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + s + `"}}`
	}
	chat := func(s string) string {
		return `{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"` + s +
			`"},"finish_reason":null}],"usage":{"prompt_tokens":7,"completion_tokens":1}}`
	}
	call := func(s string) string {
		return `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"` +
			s + `"}}]}}]}`
	}
	both := func(s string) string {
		return `{"choices":[{"index":0,"delta":{"reasoning":"` + s + `","reasoning_content":"one"}}]}`
	}
	gemini := func(s string) string {
		return `{"candidates":[{"content":{"parts":[{"text":"` + s + `"}]}}],"usageMetadata":{"promptTokenCount":3}}`
	}
	n := 7
	numbered := func(s string) string {
		n++
		return fmt.Sprintf(`{"type":"response.output_text.delta","sequence_number":%d,"item_id":"m","delta":"%s",`+
			`"obfuscation":"%s"}`, n, s, strings.Repeat("x", n%4))
	}
	padded := func(s string) string {
		n++
		return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":"%s"}}],"obfuscation":"%s"}`, s,
			strings.Repeat("x", n%4))
	}
	misnumbered := func(s string) string {
		return `{"type":"response.output_text.delta","sequence_number":` + s + `,"item_id":"m","delta":"word"}`
	}
	for _, c := range []struct {
		name   string
		format wire.Format
		event  func(string) string
		texts  []string
		alike  int // events read by pattern
	}{
		{"anthropic", wire.Anthropic, anthropic, []string{
			"one", "two", "", `line\n\"quoted\"`, `\u00e9\ud83d\ude00`, "five",
			"one",
		}, 6},
		{"escapes first", wire.Anthropic, anthropic, []string{`a\n`, "two", "three"}, 2},
		{"empty first", wire.Anthropic, anthropic, []string{"", "two", "three"}, 1},
		{
			"a member more", wire.Anthropic, anthropic,
			[]string{"one", "two", `x","text":"y`, `x"},"delta":{"type":"text_delta","text":"z`, "four", "five"},
			2,
		},
		{"another value", wire.Anthropic, anthropic, []string{"one", `","index":1,"x":"`, "three"}, 0},
		{"chat", wire.OpenAIChat, chat, []string{"one", "two", `\/three\t`, "", "five"}, 4},
		{"calls", wire.OpenAIChat, call, []string{"{", `\"a\":`, "1", "}"}, 2},
		{"two names", wire.OpenAIChat, both, []string{"one", "two", "three"}, 0},
		{"gemini", wire.Gemini, gemini, []string{"one", "two", "three"}, 2},
		{"numbered", wire.OpenAIResponses, numbered, []string{"one", "two", `\"sequence_number\":1`, "four", "five"}, 4},
		{"filled up", wire.OpenAIChat, padded, []string{"one", "two", `\"obfuscation\":\"`, "four", "five"}, 4},
		{"filled up and broken", wire.OpenAIChat, padded, []string{"one", "two", `"obfuscation":"`, "four", "five"}, 1},
		{"no numbers", wire.OpenAIResponses, misnumbered, []string{"1", "2", "03", "4"}, 1},
		{"another kind of number", wire.OpenAIResponses, misnumbered, []string{"1", "2", "-3", "4", "5e0", "6"}, 1},
		{"filled up with escapes", wire.OpenAIChat, func(s string) string {
			return `{"choices":[{"index":0,"delta":{"content":"word"}}],"obfuscation":"` + s + `"}`
		}, []string{"one", "two", `\n`, "four", `\q`, "six"}, 1},
		{"too long to keep", wire.Anthropic, anthropic, []string{
			strings.Repeat("long ", wire.LongestTemplate/5), "two",
			"three",
		}, 1},
		{"broken escape", wire.Anthropic, anthropic, []string{"one", "two", `\q`, "four"}, 1},
		{"open escape", wire.Anthropic, anthropic, []string{"one", "two", `\`, "four"}, 1},
		{"control character", wire.Anthropic, anthropic, []string{"one", "two", "\x01", "four"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stream bytes.Buffer
			d := wire.NewDecoder(c.format, true)
			alike := 0
			for _, s := range c.texts {
				data := c.event(s)
				event := "data: " + data + "\n\n"
				stream.WriteString(event)
				if d.Streams() && d.Alike([]byte(data)) {
					alike++
				}
				d.Feed([]byte(event))
			}
			if want := decodeApart(c.format, true, stream.Bytes()); !reflect.DeepEqual(d.Turn(), want) {
				t.Errorf("got  %+v\nwant %+v", d.Turn(), want)
			}
			if alike != c.alike {
				t.Errorf("%d events are read by the one before, want %d", alike, c.alike)
			}
		})
	}
}

func BenchmarkDecoderEvent(b *testing.B) {
	for _, c := range []struct {
		name   string
		format wire.Format
		event  string
	}{
		{"anthropic", wire.Anthropic, fmt.Sprintf(anthropicText, " word")},
		{"anthropic_escaped", wire.Anthropic, fmt.Sprintf(anthropicText, "\n\tx")},
		{"openai_chat", wire.OpenAIChat, fmt.Sprintf(chatText, " word")},
		{"openai_responses", wire.OpenAIResponses, fmt.Sprintf(responsesText, " word")},
		{"unlike", wire.OpenAIChat, fmt.Sprintf(chatText, " word") + strings.Replace(fmt.Sprintf(chatText, "s"), `"id":`,
			`"ID":`, 1)},
	} {
		b.Run(c.name, func(b *testing.B) {
			event := []byte(c.event)
			d := wire.NewDecoder(c.format, true)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%4096 == 0 {
					d = wire.NewDecoder(c.format, true)
				}
				d.Feed(event)
			}
			if !d.Streams() {
				b.Fatal("stopped")
			}
		})
	}
}

func BenchmarkDecoderDocument(b *testing.B) {
	answer := []byte("{\"id\":\"a\",\"choices\":[{\"message\":{\"content\":\"" +
		strings.Repeat("some words, \\\"quoted\\\"\\n", 1<<20/23) + "\"}}]}")
	for _, piece := range []int{len(answer), 32 << 10, 100, 1} {
		b.Run(fmt.Sprintf("pieces=%d", piece), func(b *testing.B) {
			b.SetBytes(int64(len(answer)))
			b.ReportAllocs()
			for b.Loop() {
				d := wire.NewDecoder(wire.OpenAIChat, false)
				for p := range slices.Chunk(answer, piece) {
					d.Feed(p)
				}
				if !d.Done() {
					b.Fatal("not done")
				}
			}
		})
	}
}

func BenchmarkDecoderStream(b *testing.B) {
	stream := bytes.Repeat(fmt.Appendf(nil, anthropicText, " word"), 1<<13)
	for _, piece := range []int{32 << 10, 100, 1} {
		b.Run(fmt.Sprintf("pieces=%d", piece), func(b *testing.B) {
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				d := wire.NewDecoder(wire.Anthropic, true)
				for p := range slices.Chunk(stream, piece) {
					d.Feed(p)
				}
				if len(d.Turn().Text) != 5<<13 {
					b.Fatal("text lost")
				}
			}
		})
	}
}

// TestCallsAtOneIndex: a call's arguments end with their object, also in events read by pattern.
// The next name at the index begins a new call.
func TestCallsAtOneIndex(t *testing.T) {
	event := func(function string) string {
		return `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{` + function + "}}]}}]}\n\n"
	}
	d := wire.NewDecoder(wire.OpenAIChat, true)
	for _, function := range []string{
		`"name":"f","arguments":"{"`, `"arguments":"\"a\":"`, `"arguments":"1"`,
		`"arguments":"}"`, `"name":"g","arguments":"{}"`,
	} {
		d.Feed([]byte(event(function)))
	}
	want := []wire.Call{{Name: "f", Arguments: `{"a":1}`}, {Name: "g", Arguments: "{}"}}
	if got := d.Turn().Calls; !reflect.DeepEqual(got, want) {
		t.Errorf("calls are %+v, want %+v", got, want)
	}
}

// TestFreeText: calls with free text are read in chat completions, too.
func TestFreeText(t *testing.T) {
	want := []wire.Call{{ID: "a", Name: "patch", Arguments: "one\ntwo", Free: true}}
	call := func(members string) string { return `{"index":0,` + members + `}` }
	for stream, data := range map[bool]string{
		false: `{"choices":[{"index":0,"message":{"tool_calls":[` +
			call(`"id":"a","type":"custom","custom":{"name":"patch","input":"one\ntwo"}`) + `]},"finish_reason":"tool_calls"}]}`,
		true: `data: {"choices":[{"index":0,"delta":{"tool_calls":[` +
			call(`"id":"a","type":"custom","custom":{"name":"patch","input":""}`) + "]}}]}\n\n" +
			`data: {"choices":[{"index":0,"delta":{"tool_calls":[` + call(`"custom":{"input":"one\n"}`) + "]}}]}\n\n" +
			`data: {"choices":[{"index":0,"delta":{"tool_calls":[` + call(`"custom":{"input":"two"}`) +
			"]}}]}\n\ndata: [DONE]\n\n",
	} {
		d := wire.NewDecoder(wire.OpenAIChat, stream)
		d.Feed([]byte(data))
		if got := d.Turn(); !got.Done || !reflect.DeepEqual(got.Calls, want) {
			t.Errorf("stream %t: %+v", stream, got)
		}
	}
}
