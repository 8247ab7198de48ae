// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// talk is a conversation in tool calls: each answer thinks, says something and
// calls a tool.
type talk struct {
	t      *testing.T
	sim    *Simulator
	at     time.Duration
	system string
	think  map[int]bool   // turns whose thinking is left out
	result map[int]string // results that are replaced
	say    map[int]string // texts that are replaced
	client bool           // tell the simulator what the client holds
	ask    string         // conversation
}

func newTalk(t *testing.T, model string) *talk {
	r := Lookup("", model, today)
	r.MinTokens = 1
	return &talk{
		t: t, sim: NewSimulator(SimulatorConfig{Rules: func(string, time.Time) Rules { return r }}),
		system: "rules", ask: "c",
	}
}

func (k *talk) body(turns int, edited bool) string {
	var b strings.Builder
	b.WriteString(`{"model":"m","system":"` + k.system + `","messages":[{"role":"user","content":"do it"}`)
	for i := 1; i <= turns; i++ {
		text, result := fmt.Sprintf("step %d", i), fmt.Sprintf("result %d", i)
		if edited && k.say[i] != "" {
			text = k.say[i]
		}
		if edited && k.result[i] != "" {
			result = k.result[i]
		}
		b.WriteString(`,{"role":"assistant","content":[`)
		if !edited || !k.think[i] {
			fmt.Fprintf(&b, `{"type":"thinking","thinking":"thought %d","signature":"sig %d"},`, i, i)
		}
		fmt.Fprintf(&b, `{"type":"text","text":%q},{"type":"tool_use","id":"t%d","name":"r","input":{}}]},`, text, i)
		fmt.Fprintf(&b, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":%q}]}`, i, result)
	}
	b.WriteString("]}")
	return b.String()
}

func (k *talk) try(turns int) *APIError {
	k.t.Helper()
	k.at += time.Second
	c := Call{View: parse(k.t, wire.Anthropic, k.body(turns, true)), Conversation: k.ask, At: start.Add(k.at)}
	if k.client {
		c.Client = parse(k.t, wire.Anthropic, k.body(turns, false))
	}
	run, err := k.sim.Begin(c)
	if err == nil {
		run.FirstByte(start.Add(k.at))
	}
	return err
}

func (k *talk) must(turns int) {
	k.t.Helper()
	if err := k.try(turns); err != nil {
		k.t.Fatalf("request after %d turns: %v", turns, err)
	}
}

func (k *talk) refused(turns, message int, first string) {
	k.t.Helper()
	err := k.try(turns)
	want := fmt.Sprintf("messages.%d.content.0: Invalid `signature` in `thinking` block. The block is bound to a "+
		"different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "+
		"\"drop_block\". That setting requires the `thinking-binding-controls-2026-08-01` value in the `anthropic-beta` "+
		"header.", message)
	if first != "" {
		want += " Content before this block differs from when it was created, first at `" + first + "`."
	}
	if err == nil {
		k.t.Fatalf("request after %d turns was accepted", turns)
	}
	if err.Message != want {
		k.t.Errorf("request after %d turns:\n got %s\nwant %s", turns, err.Message, want)
	}
}

func set2(m *map[int]string, i int, s string) {
	if *m == nil {
		*m = map[int]string{}
	}
	(*m)[i] = s
}

func (k *talk) drop(turns ...int) {
	if k.think == nil {
		k.think = map[int]bool{}
	}
	for _, i := range turns {
		k.think[i] = true
	}
}

func grown(t *testing.T, turns int) *talk {
	k := newTalk(t, "claude-fable-5-2")
	for i := 0; i <= turns; i++ {
		k.must(i)
	}
	return k
}

func TestThinkingIsBoundToItsPast(t *testing.T) {
	t.Run("append only", func(t *testing.T) { grown(t, 6) })
	t.Run("an old result is shortened", func(t *testing.T) {
		k := grown(t, 4)
		set2(&k.result, 2, "stub")
		k.refused(4, 5, "messages.4.content.0") // the first thinking after the edit
		k.result = nil
		k.must(5) // the original is still good
	})
	t.Run("the same edit, all later thinking removed", func(t *testing.T) {
		k := grown(t, 4)
		set2(&k.result, 2, "stub")
		k.drop(3, 4)
		k.must(4)
		k.must(5)
		k.drop(1, 2)
		k.must(6)
	})
	t.Run("the system prompt changes", func(t *testing.T) {
		k := grown(t, 2)
		k.system = "other rules"
		k.refused(2, 1, "system.0")
	})
	t.Run("an edit in the request that first shows the thinking", func(t *testing.T) {
		k := grown(t, 3)
		set2(&k.result, 3, "stub") // in front of turn 4, as yet unseen
		k.refused(4, 7, "messages.6.content.0")
	})
	t.Run("an edit from the first time on", func(t *testing.T) {
		k := grown(t, 3)
		set2(&k.result, 4, "stub") // result 4 is sent for the first time
		k.must(4)
		k.must(5)
		k.result = nil // and the original is another text now
		k.refused(6, 9, "messages.8.content.0")
	})
	t.Run("another model does not check", func(t *testing.T) {
		k := newTalk(t, "claude-sonnet-4-6")
		k.must(0)
		k.must(1)
		k.must(2)
		set2(&k.result, 1, "stub")
		k.must(3)
	})
	t.Run("moved markers", func(t *testing.T) {
		k := grown(t, 2)
		body := strings.Replace(k.body(3, true), `"content":"result 1"`,
			`"content":"result 1","cache_control":{"type":"ephemeral"}`, 1)
		if _, err := k.sim.Begin(Call{View: parse(t, wire.Anthropic, body), Conversation: "c", At: start}); err != nil {
			t.Error(err)
		}
	})
}

func TestWhichThinkingMayGo(t *testing.T) {
	t.Run("all", func(t *testing.T) {
		k := grown(t, 4)
		k.drop(1, 2, 3, 4)
		k.must(4)
	})
	t.Run("a run at the start", func(t *testing.T) {
		k := grown(t, 4)
		k.drop(1, 2)
		k.must(4)
		k.must(5)
	})
	t.Run("a run at the end", func(t *testing.T) {
		k := grown(t, 4)
		k.drop(3, 4)
		k.must(4)
		k.must(5)
	})
	t.Run("one in the middle", func(t *testing.T) {
		k := grown(t, 4)
		k.drop(2)
		k.refused(4, 5, "")
	})
	t.Run("one in the middle, when the last is first shown", func(t *testing.T) {
		k := grown(t, 3)
		k.drop(2, 3)
		k.refused(4, 7, "")
	})
	t.Run("what is gone comes back", func(t *testing.T) {
		k := grown(t, 4)
		k.drop(1, 2)
		k.must(4)
		k.must(5) // thinking 5 was written without 1 and 2
		k.think = nil
		k.refused(5, 9, "")
	})
	t.Run("what was never shown comes back", func(t *testing.T) {
		k := grown(t, 2)
		k.drop(3)
		k.must(3)
		k.must(4) // thinking 4 was written without 3
		k.think = nil
		k.refused(4, 7, "")
	})
}

func TestThinkingFromElsewhere(t *testing.T) {
	t.Run("a conversation that began elsewhere", func(t *testing.T) {
		k := newTalk(t, "claude-opus-5-5")
		k.must(7)
		k.must(8)
		set2(&k.result, 3, "stub")
		k.refused(8, 7, "messages.6.content.0")
	})
	t.Run("two conversations side by side", func(t *testing.T) {
		k := newTalk(t, "claude-opus-5-5")
		other := *k
		other.system, other.ask = "side task", "d"
		for i := range 5 {
			k.must(i)
			if i > 0 { // the same signatures under another prefix
				other.refused(i, 1, "")
			}
		}
	})
	t.Run("the same thought in two conversations", func(t *testing.T) {
		k := newTalk(t, "claude-opus-5-5")
		other := *k
		other.system, other.ask = "another user", "d"
		for i := range 5 {
			k.must(i)
			other.must(i)
		}
		set2(&other.result, 2, "stub")
		other.refused(4, 5, "messages.4.content.0")
	})
	t.Run("a branch from the middle", func(t *testing.T) {
		k := grown(t, 4)
		set2(&k.result, 3, "rerun") // the client went back and ran the tool again
		k.must(3)
	})
	t.Run("a side task in the same conversation", func(t *testing.T) {
		k := grown(t, 3)
		if _, err := k.sim.Begin(Call{View: parse(t, wire.Anthropic,
			`{"model":"m","messages":[{"role":"user","content":"title?"}]}`), Conversation: "c", At: start}); err != nil {
			t.Fatal(err)
		}
		k.must(4)
	})
}

func TestEditsOfAnAnswerBeforeItIsSentBack(t *testing.T) {
	// Two thinking blocks in one answer: the text between them is bound as well.
	view := func(text string) *wire.View {
		return parse(t, wire.Anthropic, `{"model":"m","messages":[`+hi+`,{"role":"assistant","content":[`+
			`{"type":"thinking","thinking":"a","signature":"s1"},{"type":"text","text":"`+text+
			`"},{"type":"thinking","thinking":"b","signature":"s2"},`+use+`]},`+user("["+result+"]")+`]}`)
	}
	for text, accepted := range map[string]bool{"as written": true, "edited": false} {
		k := newTalk(t, "claude-fable-5-2")
		if _, err := k.sim.Begin(Call{View: parse(t, wire.Anthropic, ask(hi, "")), At: start}); err != nil {
			t.Fatal(err)
		}
		_, err := k.sim.Begin(Call{View: view(text), Client: view("as written"), At: start})
		if accepted != (err == nil) {
			t.Errorf("%s: %v", text, err)
		}
		if !accepted && !strings.HasPrefix(err.Message, "messages.1.content.2: Invalid `signature`") {
			t.Errorf("%s: %v", text, err)
		}
	}
	k := newTalk(t, "claude-fable-5-2")
	k.client = true
	for i := range 6 {
		set2(&k.result, i, "stub") // from the first time on
		k.must(i)
	}
}

func TestDropBlock(t *testing.T) {
	k := grown(t, 3)
	set2(&k.result, 2, "stub")
	body := strings.TrimSuffix(k.body(3, true), "}") +
		`,"thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}}`
	v := parse(t, wire.Anthropic, body)
	run, err := k.sim.Begin(Call{View: v, Conversation: "c", At: start})
	if err != nil {
		t.Fatal(err)
	}
	dropped := run.Dropped()
	if len(dropped) != 1 || path(v, dropped[0]) != "messages.5.content.0" {
		t.Errorf("dropped %v", dropped)
	}
	if n := k.sim.Count(v); run.Usage().Prompt() != n-int64(Tokens(v, &v.Blocks[dropped[0]])) {
		t.Errorf("a dropped block is billed: %+v of %d", run.Usage(), n)
	}
}

func TestLatestThinkingUnmodified(t *testing.T) {
	r := Lookup("", "claude-sonnet-4-5", today)
	view := func(thoughts string) *wire.View {
		return parse(t, wire.Anthropic, ask(hi+assistant("["+thoughts+use+"]")+","+user("["+result+"]"), manual))
	}
	both := think + "," + strings.Replace(think, "s1", "s2", 1) + ","
	const refusal = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. " +
		"These blocks must remain as they were in the original response."
	for _, c := range []struct {
		name         string
		first, later string
		client       string
		want         string
	}{
		{"as it was", both, both, "", ""},
		{
			"another text under the same signature", both, strings.Replace(both, "hm", "ha", 1), "",
			"messages.1.content.0: " + refusal,
		},
		{"one of two gone", "", think + ",", both, "messages.1.content.0: " + refusal},
		{"the first of two gone", "", strings.Replace(think, "s1", "s2", 1) + ",", both, "messages.1.content.0: " + refusal},
		{"the client's own", "", both, both, ""},
	} {
		sim := NewSimulator(SimulatorConfig{Rules: func(string, time.Time) Rules { return r }})
		if c.first != "" {
			if _, err := sim.Begin(Call{View: view(c.first), At: start}); err != nil {
				t.Fatal(err)
			}
		}
		call := Call{View: view(c.later), At: start}
		if c.client != "" {
			call.Client = view(c.client)
		}
		_, err := sim.Begin(call)
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Message != c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestPastIsBounded(t *testing.T) {
	k := newTalk(t, "claude-fable-5-2")
	for i := range maxConversations + 20 {
		k.ask = fmt.Sprint(i)
		k.must(0)
	}
	for _, a := range k.sim.accounts {
		if n := len(a.past.conversations); n != maxConversations {
			t.Errorf("%d conversations are kept", n)
		}
	}
}

func TestConversationKey(t *testing.T) {
	view := func(body string) *wire.View { return parse(t, wire.Anthropic, body) }
	a := Call{View: view(ask(hi, ""))}
	b := Call{View: view(ask(hi+assistant(`"x"`)+","+hi, ""))}
	if conversationKey(a) != conversationKey(b) {
		t.Error("the first message does not tell")
	}
	c := Call{View: view(ask(hi, `,"metadata":{"user_id":"{\"session_id\":\"s\"}"}`))}
	d := Call{View: view(ask(user(`"else"`), `,"metadata":{"user_id":"{\"session_id\":\"s\"}"}`))}
	if conversationKey(c) != conversationKey(d) || conversationKey(c) == conversationKey(a) {
		t.Error("the body's session does not tell")
	}
	d.Conversation = "x"
	if conversationKey(c) == conversationKey(d) {
		t.Error("the caller's word does not count")
	}
}
