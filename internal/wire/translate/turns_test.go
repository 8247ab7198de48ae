// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// convertBoth translates a request with and without the turns of another one, requires equal results, and
// returns the turns for the next request.
func convertBoth(t *testing.T, from, to wire.Format, in translate.Incoming, o translate.Options) *translate.Turns {
	t.Helper()
	in.Remember = true
	got, err := translate.Convert(from, to, in, o)
	in.Turns, in.Remember = nil, false
	want, wantErr := translate.Convert(from, to, in, o)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("got error %v, want %v, of %s", err, wantErr, in.Body)
	}
	if err != nil {
		return nil
	}
	turns := got.Turns
	got.Turns = nil
	gotBody, wantBody := got.Body.Bytes(), want.Body.Bytes()
	if string(gotBody) != string(wantBody) {
		i := 0
		for i < min(len(gotBody), len(wantBody)) && gotBody[i] == wantBody[i] {
			i++
		}
		t.Fatalf("%s to %s: got another body from byte %d on: %.600q, want %.600q, of %s", from, to, i, gotBody[i:],
			wantBody[i:], in.Body)
	}
	got.Body, want.Body = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s to %s: got %+v, names %+v, want %+v, names %+v, of %s", from, to, got, got.Names, want, want.Names,
			in.Body)
	}
	return turns
}

// pieces are messages of an Anthropic client, with an id for each %d. Some are broken or rare.
var pieces = []string{
	`{"role":"user","content":"go on"}`,
	`{"role":"user","content":" "}`,
	`{"role":"user","content":[]}`,
	`{"role":"user","content":[{"type":"text","text":"marked","cache_control":{"type":"ephemeral","ttl":"1h"}}]}`,
	`{"role":"user","content":[{"type":"text","text":"<system-reminder>\nx</system-reminder>"},{"type":"text","text":"b"}]}`,
	`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}`,
	`{"role":"user","content":[{"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}}],"x":1}`,
	`{"role":"user","content":[{"type":"document","title":"t","source":{"type":"base64","media_type":"audio/x","data":"AAAA"}}]}`,
	`{"role":"assistant","content":"Well."}`,
	`{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"}]}`,
	`{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"So."}]}`,
	`{"role":"assistant","content":[{"type":"tool_use","id":"t%d","name":"f","input":{"a":"\u00e4\n"}}]}`,
	`{"role":"assistant","content":[{"type":"tool_use","id":"t%d","name":"a name, too odd","input":{}},` +
		`{"type":"tool_use","id":"t%[1]d b","name":"g","input":{}}]}`,
	`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":"done\n"}]}`,
	`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","is_error":true,"content":[{"type":"text","text":"a"},` +
		`{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]},{"type":"text","text":"now"}]}`,
	`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d"},{"type":"tool_result","tool_use_id":"t%[1]d b"}]}`,
	`{"role":"system","content":"Mind the gap."}`,
	`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":[{"type":"tool_reference","tool_name":"late"}]}]}`,
	`{"role":"user","content":"x","output_config":{"effort":"low"}}`,
	`{"role":"assistant","content":[{"type":"unheard_of"},{"type":"text","text":""},{"type":"text","text":"a"}]}`,
}

// talk is a random conversation that grows.
type talk struct {
	*rand.Rand
	list  []string
	calls int
	extra string // an odd tool, empty for none
}

// oddTools are dropped in part, run by the provider, or written with a marker.
var oddTools = []string{
	"",
	`{"name":"strict","description":"x","strict":true,"input_schema":{"anyOf":[{"type":"object"}]},"odd":1},`,
	`{"name":"marked","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral","ttl":"1h"}},`,
	`{"type":"web_search_20250305","name":"web_search"},`,
	`{"name":"a name, too odd","input_schema":{}},`,
}

// grow adds a turn, which is mostly a regular one.
func (k *talk) grow() {
	if k.IntN(15) == 0 {
		p := pieces[k.IntN(len(pieces))]
		if strings.Contains(p, "%") {
			p = fmt.Sprintf(p, k.IntN(k.calls+2))
		}
		k.list = append(k.list, p)
		return
	}
	k.calls++
	k.list = append(k.list, fmt.Sprintf(pieces[11+k.IntN(2)], k.calls))
	result := fmt.Sprintf(pieces[13+2*k.IntN(2)], k.calls)
	if k.IntN(10) == 0 { // a marker, which the next request will not have
		result = fmt.Sprintf(pieces[14], k.calls)
	}
	k.list = append(k.list, result)
}

// head are the other members: large enough that turns are remembered, and with tools.
func (k *talk) head() string {
	tools := k.extra + `{"name":"f","description":"` + strings.Repeat("x", 9<<10) + `","input_schema":{"type":"object"}},` +
		`{"name":"late","defer_loading":true,"input_schema":{"type":"object"}}`
	if k.IntN(30) == 0 {
		tools += `,{"name":"g","input_schema":{"type":"object"}}`
	}
	thinking := `"thinking":{"type":"adaptive"},`
	if k.IntN(30) == 0 {
		thinking = `"thinking":{"type":"enabled","budget_tokens":2000},`
	}
	other := ""
	if k.IntN(30) == 0 {
		other = `"tools":[{"name":"other","input_schema":{"type":"object"}}],`
	}
	return fmt.Sprintf(`"system":"You are %d.","max_tokens":9000,%s%s"stream":true,"tools":[%s]`, k.IntN(3)*7, thinking, other,
		tools)
}

func (k *talk) body() []byte {
	list := slices.Clone(k.list)
	switch k.IntN(40) {
	case 0:
		i := k.IntN(len(list))
		list = slices.Delete(list, i, i+1)
	case 1:
		i, j := k.IntN(len(list)), k.IntN(len(list))
		list[i], list[j] = list[j], list[i]
	case 2:
		list = list[:1+k.IntN(len(list))]
	}
	head, messages := k.head(), `"messages":[`+strings.Join(list, ",")+`]`
	if k.IntN(2) == 0 {
		head, messages = messages, head
	}
	return []byte(`{"model":"claude-opus-4-6",` + head + `,` + messages + `}`)
}

// A request is translated to the same bytes whatever turns are remembered: of the request before, of an older one, of
// another conversation, another upstream or other options.
func TestTurns(t *testing.T) {
	options := []translate.Options{
		{},
		{Official: true},
		{CacheControl: true, Marks: true},
		{Breakpoints: true, SystemMessages: translate.InPlace, CacheKey: "k"},
	}
	models := map[wire.Format][]string{
		wire.Anthropic: {"claude-opus-4-8", "claude-sonnet-4-5"}, wire.OpenAIChat: {"gpt-5.2", "gemini-3.1-pro"},
		wire.OpenAIResponses: {"gpt-5.2"}, wire.Gemini: {"gemini-3.1-pro", "gemini-2.5-pro"}, wire.Interactions: {"gemini-3.1-pro"},
	}
	used, knownTools, all := 0, 0, 0
	for seed := range uint64(200 / testkit.Every(25)) {
		k := &talk{Rand: rand.New(rand.NewPCG(seed, 1)), list: []string{pieces[0]}}
		k.extra = oddTools[k.IntN(len(oddTools))]
		var turns []*translate.Turns // of all formats and options
		last := map[string]*translate.Turns{}
		for range 12 {
			k.grow()
			body := k.body()
			for _, from := range translate.Formats() {
				in := translate.Incoming{Body: body, Path: "/v1/messages"}
				if from != wire.Anthropic {
					out, err := translate.Convert(wire.Anthropic, from, in, translate.Options{})
					if err != nil {
						continue
					}
					in = translate.Incoming{Body: out.Body.Bytes(), Path: out.Path, Query: out.Query}
				}
				for _, to := range translate.Formats() {
					if to == from {
						continue
					}
					i, j := k.IntN(len(options)), k.IntN(len(models[to]))
					o := options[i]
					o.Model = func(string) string { return models[to][j] }
					key := fmt.Sprint(from, to, i, j)
					in.Turns = last[key]
					if k.IntN(10) == 0 && len(turns) > 0 {
						in.Turns = turns[k.IntN(len(turns))]
					}
					if in.Turns != nil {
						all++
						if translate.UsesTurns(from, to, in, o) {
							used++
						}
					}
					if last[key] = convertBoth(t, from, to, in, o); last[key] != nil {
						turns = append(turns, last[key])
						if last[key].SameTools(in.Turns) {
							knownTools++
						}
					}
				}
			}
		}
	}
	if used < all/10 || knownTools < all/20 {
		t.Errorf("got turns used for %d and tools for %d of %d requests, want a tenth and a twentieth", used, knownTools, all)
	}
	t.Logf("turns used for %d and tools for %d of %d requests", used, knownTools, all)
}

// The tools of a conversation are read and written once, and the requests stay the same.
func TestKnownTools(t *testing.T) {
	for _, extra := range oddTools {
		for _, to := range translate.Formats()[1:] {
			for _, o := range []translate.Options{{}, {CacheControl: true, Marks: true}, {Official: true}} {
				k := &talk{Rand: rand.New(rand.NewPCG(1, 1)), list: []string{pieces[0]}}
				var turns *translate.Turns
				for i := range 5 {
					k.calls++
					k.list = append(k.list, fmt.Sprintf(pieces[11], k.calls), fmt.Sprintf(pieces[13], k.calls))
					body := fmt.Sprintf(`{"model":"m","messages":[%s],"tools":[%s{"name":"f","description":"%s"}]}`,
						strings.Join(k.list, ","), extra, strings.Repeat("x", 9<<10))
					in := translate.Incoming{Body: []byte(body), Path: "/v1/messages", Turns: turns}
					turns = convertBoth(t, wire.Anthropic, to, in, o)
					if i > 1 && !turns.SameTools(in.Turns) {
						t.Errorf("to %s with %q: got the tools read again, want the known ones", to, extra)
					}
				}
			}
		}
	}
}

// The requests of recorded conversations are translated to the same bytes with the turns before, and nearly all of
// them use these.
func TestTraceTurns(t *testing.T) {
	files := testkit.RecordingFiles(t)
	for _, from := range translate.Formats() {
		for _, to := range translate.Formats() {
			if from == to {
				continue
			}
			used, all := 0, 0
			for i, file := range files {
				if i%(24*testkit.Every(2)) > 0 {
					continue
				}
				o := translate.Options{Official: i%2 == 0, Model: func(string) string { return officialModels[to] }}
				var turns *translate.Turns
				traceBodies(t, file, func(call int, body []byte) bool {
					in := translate.Incoming{Body: body, Path: "/v1/messages"}
					if from != wire.Anthropic {
						out, err := translate.Convert(wire.Anthropic, from, in, translate.Options{})
						if err != nil {
							t.Fatal(err)
						}
						in = translate.Incoming{Body: out.Body.Bytes(), Path: out.Path, Query: out.Query}
					}
					if in.Turns = turns; turns != nil {
						all++
						if translate.UsesTurns(from, to, in, o) {
							used++
						}
					}
					turns = convertBoth(t, from, to, in, o)
					return call < 40
				})
			}
			if used*100 < all*90 {
				t.Errorf("%s to %s: got turns used for %d of %d requests, want 90 %%", from, to, used, all)
			}
			t.Logf("%s to %s: turns used for %d of %d requests", from, to, used, all)
		}
	}
}
