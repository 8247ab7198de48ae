// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// TestRecallRuns: a parse that recalls whole runs gives the same view as a full parse, also after a
// change in a run.
func TestRecallRuns(t *testing.T) {
	for format, answers := range map[wire.Format]string{
		wire.Anthropic: "assistant", wire.OpenAIChat: "assistant", wire.OpenAIResponses: "assistant",
		wire.Gemini: "model",
	} {
		content, list := `"content":"%s %d."`, "messages"
		if format == wire.Gemini {
			content, list = `"parts":[{"text":"%s %d."}]`, "contents"
		}
		if format == wire.OpenAIResponses {
			list = "input"
		}
		body := func(messages int, between string) string {
			all := make([]string, messages)
			for i := range all {
				all[i] = fmt.Sprintf(`{"role":"%s",`+content+`}`, [...]string{"user", answers}[i%2], format, i)
			}
			return `{"model":"m","` + list + `":[` + strings.Join(all, between+",") + `]}`
		}
		long := body(101, "")
		changed := func(message int, to string) string {
			return strings.Replace(long, fmt.Sprintf(" %d.", message), to, 1)
		}
		for _, next := range []struct {
			name, body string
			recalled   int // minimum number of messages
			shared     int // and of those before the first change
		}{
			{"the same", long, 100, 100},
			{"grown", body(131, ""), 100, 100},
			{"much grown", body(301, ""), 100, 100},
			{"shorter", body(51, ""), 50, 50},
			{"moved", strings.Replace(body(103, ""), `{"model"`, `{"x":[1,2],"model"`, 1), 100, 100},
			{"one is longer", changed(40, " 40 and more."), 99, 40},
			{"one has another letter", changed(40, " 41."), 99, 40},
			{"the first of a run is longer", changed(64, " 64 and more."), 99, 64},
			{"spaces between them", body(101, " "), 100, 100},
		} {
			known := mustParse(t, format, long).Known()
			for range 2 { // a recalled run is recalled again
				v, err := wire.Parse(format, []byte(next.body), func(wire.Hash) *wire.Known { return known })
				if err != nil {
					t.Fatal(err)
				}
				sameViews(t, v, mustParse(t, format, next.body))
				checkShared(t, v, known, next.shared)
				if v.Recalled < next.recalled {
					t.Errorf("%s, %s: %d of %d messages recognised, want %d", format, next.name, v.Recalled, len(v.Messages),
						next.recalled)
				}
				known = v.Known()
			}
		}
	}
}

// Sealed reasoning is found in known messages and in new ones.
func TestSealedKnown(t *testing.T) {
	body := func(messages int, sealed ...int) string {
		var b strings.Builder
		b.WriteString(`{"model":"m","messages":[{"role":"user","content":"Begin."}`)
		for i := range messages {
			text := fmt.Sprint("Message ", i)
			if slices.Contains(sealed, i) {
				text = wire.SealPrefix + "x"
			}
			fmt.Fprintf(&b, `,{"role":"%s","content":"%s"}`, [...]string{"assistant", "user"}[i%2], text)
		}
		return b.String() + `]}`
	}
	var known *wire.Known
	for i, c := range []struct {
		body string
		want bool
	}{
		{body(70), false},
		{body(72), false},
		{body(74, 73), true},
		{body(76, 73), true},
		{body(78), true}, // the client has changed its history: what was known may have had some
		{body(80, 3), true},
		{body(82, 3, 81), true},
	} {
		v, err := wire.Parse(wire.Anthropic, []byte(c.body), func(wire.Hash) *wire.Known { return known })
		if err != nil {
			t.Fatal(err)
		}
		if v.Sealed() != c.want {
			t.Errorf("request %d: sealed %t, want %t", i, v.Sealed(), c.want)
		}
		known = v.Known()
	}
}

// TestCrowdedByWhatIsNew: a conversation that grows beyond the limit on values is refused, although
// some messages were counted with an earlier request.
func TestCrowdedByWhatIsNew(t *testing.T) {
	const each = 10_000 // values in a message, with a few more bytes
	body := func(messages int) string {
		var b strings.Builder
		b.WriteString(`{"model":"m","messages":[{"role":"user","content":"Begin."}`)
		for i := range messages {
			fmt.Fprintf(&b, `,{"role":"%s","content":"%d%s"}`, [...]string{"assistant", "user"}[i%2], i,
				strings.Repeat(",", each)+strings.Repeat("x", each/3))
		}
		return b.String() + `]}`
	}
	maxMessages := rawjson.MaxValues / (each + 10)
	var known *wire.Known
	parse := func(messages int) error {
		v, err := wire.Parse(wire.Anthropic, []byte(body(messages)), func(wire.Hash) *wire.Known { return known })
		if err == nil {
			known = v.Known()
		}
		return err
	}
	for n := 60; n <= maxMessages; n += 4 {
		if err := parse(n); err != nil {
			t.Fatalf("%d messages of %d values: %v", n, each, err)
		}
	}
	for range 2 { // exactly three runs
		if err := parse(95); err != nil {
			t.Errorf("96 messages that are all known: %v", err)
		}
	}
	if err := parse(maxMessages); err != nil {
		t.Errorf("more again: %v", err)
	}
	for range 2 {
		if err := parse(maxMessages + 2); !errors.Is(err, wire.ErrCrowded) {
			t.Errorf("%d messages of %d values: %v", maxMessages+2, each, err)
		}
	}
	if err := parse(maxMessages - 1); err != nil {
		t.Errorf("fewer again: %v", err)
	}
}

// TestCrowdedHoweverItStands: too many values are refused in every form of messages and at every
// place in the body.
func TestCrowdedHoweverItStands(t *testing.T) {
	many := strings.Repeat(",", rawjson.MaxValues+1)
	for format, bodies := range map[wire.Format][]string{
		wire.Anthropic: {
			`{"model":"m","messages":[{"role":"user","content":"%s"}]}`,
			`{"model":"m","messages":[{"role":"user","content":"x"}],"system":"%s"}`,
		},
		wire.OpenAIChat:      {`{"model":"m","messages":[{"role":"user","content":"%s"}]}`},
		wire.OpenAIResponses: {`{"model":"m","input":"%s"}`, `{"model":"m","input":[{"role":"user","content":"%s"}]}`},
		wire.Gemini:          {`{"contents":[{"role":"user","parts":[{"text":"%s"}]}]}`},
		wire.Interactions: {
			`{"model":"m","input":"%s"}`, `{"model":"m","input":[{"type":"text","text":"%s"}]}`,
			`{"model":"m","input":{"type":"text","text":"%s"}}`,
		},
	} {
		for _, body := range bodies {
			if _, err := wire.Parse(format, []byte(strings.Replace(body, "%s", "x", 1)), nil); err != nil {
				t.Errorf("%s: %s: %v", format, body, err)
			}
			if _, err := wire.Parse(format, []byte(strings.Replace(body, "%s", many, 1)), nil); !errors.Is(err,
				wire.ErrCrowded) {
				t.Errorf("%s: %s, with too many values: %v", format, body, err)
			}
		}
	}
}
