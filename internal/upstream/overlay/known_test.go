// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// TestKnownMessages: a request gets the same overlay whether its earlier messages are recognized or not, and
// whether it comes with a view or not. The memory of a view is not the store's: another request of the session may
// have it recycled at any time after the commit.
func TestKnownMessages(t *testing.T) {
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 0))
		known, unknown, viewed := newStore(), newStore(), newStore()
		stores := []*Store{known, unknown, viewed}
		recognized := 0
		var messages []string
		for turn := range 12 {
			messages = grow(dice, messages)
			body := []byte(chat(fmt.Sprint("Today is 2026-11-", 10+turn/4), tools(dice), messages...))
			q := Request{Format: wire.OpenAIChat, Body: body, Rules: LocalServer, At: time.Unix(int64(turn), 0)}
			q.Rules.Forms = dice.IntN(8) > 0
			q.Rules.LateTools = seed%2 == 0
			q.Markers = dice.IntN(8) == 0
			var want *Transaction
			answer := &wire.Turn{Done: true, Text: "I look.", Thinking: "Hm."}
			for i, s := range stores {
				q := q
				var err error
				if i == 2 {
					if q.View, err = wire.Parse(q.Format, body, nil); err != nil {
						t.Fatal(err)
					}
				}
				x, err := s.Begin(Conversation{Session: "s"}, q)
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					want = x
				}
				if string(x.Body) != string(want.Body) {
					t.Fatalf("seed %d, store %d: got\n%s\nwant\n%s", seed, i, x.Body, want.Body)
				}
				if x.Common != want.Common || !reflect.DeepEqual(x.Divergence, want.Divergence) {
					t.Fatalf("seed %d, store %d: got %v, %v, want %v, %v", seed, i, x.Common, x.Divergence, want.Common,
						want.Divergence)
				}
				x.Commit(answer, false)
				if q.View != nil {
					q.View.Known().Recycle()
				}
			}
			for _, l := range known.conversationsOf("s") {
				recognized += len(l.messages)
			}
			forgetMessages(unknown)
		}
		if recognized == 0 {
			t.Fatalf("seed %d: no message is recognized", seed)
		}
	}
}

// A moved marker, which does not reach the upstream, is no divergence.
func TestMovedMarkers(t *testing.T) {
	const marker = `,"cache_control":{"type":"ephemeral"}`
	call := func(id, marker string) string {
		return `,{"role":"assistant","content":[{"type":"tool_use","id":"` + id + `","name":"Read","input":{}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"x"` + marker + `}]}`
	}
	body := func(marker, rest string) []byte {
		return []byte(`{"model":"m","max_tokens":5,"system":[{"type":"text","text":"S"` + marker + `}],"messages":[{"role":"user",` +
			`"content":[{"type":"text","text":"hi"},{"type":"text","text":"there"` + marker + `}]}` + rest + `]}`)
	}
	s := newStore()
	for i, body := range [][]byte{
		body(marker, ""),
		body("", call("a", marker)),
		body(marker, call("a", "")+call("b", marker)),
		body(marker, call("a", "")+call("c", marker)),
	} {
		x, err := s.Begin(Conversation{Session: "s"}, Request{Format: wire.Anthropic, Body: body, Rules: LocalServer})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := x.Divergence != nil, i == 3; got != want {
			t.Errorf("request %d: divergence %+v, want one: %t", i, x.Divergence, want)
		}
		x.Commit(&wire.Turn{Done: true}, false)
	}
}

func newStore() *Store { return NewStore(lru.NewPool[string](DefaultMemory), nil) }

// forgetMessages has a store recognize no message.
func forgetMessages(s *Store) {
	s.sessions.Lock()
	defer s.sessions.Unlock()
	e := s.sessions.Get("s")
	for i, l := range e.Value {
		forgotten := *l
		forgotten.messages, forgotten.known, forgotten.shown = nil, nil, nil
		e.Value[i] = &forgotten
	}
}

// grow returns the messages of the next request: more of them, and sometimes earlier ones rewritten or cut.
func grow(dice *rand.Rand, messages []string) []string {
	messages = slices.Clone(messages)
	user := func() string {
		return [...]string{
			`{"role":"user","content":"Hello"}`,
			`{"role":"user","content":[{"type":"text","text":"In /src/a.go"}]}`,
			`{"role":"user","content":"Go\n<system-reminder>\n<total_tokens>9 tokens left</total_tokens>\n</system-reminder>"}`,
			`{"role":"user","content":[{"type":"text","text":"A"},{"type":"text","text":` +
				`"<total_tokens>8 tokens left</total_tokens>"}]}`,
			`{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"a result"}]}`,
			`{"role":"system","content":"<total_tokens>7 tokens left</total_tokens>"}`,
			`{"role":"system","content":"Mind the style."}`,
		}[dice.IntN(7)]
	}
	assistant := func() string {
		return [...]string{
			`{"role":"assistant","content":"I look. "}`,
			`{"role":"assistant","content":[{"type":"text","text":"I look."}]}`,
			`{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"A",` +
				`"arguments":"{ }"}}]}`,
		}[dice.IntN(3)]
	}
	if len(messages) > 0 {
		messages = append(messages, assistant())
	}
	messages = append(messages, `{"role":"user","content":"Begin"}`)
	for range dice.IntN(3) {
		messages = append(messages, user())
	}
	switch i := dice.IntN(len(messages)); dice.IntN(8) {
	case 0:
		messages[i] = user()
	case 1:
		messages = slices.Delete(messages, i, i+1)
	}
	if len(messages) == 0 {
		messages = []string{user()}
	}
	return messages
}

// tools returns some tools, most times the same.
func tools(dice *rand.Rand) string {
	return [...]string{
		toolA + "," + toolB, toolA + "," + toolB, toolA + "," + toolB, toolB + "," + toolA, toolA + "," + toolB + "," + toolC,
		toolA,
	}[dice.IntN(6)]
}
