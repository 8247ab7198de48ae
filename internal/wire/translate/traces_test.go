// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

const (
	testSystem = `[{"type":"text","text":"You are careful.\nAlways."},{"type":"text","text":"Second block: \"quoted\" ` +
		`ünïcode <&>"}]`
	testTools = `[{"name":"Read","description":"Reads a file.","input_schema":{"type":"object",` +
		`"properties":{"file_path":{"type":"string"},"limit":{"minimum":1.0,"type":"number"}},"required":["file_path"]}},` +
		`{"name":"Bash","input_schema":{"type":"object","properties":{"command":{"type":"string"}}}}]`
)

// traceBodies calls f with the body of each request of a conversation, until f returns false.
func traceBodies(t testing.TB, file string, f func(call int, body []byte) bool) {
	t.Helper()
	r, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	z, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 64<<20)
	lines.Scan() // the header
	body := []byte(`{"model":"claude-opus-4-6","max_tokens":32000,"stream":true,"thinking":{"type":"enabled",` +
		`"budget_tokens":8192},"system":` + testSystem + `,"tools":` + testTools + `,"messages":[`)
	for call := 0; lines.Scan(); call++ {
		var entry struct {
			Messages []json.RawMessage `json:"messages"`
		}
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			t.Fatal(err)
		}
		for i, m := range entry.Messages {
			if call+i > 0 {
				body = append(body, ',')
			}
			body = append(body, m...)
		}
		if !f(call, append(body[:len(body):len(body)], `]}`...)) {
			return
		}
	}
}

// settings are the upstreams for translating the traces.
var settings = map[string]translate.Options{"local": {}, "official": {Official: true}}

// A longer conversation gives a longer body that begins with the previous one, so that the
// upstream's cached prefix stays valid.
func TestTracePrefix(t *testing.T) {
	files := testkit.RecordingFiles(t)
	for name, o := range settings {
		for _, from := range translate.Formats() {
			for _, to := range translate.Formats() {
				if from == to {
					continue
				}
				t.Run(name+"/"+string(from)+"/"+string(to), func(t *testing.T) {
					o.Model = func(string) string { return officialModels[to] }
					for i, file := range files {
						// The requests of clients of other formats are themselves translated.
						if i%(6*testkit.Every(2)) > 0 || from != wire.Anthropic && i%12 > 0 || testing.Short() &&
							(i > 0 || from != wire.Anthropic) {
							continue
						}
						var before []byte
						traceBodies(t, file, func(call int, body []byte) bool {
							if call > 20 && call%19 > 1 { // some pairs of consecutive requests, not all
								before = nil
								return true
							}
							out := bytesAs(t, from, to, body, o)
							if call%10 == 0 && !json.Valid(out) {
								t.Fatalf("%s call %d: not JSON", filepath.Base(file), call)
							}
							if !bytes.HasPrefix(out, bytes.TrimRight(before, "]}")) {
								t.Fatalf("%s call %d: the request before is not the beginning of this one", filepath.Base(file), call)
							}
							before = out
							return true
						})
					}
				})
			}
		}
	}
}

// bytesAs returns the upstream's body for a recorded request of a client of format from.
func bytesAs(t *testing.T, from, to wire.Format, body []byte, o translate.Options) []byte {
	t.Helper()
	in := translate.Incoming{Body: body, Path: "/v1/messages"}
	if from != wire.Anthropic {
		out, err := translate.Convert(wire.Anthropic, from, in, translate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		in = translate.Incoming{Body: out.Body.Bytes(), Path: out.Path, Query: out.Query}
	}
	out, err := translate.Convert(from, to, in, o)
	if err != nil {
		t.Fatal(err)
	}
	return out.Body.Bytes()
}

// pathOf returns a request path of a format.
func pathOf(f wire.Format) (path, query string) {
	switch f {
	case wire.Anthropic:
		return "/v1/messages", ""
	case wire.OpenAIChat:
		return "/v1/chat/completions", ""
	case wire.OpenAIResponses:
		return "/v1/responses", ""
	case wire.Interactions:
		return "/v1beta/interactions", ""
	}
	return "/v1beta/models/gemini-3.1-pro:streamGenerateContent", "alt=sse"
}

// Through each pair of formats and back, the recorded conversations keep everything that both
// formats support.
func TestTraceRoundTrip(t *testing.T) {
	files := testkit.RecordingFiles(t)
	for _, a := range translate.Formats() {
		for _, b := range translate.Formats() {
			if a == b {
				continue
			}
			t.Run(string(a)+"/"+string(b), func(t *testing.T) {
				for i, file := range files {
					if i%(3*testkit.Every(2)) > 0 {
						continue
					}
					last := []byte(nil)
					traceBodies(t, file, func(call int, body []byte) bool {
						last = body
						return call < 40
					})
					path, query := pathOf(wire.Anthropic)
					in := translate.Incoming{Body: last, Path: path, Query: query}
					if a != wire.Anthropic {
						out, err := translate.Convert(wire.Anthropic, a, in, translate.Options{})
						if err != nil {
							t.Fatal(err)
						}
						in = translate.Incoming{Body: out.Body.Bytes(), Path: out.Path, Query: out.Query}
					}
					there, err := translate.Convert(a, b, in, translate.Options{})
					if err != nil {
						t.Fatalf("%s: there: %v", filepath.Base(file), err)
					}
					back, err := translate.Convert(b, a, translate.Incoming{Body: there.Body.Bytes(), Path: there.Path, Query: there.Query},
						translate.Options{})
					if err != nil {
						t.Fatalf("%s: back: %v", filepath.Base(file), err)
					}
					sameMeaning(t, a, b, in, translate.Incoming{Body: back.Body.Bytes(), Path: back.Path, Query: back.Query})
				}
			})
		}
	}
}

// sameMeaning compares two requests in format a, one of them converted through format b.
func sameMeaning(t *testing.T, a, b wire.Format, x, y translate.Incoming) {
	t.Helper()
	p, err := translate.Read(a, x)
	if err != nil {
		t.Fatal(err)
	}
	q, err := translate.Read(a, y)
	if err != nil {
		t.Fatalf("%v: %.300s", err, y.Body)
	}
	want, got := meaning(p, a, b), meaning(q, a, b)
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(want):
			t.Fatalf("line %d: got %.300s, want nothing", i, got[i])
		case i >= len(got):
			t.Fatalf("line %d: got nothing, want %.300s", i, want[i])
		case want[i] != got[i]:
			t.Fatalf("line %d:\n got %.300s\nwant %.300s", i, got[i], want[i])
		}
	}
}

// meaning returns a request line by line, without the parts that one of two formats does not
// support.
func meaning(q *translate.Request, a, b wire.Format) (lines []string) {
	add := func(words ...string) { lines = append(lines, strings.Join(words, " ")) }
	add("model", q.Model)
	add("system", translate.Joined(q.System).Decoded())
	for p := range translate.ParamCount {
		if translate.RulesOf(a).Params[p] != "" && translate.RulesOf(b).Params[p] != "" {
			add("param", string(q.Params[p]))
		}
	}
	add("effort", q.Reasoning.AsEffort())
	for _, s := range q.Stop {
		if a != wire.OpenAIResponses && b != wire.OpenAIResponses {
			add("stop", s.Decoded())
		}
	}
	for _, tool := range q.Tools {
		add("tool", tool.Name, tool.Description.Decoded(), string(tool.Schema))
	}
	add("choice", q.Choice.Mode)
	for _, m := range q.Messages {
		var texts []translate.Part
		flush := func() {
			if t := translate.Joined(texts); t != nil {
				add("text", string(rune('0'+m.Role)), t.Decoded())
			}
			texts = nil
		}
		var rest, results []string
		for _, p := range m.Parts {
			switch p.Kind {
			case translate.TextPart:
				texts = append(texts, p)
			case translate.ThinkingPart:
				if a != wire.Anthropic && b != wire.Anthropic { // a Claude model only gets its own
					add("thinking", p.Text.Decoded())
				}
			case translate.CallPart:
				rest = append(rest, "call "+p.ID+" "+p.Tool.Name+" "+string(p.Input))
			case translate.ResultPart:
				line := "result " + p.ID + " " + translate.Joined(p.Content).Decoded()
				if a != wire.OpenAIChat && b != wire.OpenAIChat && a != wire.OpenAIResponses && b != wire.OpenAIResponses &&
					p.Failed {
					line += " failed"
				}
				for _, c := range p.Content {
					if c.Kind == translate.MediaPart && a != wire.OpenAIChat && b != wire.OpenAIChat {
						line += " " + c.Media.Type + " " + string(c.Media.Data) + string(c.Media.URL)
					}
				}
				results = append(results, line)
			case translate.MediaPart:
				rest = append(rest, "media "+p.Media.Type+" "+string(p.Media.Data)+string(p.Media.URL))
			}
		}
		slices.Sort(results) // Gemini requires the order of the calls
		lines = append(lines, results...)
		flush()
		lines = append(lines, rest...)
	}
	return lines
}
