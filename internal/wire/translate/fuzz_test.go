// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// For any client body, Convert gives valid JSON that the upstream's reader accepts, or an error
// that names the reason, and the same result every time.
func FuzzConvert(f *testing.F) {
	for _, feature := range features {
		for client, body := range feature.bodies(f) {
			for i, known := range translate.Formats() {
				if known == client {
					f.Add(byte(i), []byte(body))
				}
			}
		}
	}
	for _, seed := range clientBodies(f) {
		f.Add(seed.format, []byte(seed.body))
	}
	f.Fuzz(func(t *testing.T, format byte, body []byte) {
		convertAll(t, translate.Formats()[int(format)%len(translate.Formats())], body)
	})
}

// Each value of the clients' requests is replaced by values of other types.
func TestConvertMangled(t *testing.T) {
	wrong := []string{
		"null", "true", "0", "-1.5e3", `""`, `"x\ud800\u0000\""`, "[]", "{}", `[null,"a",{}]`,
		`{"type":"text","role":"user"}`,
	}
	for _, seed := range clientBodies(t) {
		for i, at := range values(seed.body) {
			if testing.Short() && i%8 > 0 {
				continue
			}
			for _, w := range wrong {
				convertAll(t, translate.Formats()[seed.format], []byte(seed.body[:at[0]]+w+seed.body[at[1]:]))
			}
		}
	}
}

// values returns the positions of the values of some JSON.
func values(body string) (spans [][2]int) {
	var walk func(v rawjson.Value, at int)
	walk = func(v rawjson.Value, at int) {
		spans = append(spans, [2]int{at, at + len(v)})
		offset := func(inner rawjson.Value) int { return at + cap(v) - cap(inner) }
		for _, m := range v.Members() {
			walk(m, offset(m))
		}
		for _, e := range v.Elements() {
			walk(e, offset(e))
		}
	}
	walk(rawjson.Value(body), 0)
	return spans
}

// convertAll converts a body to all formats and checks the output.
func convertAll(t *testing.T, from wire.Format, body []byte) {
	t.Helper()
	path, query := pathOf(from)
	in := translate.Incoming{Body: body, Path: path, Query: query}
	for _, to := range translate.Formats() {
		if to == from {
			continue
		}
		for _, o := range []translate.Options{
			{},
			{Official: true},
			{CacheControl: true},
			{Breakpoints: true, SystemMessages: translate.InPlace},
		} {
			o.Model = func(string) string { return officialModels[to] }
			out, err := translate.Convert(from, to, in, o)
			var refused *translate.Unsupported
			if err != nil {
				if !errors.As(err, &refused) && !errors.Is(err, translate.ErrBody) {
					t.Fatalf("an error of neither kind: %v", err)
				}
				continue
			}
			if !json.Valid(out.Body.Bytes()) {
				t.Fatalf("%s to %s: not JSON: %q\n%q", from, to, out.Body.Bytes(), body)
			}
			if _, err := translate.Read(to, translate.Incoming{Body: out.Body.Bytes(), Path: out.Path, Query: out.Query}); err != nil &&
				!errors.As(err, &refused) {
				t.Fatalf("%s to %s: %v: %q\n%q", from, to, err, out.Body.Bytes(), body)
			}
			again, err := translate.Convert(from, to, in, o)
			if err != nil || string(again.Body.Bytes()) != string(out.Body.Bytes()) {
				t.Fatalf("%s to %s: another body the second time", from, to)
			}
		}
	}
}

var officialModels = map[wire.Format]string{
	wire.Anthropic: "claude-opus-4-8", wire.OpenAIChat: "gpt-5.2",
	wire.OpenAIResponses: "gpt-5.2", wire.Gemini: "gemini-3.1-pro", wire.Interactions: "gemini-3.1-pro",
}
