// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// convert translates a feature's body, with a model for the upstream.
func convert(t *testing.T, from, to wire.Format, body, model string, o translate.Options) *translate.Outgoing {
	t.Helper()
	path, query := pathOf(from)
	if model != "" {
		o.Model = func(string) string { return model }
	}
	out, err := translate.Convert(from, to, translate.Incoming{Body: []byte(body), Path: path, Query: query}, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const question = `{"role":"user","content":"Hi"}`

// A body that is not a request is an error of the client, whatever is wrong with it.
func TestBodies(t *testing.T) {
	for _, body := range []string{``, `[]`, `{`, `{"a":}`, `{} {}`, strings.Repeat(`{"a":[`, 400), `{"model":"m"}`} {
		if _, err := translate.Convert(wire.Anthropic, wire.OpenAIChat, translate.Incoming{Body: []byte(body)},
			translate.Options{}); !errors.Is(err, translate.ErrBody) {
			t.Errorf("%.20q: got %v", body, err)
		}
	}
}

func TestOutgoing(t *testing.T) {
	out, err := translate.Convert(wire.OpenAIChat, wire.Gemini,
		translate.Incoming{
			Body: []byte(`{"model":"big","stream":true,"messages":[` + question + `]}`),
			Path: "/team/v1/chat/completions", Query: "x=1",
		},
		translate.Options{Model: func(string) string { return "gemini-3.1-pro" }})
	if err != nil {
		t.Fatal(err)
	}
	if out.Path != "/team/v1beta/models/gemini-3.1-pro:streamGenerateContent" || out.Query != "alt=sse" ||
		out.Model != "big" || !out.Stream || out.IncludeUsage {
		t.Errorf("got %+v", out)
	}
	out, err = translate.Convert(wire.Gemini, wire.OpenAIResponses, translate.Incoming{
		Body: []byte(plainGemini),
		Path: "/v1beta/models/m:generateContent", Query: "key=k",
	}, translate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if out.Path != "/v1/responses" || out.Query != "" || out.Model != "m" || out.Stream || !out.IncludeUsage ||
		!slices.Equal(out.Stop, []string{"a\nb"}) {
		t.Errorf("got %+v", out)
	}
	for _, path := range []string{"/v1beta/models/m:countTokens", "/v1beta/models/:generateContent", "/"} {
		if _, err := translate.Convert(wire.Gemini, wire.OpenAIChat, translate.Incoming{
			Body: []byte(plainGemini),
			Path: path,
		}, translate.Options{}); !errors.Is(err, translate.ErrBody) {
			t.Errorf("%s: got %v", path, err)
		}
	}
	out, err = translate.Convert(wire.Gemini, wire.Anthropic, translate.Incoming{
		Body: []byte(plainGemini),
		Path: "/x/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent",
	}, translate.Options{})
	if err != nil || out.Path != "/x/v1/messages" || !out.Stream {
		t.Errorf("got %+v, %v", out, err)
	}
	var refused *translate.Unsupported
	if _, err := translate.Convert(wire.OpenAIChat, wire.Gemini,
		translate.Incoming{Body: []byte(`{"model":"../../admin","messages":[` + question + `]}`)},
		translate.Options{}); !errors.As(err, &refused) {
		t.Errorf("a model that climbs out of its path: got %v", err)
	}
}

const plainGemini = `{"contents":[{"parts":[{"text":"Hi"}]}],"generationConfig":{"stop_sequences":["a\nb"]}}`

func TestNames(t *testing.T) {
	long := strings.Repeat("very_long_", 9)
	out := convert(t, wire.OpenAIResponses, wire.OpenAIChat, `{"model":"m","tools":[{"type":"function","name":"`+long+
		`1"},{"type":"function","name":"`+long+
		`2"},{"type":"function","name":"a b"},{"type":"function","name":"crm__f"},{"type":"namespace","name":"crm",`+
		`"tools":[{"type":"function","name":"f"},{"type":"custom","name":"x"}]}],"input":[{"role":"user","content":"Hi"},`+
		`{"type":"function_call","call_id":"1","name":"`+long+
		`2","arguments":"{}"},{"type":"function_call","call_id":"2","namespace":"crm","name":"f","arguments":"{}"}]}`, "",
		translate.Options{})
	q, err := translate.Read(wire.OpenAIChat, translate.Incoming{Body: out.Body.Bytes()})
	if err != nil {
		t.Fatal(err)
	}
	want := []translate.ToolName{
		{Name: long + "1"},
		{Name: long + "2"},
		{Name: "a b"},
		{Name: "crm__f"},
		{Namespace: "crm", Name: "f"},
		{Namespace: "crm", Name: "x", Custom: true},
	}
	seen := map[string]bool{}
	for i, tool := range q.Tools {
		if len(tool.Name) > 64 || strings.Contains(tool.Name, " ") || seen[tool.Name] {
			t.Errorf("not a name for chat: %q", tool.Name)
		}
		seen[tool.Name] = true
		if got := out.Names.Client(tool.Name); got != want[i] {
			t.Errorf("%s: got %+v, want %+v", tool.Name, got, want[i])
		}
	}
	calls := q.Messages[1].Parts[1:] // after an empty text
	if calls[0].Tool.Name != q.Tools[1].Name || calls[1].Tool.Name != q.Tools[4].Name {
		t.Errorf("calls of other tools than those listed: %+v", calls)
	}
	var none *translate.Names
	if none.Client("f").Name != "f" {
		t.Error("no names at all map to themselves")
	}
}

func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to wire.Format
		in       map[string][]string
		query    string
		want     map[string][]string
		dropped  []string
	}{{
		name: "Claude Code to OpenAI", from: wire.Anthropic, to: wire.OpenAIChat,
		in: map[string][]string{
			"X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {"x"},
			"User-Agent": {"u"},
		},
		want: map[string][]string{
			"Authorization": {"Bearer k"}, "User-Agent": {"u"},
			"Content-Type": {"application/json"},
		},
		dropped: []string{"anthropic-beta"},
	}, {
		name: "OpenAI to Anthropic", from: wire.OpenAIResponses, to: wire.Anthropic,
		in: map[string][]string{"Authorization": {"bearer k"}, "Openai-Organization": {"o"}, "Openai-Beta": {"b"}},
		want: map[string][]string{
			"X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"},
			"Content-Type": {"application/json"},
		},
		dropped: []string{"openai-beta", "openai-organization"},
	}, {
		name: "an account's token stays a bearer token", from: wire.OpenAIChat, to: wire.Anthropic,
		in: map[string][]string{"Authorization": {"Bearer sk-ant-oat01-x"}},
		want: map[string][]string{
			"Authorization": {"Bearer sk-ant-oat01-x"}, "Anthropic-Version": {"2023-06-01"},
			"Content-Type": {"application/json"},
		},
	}, {
		name: "Gemini's key in the query", from: wire.Gemini, to: wire.OpenAIChat, query: "key=k&alt=sse",
		in:      map[string][]string{"X-Goog-Api-Client": {"gl-node"}},
		want:    map[string][]string{"Authorization": {"Bearer k"}, "Content-Type": {"application/json"}},
		dropped: []string{"x-goog-api-client"},
	}, {
		name: "to Gemini", from: wire.Anthropic, to: wire.Gemini,
		in:   map[string][]string{"Authorization": {"Bearer k"}},
		want: map[string][]string{"X-Goog-Api-Key": {"k"}, "Content-Type": {"application/json"}},
	}, {
		name: "a junk key beside a chat client's own", from: wire.OpenAIChat, to: wire.Anthropic, query: "key=1",
		in: map[string][]string{"Authorization": {"Bearer k"}, "X-Api-Key": {"junk"}, "X-Goog-Api-Key": {"junk"}},
		want: map[string][]string{
			"X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"},
			"Content-Type": {"application/json"},
		},
	}, {
		name: "junk beside a Messages client's own", from: wire.Anthropic, to: wire.Gemini, query: "key=1",
		in:   map[string][]string{"Authorization": {"Bearer junk"}, "X-Api-Key": {"k"}, "X-Goog-Api-Key": {"junk"}},
		want: map[string][]string{"X-Goog-Api-Key": {"k"}, "Content-Type": {"application/json"}},
	}, {
		name: "junk beside Gemini's key in the query", from: wire.Gemini, to: wire.Anthropic, query: "key=k&%zz",
		in: map[string][]string{"Authorization": {"Bearer sk-ant-oat-junk"}, "X-Api-Key": {"junk"}},
		want: map[string][]string{
			"X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"},
			"Content-Type": {"application/json"},
		},
	}, {
		name: "an empty key of the API's own", from: wire.Anthropic, to: wire.OpenAIChat,
		in:   map[string][]string{"X-Api-Key": {""}, "Authorization": {"Bearer k"}},
		want: map[string][]string{"Authorization": {"Bearer k"}, "Content-Type": {"application/json"}},
	}, {
		name: "a password is no key", from: wire.Anthropic, to: wire.OpenAIChat,
		in:   map[string][]string{"Authorization": {"Basic k"}},
		want: map[string][]string{"Authorization": {"Basic k"}, "Content-Type": {"application/json"}},
	}, {
		name: "one format", from: wire.Gemini, to: wire.Gemini, query: "key=k",
		in: map[string][]string{"X-Goog-Api-Client": {"x"}}, want: map[string][]string{"X-Goog-Api-Client": {"x"}},
	}} {
		t.Run(c.name, func(t *testing.T) {
			dropped := translate.Headers(c.from, c.to, c.in, c.query)
			if !slices.Equal(dropped, c.dropped) {
				t.Errorf("dropped %q, want %q", dropped, c.dropped)
			}
			if len(c.in) != len(c.want) {
				t.Errorf("got %v, want %v", c.in, c.want)
			}
			for name, v := range c.want {
				if !slices.Equal(c.in[name], v) {
					t.Errorf("%s: got %q, want %q", name, c.in[name], v)
				}
			}
		})
	}
}

// For any cuts of a text, the output ends before the first stop sequence.
func TestStops(t *testing.T) {
	for _, c := range []struct{ text, want, hit string }{
		{"ab</block>cd", "ab", "</block>"},
		{"ab</blo cd", "ab</blo cd", ""},
		{"ab<</block>", "ab<", "</block>"},
		{"ENDE</block>", "", "END"},
		{"abEN", "abEN", ""},
		{"", "", ""},
	} {
		for size := 1; size <= len(c.text)+1; size++ {
			s := translate.Stops{Sequences: []string{"</block>", "END", ""}}
			var got strings.Builder
			for piece := range slices.Chunk([]byte(c.text), size) {
				got.WriteString(s.Feed(string(piece)))
			}
			if s.Hit == "" {
				got.WriteString(s.Rest())
			}
			if got.String() != c.want || s.Hit != c.hit {
				t.Errorf("%q in pieces of %d: got %q and %q, want %q and %q", c.text, size, got.String(), s.Hit, c.want, c.hit)
			}
		}
	}
}
